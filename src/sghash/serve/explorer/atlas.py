"""A table for Embedding Atlas: positions, neighbours and every column, in one Parquet file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sghash.collection import Collection
from sghash.files import write_atomically
from sghash.kernels import hamming_neighbors
from sghash.optional import require
from sghash.serve.explorer.axes import principal_axes
from sghash.serve.explorer.sample import Sample
from sghash.validation import available_cores

_NEIGHBOURS = 10
_OWN = ("id", "key", "projection_x", "projection_y", "neighbors")


class Written(NamedTuple):
    """How many rows of how many stand in a file."""

    n_rows: int
    n_all: int


def atlas_table(sample: Sample) -> Any:
    """A pyarrow table: `id`, `projection_x`, `projection_y`, `neighbors`, and the metadata.

    `neighbors` holds places of rows in this table, as Embedding Atlas counts them without an id
    column of its own, and their distances.
    """
    pyarrow = require("pyarrow", extra="parquet")
    rows = sample.vectors
    if rows is None and sample.is_bits:
        rows = sample.bits.astype(np.float32)
    elif rows is None:
        rows = np.asarray(sample.model.decode(sample.codes), dtype=np.float32)
    places = principal_axes(rows).places(rows)
    columns: dict[str, Any] = {"id": pyarrow.array(sample.ids)}
    if any(sample.keys):
        columns["key"] = pyarrow.array(sample.keys)
    columns["projection_x"] = pyarrow.array(places[:, 0])
    columns["projection_y"] = pyarrow.array(places[:, 1])
    if sample.is_bits and len(sample):
        columns["neighbors"] = pyarrow.array(_neighbours(sample))
    for name, values in sample.metadata.items():
        columns[f"{name}_" if name in _OWN else name] = pyarrow.array(values)
    return pyarrow.table(columns)


def _neighbours(sample: Sample) -> list[dict[str, list[int]]]:
    k = min(_NEIGHBOURS + 1, len(sample))
    found = hamming_neighbors(
        sample.codes, sample.codes, k, n_bits=sample.n_bits, threads=available_cores()
    )
    listed = []
    for own, (ids, distances) in enumerate(
        zip(found.ids.tolist(), found.distances.tolist(), strict=True)
    ):
        pairs = [(i, d) for i, d in zip(ids, distances, strict=True) if i != own][:_NEIGHBOURS]
        listed.append({"ids": [i for i, _ in pairs], "distances": [d for _, d in pairs]})
    return listed


def atlas_bytes(sample: Sample) -> bytes:
    """The table as the bytes of a Parquet file."""
    parquet = require("pyarrow.parquet", extra="parquet")
    stream = io.BytesIO()
    parquet.write_table(atlas_table(sample), stream)
    return stream.getvalue()


def write_atlas(collection: Collection, path: Path) -> Written:
    """Write the Parquet file for Embedding Atlas: of a large collection a sample of its rows."""
    sample = Sample(collection)
    data = atlas_bytes(sample)
    write_atomically(path, lambda stream: stream.write(data))
    return Written(len(sample), sample.n_all)
