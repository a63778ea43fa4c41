"""`sghash evaluate`: how good and how small codes are on your own vectors."""

from __future__ import annotations

from pathlib import Path

import click

import sghash
from sghash.cli.argument_types import DataSetName, ModelName, check_plot
from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import (
    load_named,
    metric_of,
    open_rows,
    path_type,
    rows_options,
    rows_type,
    threads_option,
)
from sghash.cli.printing import say, shortened, show
from sghash.errors import InvalidInput
from sghash.evaluation.pipelines import PipelineResult, plain
from sghash.evaluation.runs import RunProgress
from sghash.files import storage_errors


@click.command(
    "evaluate",
    epilog=examples(
        "sghash evaluate vectors.npy",
        "sghash evaluate base.fvecs --queries query.fvecs --bits 32,64 --models SGH,ITQ",
        "sghash evaluate --dataset digits",
    ),
)
@click.argument("vectors", type=rows_type, required=False)
@click.option(
    "--dataset", type=DataSetName(), help="A built-in or catalogued data set instead of VECTORS."
)
@click.option("--queries", type=rows_type, help="What to look up; else some VECTORS are set aside.")
@click.option(
    "--models",
    type=ModelName(),
    default="SGH,ITQ,GenerativeQuantizer,ProductQuantizer",
    show_default=True,
    help="Names with commas, each as in sghash fit --model.",
)
@click.option(
    "--bits",
    metavar="N,N,...",
    default="32,64,128,256",
    show_default=True,
    help="Code lengths; shorter ones are tried where they may be enough.",
)
@click.option(
    "--metric",
    type=click.Choice(["l2", "ip", "cosine"]),
    help="What makes vectors neighbours; l2 if not given, a data set knows its own.",
)
@click.option(
    "--recall",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    default=0.9,
    show_default=True,
    help="Recall10@100 wanted of codes alone.",
)
@click.option(
    "--target-recall",
    type=float,
    metavar="SHARE",
    default=0.95,
    show_default=True,
    help="Recall10@10 wanted of a code and the stages that follow it.",
)
@click.option("--codes-only", is_flag=True, help="Judge codes without the stages that follow.")
@click.option(
    "--plot", type=path_type, help="Draw recall against bytes and speed, as .svg, .png or .pdf."
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=1,
    show_default=True,
    help="Fits per model and length.",
)
@click.option("--rows", type=path_type, help="File that keeps what is measured; runs resume there.")
@threads_option
@rows_options
@json_option
def command(
    vectors: str | None,
    dataset: str | None,
    queries: str | None,
    models: str,
    bits: str,
    metric: str | None,
    recall: float,
    target_recall: float,
    codes_only: bool,
    plot: Path | None,
    seeds: int,
    rows: Path | None,
    threads: int | None,
    key: str | None,
    start: int,
    stop: int | None,
    as_json: bool,
) -> None:
    """Fit models of several lengths on VECTORS and report recall, bytes and speed of each.

    Codes are judged alone, and with what may follow them: their decoder, or kept vectors. The
    pipeline of the fewest bytes that reaches --target-recall is recommended.

    VECTORS is a file, a folder of parts, a data set such as digits.base, or - for stdin.
    """
    if (vectors is None) == (dataset is None):
        raise InvalidInput("give either a file of vectors or --dataset")
    if rows is not None and rows.exists() and not rows.is_file():
        raise InvalidInput(f"{rows} is not a file: give --rows a file, or a name for a new one")
    if dataset is not None and (queries, metric, key, start, stop) != (None, None, None, 0, None):
        raise InvalidInput(
            "a --dataset brings its queries and its metric, whole: leave out what chooses others, "
            f"or say {dataset}.base instead of --dataset"
        )
    check_plot(plot)
    if plot is not None and codes_only:
        raise InvalidInput("--plot draws pipelines: leave out --codes-only")
    if dataset is not None:
        data = load_named(dataset)
    else:
        data = open_rows(vectors or "", key=key, start=start, stop=stop)
    result = sghash.evaluate(
        data,
        None if queries is None else open_rows(queries),
        models=split_models(models),
        n_bits=_lengths(bits),
        metric=metric or metric_of(vectors),
        wanted_recall=recall,
        target_recall=None if codes_only else target_recall,
        seeds=range(seeds),
        rows=rows,
        threads=threads,
        callback=_tell,
    )
    if plot is not None:
        _draw(plot, result.pipelines)
    facts = {
        "shortest": result.shortest,
        "wanted": list(result.wanted),
        "target_recall": result.target_recall,
        "recommended": plain(result.recommended),
        "pipelines": [plain(one) for one in result.pipelines],
        "rows": result.records(),
    }
    show(facts, result.text().split("\n"), as_json=as_json)


def _draw(path: Path, pipelines: list[PipelineResult]) -> None:
    from sghash.plots.pipelines import pipeline_panels

    figure = pipeline_panels(pipelines)
    with storage_errors(path):
        figure.savefig(path)


def split_models(text: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _lengths(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InvalidInput(f"--bits takes whole numbers with commas, got {text!r}") from error


def _tell(progress: RunProgress) -> None:
    if progress.done == progress.total:
        return
    left = "" if progress.seconds_left is None else f", about {progress.seconds_left:.0f} s left"
    text = f"[{progress.done + 1}/{progress.total}] {progress.following}{left}"
    say(shortened(text), err=True)
