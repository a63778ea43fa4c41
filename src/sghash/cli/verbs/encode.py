"""`sghash encode`: vectors in, packed codes out, block by block."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import numpy as np

import sghash
from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import (
    open_rows,
    overwrite_option,
    path_type,
    rows_options,
    rows_type,
    target_type,
)
from sghash.cli.mapped import MappedRows
from sghash.cli.printing import show
from sghash.cli.streams import STDIO, write_rows
from sghash.errors import InvalidInput


@click.command(
    "encode",
    epilog=examples(
        "sghash encode my-model vectors.npy codes.npy",
        "sghash encode my-model parts/ codes.u8bin --sweeps 3",
        "sghash encode my-model - - < vectors.npy > codes.npy",
    ),
)
@click.argument("model_folder", type=path_type)
@click.argument("vectors", type=rows_type)
@click.argument("codes", type=target_type)
@click.option(
    "--sweeps",
    type=click.IntRange(0, 1000),
    metavar="N",
    default=0,
    help="Passes that sharpen each code (SGH only).",
)
@rows_options
@overwrite_option
@json_option
def command(
    model_folder: Path,
    vectors: str,
    codes: str,
    sweeps: int,
    key: str | None,
    start: int,
    stop: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Encode VECTORS with the model in MODEL_FOLDER and write CODES, one packed row per vector.

    VECTORS is a file, a folder of parts, a data set such as digits.base, or - for stdin. The
    ending of CODES chooses the format; - is stdout, in the form of .npy.
    """
    model = sghash.load_model(model_folder)
    source = open_rows(vectors, key=key, start=start, stop=stop)
    if source.shape[1] != model.n_features_in_:
        raise InvalidInput(
            f"{vectors} has vectors of {source.shape[1]} numbers, the model was fitted on "
            f"{model.n_features_in_}: use vectors of the same kind"
        )
    can = model.capabilities
    if sweeps and not can.sharpens:
        raise InvalidInput(
            f"--sweeps is for SGH, {type(model).__name__} cannot sharpen its codes: leave it out"
        )
    kind = np.float32 if can.codes == "numbers" else np.uint8
    rows = MappedRows(source, partial(model.encode, sweeps=sweeps), model.code_columns, kind)
    written = write_rows("encoding", rows, codes, overwrite=overwrite)
    facts = {
        "codes": codes,
        "n": written.shape[0],
        "n_bits": model.code_bits,
        "bytes": written.shape[0] * written.shape[1] * written.dtype.itemsize,
        "fingerprint": model.fingerprint_,
    }
    text = f"{facts['n']} codes of {model.code_bits} bits ({facts['bytes']} bytes): {codes}"
    show(facts, text, as_json=as_json, err=codes == STDIO)
