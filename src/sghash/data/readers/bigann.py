"""big-ann files: n and d (uint32, little endian), then the rows.

`.fbin` float32, `.f16bin` float16, `.u8bin` uint8, `.i8bin` int8, `.ibin` int32.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sghash.data.readers.fixed import FixedRows, check_size
from sghash.data.sources import RowSource, bad_file
from sghash.errors import InvalidInput

DTYPES: dict[str, np.dtype[Any]] = {
    ".fbin": np.dtype("<f4"),
    ".f16bin": np.dtype("<f2"),
    ".u8bin": np.dtype("u1"),
    ".i8bin": np.dtype("i1"),
    ".ibin": np.dtype("<i4"),
}
_HEADER = struct.Struct("<II")


def open_source(path: Path, *, key: str | None) -> RowSource:
    """Open a file whose size must be the one its header announces."""
    stored = DTYPES[path.suffix.lower()]
    shape = _read_header(path)
    check_size(path, _HEADER.size, path.stat().st_size, shape, stored.itemsize)
    return FixedRows(path, _HEADER.size, shape, stored)


def open_neighbors(path: Path, n_queries: int) -> RowSource:
    """Open the ids of a ground truth: n and k, n*k ids (uint32), n*k distances (float32)."""
    n, k = _read_header(path)
    check_size(path, _HEADER.size, path.stat().st_size, (n, k), 8)
    if n != n_queries:
        expected = f"neighbours of {n_queries} queries"
        raise bad_file(path, 0, expected=expected, found=f"those of {n}")
    return FixedRows(path, _HEADER.size, (n, k), np.dtype("<u4"))


def _read_header(path: Path) -> tuple[int, int]:
    with open(path, "rb") as stream:
        head = stream.read(_HEADER.size)
    if len(head) < _HEADER.size:
        expected = "the number of rows and their width in 8 bytes"
        raise bad_file(path, 0, expected=expected, found=f"a file of {len(head)} bytes")
    n, width = _HEADER.unpack(head)
    return n, width


def write(
    stream: BinaryIO,
    blocks: Iterable[NDArray[Any]],
    shape: tuple[int, int],
    dtype: np.dtype[Any],
) -> None:
    """Write the header and blocks of rows."""
    if max(shape) >= 1 << 32:
        raise InvalidInput(f"this format counts up to 2**32 - 1, the shape is {shape}: use .npy")
    stream.write(_HEADER.pack(*shape))
    for block in blocks:
        stream.write(np.ascontiguousarray(block).data.cast("B"))


def set_row_count(path: Path, n: int) -> None:
    """Make the header of a file that was cut after `n` rows say so."""
    with open(path, "rb+") as stream:
        stream.write(n.to_bytes(4, "little"))
