"""`sghash fit`: vectors in, a model folder out."""

from __future__ import annotations

import time
from pathlib import Path

import click

from sghash.cli.frame import json_option, show
from sghash.cli.inputs import overwrite_option, path_type, rows_options, seed_option
from sghash.cli.progress import training_bar
from sghash.data import open_vectors
from sghash.errors import InvalidInput
from sghash.evaluation.runs import Run, build_model
from sghash.evaluation.specs import parse_model


@click.command(
    "fit",
    epilog="Examples:\n\n  sghash fit vectors.npy my-model\n\n"
    "  sghash fit base.fvecs my-model --bits 128 --model 'SGH(metric=\"cosine\")'",
)
@click.argument("vectors", type=path_type)
@click.argument("model_folder", type=path_type)
@click.option(
    "--model",
    "spec",
    default="SGH",
    show_default=True,
    help="Name of a model, with a preset (SGH.paper) or options (ITQ(n_iterations=20)).",
)
@click.option("--bits", "n_bits", type=int, default=64, show_default=True, help="Code length.")
@seed_option
@rows_options
@overwrite_option
@json_option
def command(
    vectors: Path,
    model_folder: Path,
    spec: str,
    n_bits: int,
    seed: int,
    key: str | None,
    start: int,
    stop: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Learn a model from VECTORS (a file or a folder of parts) and write it to MODEL_FOLDER."""
    if model_folder.exists() and not overwrite:
        raise InvalidInput(f"{model_folder} exists already: give another folder or --overwrite")
    source = open_vectors(vectors, key=key, start=start, stop=stop)
    name, options = parse_model(spec)
    model = build_model(Run(name, n_bits, seed, options), "l2")
    started = time.perf_counter()
    with training_bar(f"fitting {type(model).__name__}") as bar:
        if "callback" in model.get_params():
            model.set_params(callback=bar)
        model.fit(source)
    seconds = time.perf_counter() - started
    model.save(model_folder, overwrite=overwrite)
    facts = {
        "model": type(model).__name__,
        "folder": str(model_folder),
        "n_bits": n_bits,
        "vectors": source.shape[0],
        "dimensions": source.shape[1],
        "seconds": round(seconds, 3),
        "fingerprint": model.fingerprint_,
    }
    text = (
        f"{facts['model']} with {n_bits} bits learned from {source.shape[0]} vectors of "
        f"{source.shape[1]} numbers in {seconds:.1f} s: {model_folder}"
    )
    show(facts, text, as_json=as_json)
