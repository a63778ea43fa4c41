"""`sghash fit`: vectors in, a model folder out."""

from __future__ import annotations

from pathlib import Path

import click

from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import (
    metric_of,
    open_rows,
    overwrite_option,
    path_type,
    rows_options,
    rows_type,
)
from sghash.cli.model_choice import Choice, build, fit, model_options
from sghash.cli.printing import show
from sghash.cli.streams import refuse_existing
from sghash.errors import InvalidInput


@click.command(
    "fit",
    epilog=examples(
        "sghash fit vectors.npy my-model",
        "sghash fit base.fvecs my-model --bits 128 --metric cosine -o n_steps=2000",
        "sghash fit digits.base my-model --model 'ITQ(n_iterations=20)'",
    ),
)
@click.argument("vectors", type=rows_type)
@click.argument("model_folder", type=path_type)
@model_options
@rows_options
@overwrite_option
@json_option
def command(
    vectors: str,
    model_folder: Path,
    spec: str,
    n_bits: int,
    metric: str | None,
    options: tuple[str, ...],
    seed: int,
    key: str | None,
    start: int,
    stop: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Learn a model from VECTORS and write it to MODEL_FOLDER.

    VECTORS is a file, a folder of parts, a data set such as digits.base, or - for stdin.
    """
    # Loaded here, so that --help stays quick.
    from sghash.models.store import refuse_other

    refuse_existing(model_folder, overwrite)
    refuse_other(model_folder)
    model = build(Choice(spec, n_bits, metric, options, seed), metric_of(vectors))
    if metric is not None and model.metric is None:
        raise InvalidInput(f"{type(model).__name__} takes no account of a metric: leave it out")
    rows = open_rows(vectors, key=key, start=start, stop=stop)
    fitted = fit(model, rows)
    model.save(model_folder, overwrite=overwrite)
    facts = {
        "model": type(model).__name__,
        "folder": str(model_folder),
        "n_bits": n_bits,
        "vectors": fitted.n,
        "vectors_read": fitted.n_read,
        "dimensions": rows.shape[1],
        "seconds": round(fitted.seconds, 3),
        "fingerprint": model.fingerprint_,
    }
    text = (
        f"{facts['model']} with {n_bits} bits learned from {fitted} of "
        f"{rows.shape[1]} numbers in {fitted.seconds:.1f} s: {model_folder}"
    )
    show(facts, text, as_json=as_json)
