"""`sghash tune`: recall against queries per second and bytes, for a collection as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sghash.cli.argument_types import check_plot
from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import path_type
from sghash.cli.printing import show
from sghash.cli.rows_in import open_collection
from sghash.collection.lists.building import AUTO_ROWS
from sghash.collection.storage.manifest import AUTO
from sghash.evaluation.tables import format_table
from sghash.files import storage_errors


@click.command(
    "tune",
    epilog=examples(
        "sghash tune photos",
        "sghash tune photos --k 20 --plot speed.svg",
    ),
)
@click.argument("collection", type=path_type)
@click.option(
    "--k",
    "-k",
    type=click.IntRange(min=1),
    metavar="N",
    default=10,
    show_default=True,
    help="Neighbours per query.",
)
@click.option(
    "--queries",
    type=click.IntRange(min=1),
    metavar="N",
    default=200,
    show_default=True,
    help="Rows of the collection that are taken for queries.",
)
@click.option("--plot", type=path_type, help="Draw recall against speed, as .svg, .png or .pdf.")
@json_option
def command(collection: Path, k: int, queries: int, plot: Path | None, as_json: bool) -> None:
    """Measure the ways to search COLLECTION: recall, queries per second, bytes per row.

    Some of its own rows are the queries, one at a time on one thread, and none of them counts in
    its own answer. Recall is that of the kept vectors; without them, of the decoder's own answer.
    """
    check_plot(plot)
    opened = open_collection(collection)
    found, stats = opened.tune(k, n_queries=queries), opened.stats()
    per_row = round(stats["bytes_per_row"], 1)
    ways = [
        {
            "search": way.name,
            "recall": round(way.recall, 4),
            "queries_per_second": round(way.queries_per_second, 1),
            "bytes_per_row": per_row,
        }
        for way in found
    ]
    if plot is not None:
        _draw(plot, found, k)
    facts: dict[str, Any] = {
        "collection": str(collection),
        "rows": stats["n_rows"],
        "lists": stats["lists"],
        "k": k,
        "ways": ways,
    }
    heads = ["search", f"recall@{k}", "queries/s", "bytes/row"]
    rows = [
        [way.name, f"{way.recall:.3f}", f"{way.queries_per_second:,.0f}", str(per_row)]
        for way in found
    ]
    lines = format_table(heads, rows).split("\n")
    if stats["partitions"] is None and stats["n_rows"] >= AUTO_ROWS:
        lines.append('lists would visit fewer rows: create with partitions="auto"')
    elif _could_be_in_lists(stats) and not stats["rows_in_lists"]:
        lines.append("no rows are in lists yet: Collection.compact() in Python puts them there")
    show(facts, lines, as_json=as_json)


def _could_be_in_lists(stats: dict[str, Any]) -> bool:
    """Whether `compact` would make lists of these rows."""
    least = AUTO_ROWS if stats["partitions"] == AUTO else stats["partitions"]
    return least is not None and stats["n_rows"] >= int(least)


def _draw(path: Path, found: list[Any], k: int) -> None:
    from sghash.plots.curves import lines

    by_target = sorted((w for w in found if "target_recall" in w.options), key=lambda w: w.recall)
    others = [w for w in found if "target_recall" not in w.options]
    series = [(w.name, [w.recall], [w.queries_per_second]) for w in others]
    if by_target:
        rates = [w.queries_per_second for w in by_target]
        series.append(("target_recall", [w.recall for w in by_target], rates))
    figure = lines(
        series, x_label=f"Recall@{k}", y_label="queries per second, one at a time", y_scale="log"
    )
    with storage_errors(path):
        figure.savefig(path, format=path.suffix[1:].lower())
