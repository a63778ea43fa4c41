"""`sghash evaluate`: how good and how small codes are on your own vectors."""

from __future__ import annotations

from pathlib import Path

import click

import sghash
from sghash.cli.frame import json_option, show
from sghash.cli.inputs import path_type, rows_options
from sghash.data import open_vectors
from sghash.errors import InvalidInput
from sghash.evaluation.runs import RunProgress


@click.command(
    "evaluate",
    epilog="Examples:\n\n  sghash evaluate vectors.npy\n\n"
    "  sghash evaluate base.fvecs --queries query.fvecs --bits 32,64 --models SGH,ITQ --recall 0.8"
    "\n\n  sghash evaluate --dataset digits",
)
@click.argument("vectors", type=path_type, required=False)
@click.option("--dataset", help="A built-in or catalogued data set instead of VECTORS.")
@click.option("--queries", type=path_type, help="What to look up; else some VECTORS are set aside.")
@click.option("--models", default="SGH,ITQ,SignHashing,LSH", show_default=True)
@click.option("--bits", default="32,64,128,256", show_default=True, help="Code lengths.")
@click.option(
    "--metric", type=click.Choice(["l2", "ip", "cosine"]), default="l2", show_default=True
)
@click.option("--recall", type=float, default=0.9, show_default=True, help="Recall10@100 wanted.")
@click.option("--seeds", type=int, default=1, show_default=True, help="Fits per model and length.")
@click.option("--rows", type=path_type, help="File that keeps what is measured; runs resume there.")
@click.option("--threads", type=int, help="Threads for searching; all cores if not given.")
@rows_options
@json_option
def command(
    vectors: Path | None,
    dataset: str | None,
    queries: Path | None,
    models: str,
    bits: str,
    metric: str,
    recall: float,
    seeds: int,
    rows: Path | None,
    threads: int | None,
    key: str | None,
    start: int,
    stop: int | None,
    as_json: bool,
) -> None:
    """Fit models of several lengths on VECTORS and tell recall, bytes and speed of each."""
    if (vectors is None) == (dataset is None):
        raise InvalidInput("give either a file of vectors or --dataset")
    data = (
        sghash.load_dataset(dataset)
        if dataset is not None
        else open_vectors(vectors or "", key=key, start=start, stop=stop)
    )
    result = sghash.evaluate(
        data,
        None if queries is None else open_vectors(queries),
        models=split_models(models),
        n_bits=_lengths(bits),
        metric=metric,
        wanted_recall=recall,
        seeds=range(seeds),
        rows=rows,
        threads=threads,
        progress=_tell,
    )
    facts = {"shortest": result.shortest, "wanted": list(result.wanted), "rows": result.records()}
    show(facts, result.text(), as_json=as_json)


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
    click.echo(f"[{progress.done + 1}/{progress.total}] {progress.following}{left}", err=True)
