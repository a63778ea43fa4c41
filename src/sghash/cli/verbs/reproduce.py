"""`sghash reproduce`: the paper's figures and tables, each with a verdict."""

from __future__ import annotations

from pathlib import Path

import click

from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import path_type, threads_option
from sghash.cli.printing import say, show
from sghash.errors import InvalidInput
from sghash.experiments import EXPERIMENTS, STUDIES
from sghash.experiments.experiment import Context
from sghash.experiments.reproduction import Result, make_context, reproduce, write
from sghash.experiments.sets import check_any_set


@click.command(
    "reproduce",
    epilog=f"Claims of the paper: {', '.join(EXPERIMENTS)}.\n\n"
    + f"Studies beyond it, each by its name: {', '.join(STUDIES)}.\n\n"
    + examples(
        "sghash reproduce all --quick",
        "sghash reproduce recall_l2 --seeds 3",
        "sghash reproduce all --out docs",
    ),
)
@click.argument(
    "name", default="all", type=click.Choice(["all", *EXPERIMENTS, *STUDIES]), metavar="[NAME]"
)
@click.option("--quick", is_flag=True, help="Small built-in data: minutes, and no real verdicts.")
@click.option(
    "--originals", is_flag=True, help="SIFT-1M, GIST-1M and WORD2VEC themselves: downloads 6 GB."
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    metavar="N",
    help="Repetitions of SGH and ITQ: 5, or 2 if quick.",
)
@click.option(
    "--stream-rows",
    type=click.IntRange(1000),
    metavar="N",
    help="Rows of the stream in streamed_recall: 100,000,000, or 40,000 if quick.",
)
@click.option(
    "--out",
    type=path_type,
    default=Path("reproduction"),
    show_default=True,
    help="Folder of results.html, results.md, figures and rows.",
)
@click.option("--rows-only", is_flag=True, help="Measure and keep rows; write no page.")
@threads_option
@json_option
def command(
    name: str,
    quick: bool,
    originals: bool,
    seeds: int | None,
    stream_rows: int | None,
    out: Path,
    rows_only: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Measure the paper's claims again: one experiment, or all, on one page with a verdict each.

    Real data are looked for in the folder SGHASH_DATA. Whatever was measured stands in the rows
    below --out: a run that was interrupted goes on from there. Several may measure different
    experiments at once with --rows-only; `all` then draws what all of them found.
    """
    if quick and originals:
        raise InvalidInput("--quick uses built-in data only: leave out --originals")
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"{out} is a file: name a folder for the results")
    folder = out / "results" / "rows"
    if name == "all" and not (quick or originals or folder.exists()):
        check_any_set()  # rows that are there can be drawn without the data
    context = Context(
        out,
        quick=quick,
        seeds=seeds or (2 if quick else 5),
        threads=threads,
        originals=originals,
        stream_rows=stream_rows,
        say=lambda text: say(text, err=True),
    )
    names = list(EXPERIMENTS) if name == "all" else [name]
    results = reproduce(names, make_context(out, context), tolerant=name == "all")
    written = [] if rows_only else write(results, out, quick=quick, originals=originals)
    facts = {"pages": [str(path) for path in written], "experiments": list(map(_facts, results))}
    lines: list[str] = []
    for result in results:
        lines += [f"{result.experiment.name}: {result.verdict.outcome}"]
        lines += [f"  {result.verdict.sentence}"]
    show(facts, [*lines, *([""] if written else []), *map(str, written)], as_json=as_json)


def _facts(result: Result) -> dict[str, object]:
    return {
        "name": result.experiment.name,
        "claim": result.experiment.claim,
        "verdict": result.verdict.outcome,
        "why": result.verdict.sentence,
        "rows": len(result.rows),
        "seconds": round(result.seconds, 1),
    }
