"""`sghash plan`: what so many vectors will take, before there are any."""

from __future__ import annotations

import click

from sghash.cli.frame import examples, json_option
from sghash.cli.printing import show
from sghash.errors import InvalidInput
from sghash.evaluation.tables import format_table


@click.command(
    "plan",
    epilog=examples(
        "sghash plan --rows 3e6 --dims 384",
        "sghash plan --rows 100000 --dims 768 --target-recall 0.99 --json",
    ),
)
@click.option("--rows", required=True, metavar="N", help="How many vectors, as in 3e6.")
@click.option("--dims", required=True, metavar="N", help="How many numbers each has.")
@click.option(
    "--target-recall",
    type=float,
    metavar="SHARE",
    default=0.95,
    show_default=True,
    help="The share of the true neighbours that a search shall find.",
)
@json_option
def command(rows: str, dims: str, target_recall: float, as_json: bool) -> None:
    """Say what a collection will take: memory, disk, minutes to build, milliseconds per query.

    Bytes are counted, times are those of one core, from measured growth; beside them what the same
    vectors take without codes. Nothing is read or written.
    """
    from sghash.collection.planning.forecast import advised, forecast

    n_rows, width = _whole(rows, "--rows"), _whole(dims, "--dims")
    lines = forecast(n_rows, width, target_recall)
    facts = {
        "rows": n_rows,
        "dims": width,
        "target_recall": target_recall,
        "advice": advised(lines, target_recall),
        "ways": [line._asdict() for line in lines],
    }
    heads = ["way", "recall", "memory", "disk", "build min", "ms/query"]
    cells = [
        [
            line.name,
            _span(line.recall),
            _size(line.memory_bytes),
            _size(line.disk_bytes),
            f"{line.build_minutes:.1f}",
            f"{line.milliseconds:.2f}",
        ]
        for line in lines
    ]
    text = [
        f"{n_rows:,} vectors of {width} numbers, one core, recall {target_recall:g}:",
        *format_table(heads, cells).split("\n"),
        str(facts["advice"]),
    ]
    show(facts, text, as_json=as_json)


def _whole(text: str, name: str) -> int:
    """A whole number, also as 3e6 or 3_000_000."""
    try:
        value = float(text.replace(",", "").replace("_", ""))
    except ValueError as error:
        raise InvalidInput(f"{name} takes a number such as 3e6, got {text[:40]!r}") from error
    if not 1 <= value <= 1e13 or value != int(value):
        raise InvalidInput(f"{name} must be a whole number from 1 to 1e13, got {text[:40]!r}")
    return int(value)


def _span(recall: tuple[float, float]) -> str:
    low, high = recall
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _size(n_bytes: float) -> str:
    """Bytes in the unit that leaves a number people can read."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.2f} TB"
