"""`sghash decode`: packed codes in, vectors out, block by block."""

from __future__ import annotations

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
    "decode",
    epilog=examples(
        "sghash decode my-model codes.npy restored.npy",
        "sghash encode my-model vectors.npy - | sghash decode my-model - restored.npy",
    ),
)
@click.argument("model_folder", type=path_type)
@click.argument("codes", type=rows_type)
@click.argument("vectors", type=target_type)
@rows_options
@overwrite_option
@json_option
def command(
    model_folder: Path,
    codes: str,
    vectors: str,
    key: str | None,
    start: int,
    stop: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Reconstruct VECTORS from CODES with the decoder of the model in MODEL_FOLDER.

    CODES is a file that `sghash encode` wrote, or - for stdin. The ending of VECTORS chooses the
    format; - is stdout, in the form of .npy.
    """
    model = sghash.load_model(model_folder)
    can = model.capabilities
    if not can.decodes:
        raise InvalidInput(
            f"{type(model).__name__} has no decoder: use SGH, ITQ or another model that has one"
        )
    source = open_rows(codes, key=key, start=start, stop=stop)
    if can.codes != "numbers" and source.dtype != np.uint8:
        raise InvalidInput(
            f"{codes} holds {source.dtype}, packed codes are uint8: make them by sghash encode"
        )
    rows = MappedRows(source, model.decode, int(model.n_features_in_), np.float32)
    written = write_rows("decoding", rows, vectors, overwrite=overwrite)
    facts = {"vectors": vectors, "n": written.shape[0], "dimensions": written.shape[1]}
    text = f"{facts['n']} vectors of {facts['dimensions']} numbers: {vectors}"
    show(facts, text, as_json=as_json, err=vectors == STDIO)
