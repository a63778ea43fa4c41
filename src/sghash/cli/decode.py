"""`sghash decode`: packed codes in, vectors out, block by block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

import sghash
from sghash.blocks import VectorSource
from sghash.cli.frame import examples, json_option, show
from sghash.cli.inputs import (
    open_rows,
    overwrite_option,
    path_type,
    rows_options,
    rows_type,
    target_type,
)
from sghash.cli.streams import STDIO, write_rows
from sghash.errors import InvalidInput


class DecodedRows:
    """The reconstructions of a source of codes, computed when they are read."""

    def __init__(self, model: Any, codes: VectorSource) -> None:
        self._model, self._codes = model, codes
        self.shape = (codes.shape[0], int(model.n_features_in_))
        self.dtype = np.dtype(np.float32)

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Reconstructions of codes `start` to `stop` - 1."""
        vectors: NDArray[np.float32] = self._model.decode(self._codes.read(start, stop))
        return vectors


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
    source = open_rows(codes, key=key, start=start, stop=stop)
    if source.dtype != np.uint8:
        raise InvalidInput(
            f"{codes} holds {source.dtype}, packed codes are uint8: make them by sghash encode"
        )
    rows = DecodedRows(model, source)
    written = write_rows("decoding", rows, vectors, overwrite=overwrite)
    facts = {"vectors": vectors, "n": written.shape[0], "dimensions": written.shape[1]}
    text = f"{facts['n']} vectors of {facts['dimensions']} numbers: {vectors}"
    show(facts, text, as_json=as_json, err=vectors == STDIO)
