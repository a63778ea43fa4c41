"""idx files, the format of MNIST, plain or gzipped; dimensions after the first become one row."""

from __future__ import annotations

import gzip
import struct
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.data.readers.fixed import FixedRows, check_size
from sghash.data.readers.stream import DAMAGE, StreamedRows, check_ratio
from sghash.data.sources import RowSource, bad_file

_TYPES: dict[int, np.dtype[Any]] = {
    0x08: np.dtype("u1"),
    0x09: np.dtype("i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}


class _Header(NamedTuple):
    size: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def open_source(path: Path, *, key: str | None) -> RowSource:
    """Open a file of at least two dimensions as rows (n, product of the others)."""
    header = _read_header(path)
    if len(header.shape) < 2:
        expected = "at least two dimensions"
        raise bad_file(path, 3, expected=expected, found=f"shape {header.shape}")
    return _rows(path, header)


def read_labels(path: Path) -> NDArray[Any]:
    """Read a file of one dimension."""
    header = _read_header(path)
    if len(header.shape) != 1:
        raise bad_file(path, 3, expected="one dimension", found=f"shape {header.shape}")
    source = _rows(path, header)
    return source.read(0, source.shape[0])[:, 0]


def _rows(path: Path, header: _Header) -> RowSource:
    width = 1
    for length in header.shape[1:]:
        width *= length
    shape, size = (header.shape[0], width), path.stat().st_size
    if path.suffix.lower() != ".gz":
        check_size(path, header.size, size, shape, header.dtype.itemsize)
        return FixedRows(path, header.size, shape, header.dtype)
    payload = shape[0] * shape[1] * header.dtype.itemsize
    check_ratio(path, 4, header.size + payload, size)
    return StreamedRows(path, partial(_open_gzip, path), header.size, shape, header.dtype)


def _open_gzip(path: Path) -> BinaryIO:
    return gzip.open(path, "rb")  # type: ignore[return-value]


def _read_header(path: Path) -> _Header:
    try:
        with _open_gzip(path) if path.suffix.lower() == ".gz" else open(path, "rb") as stream:
            head = stream.read(4)
            n_axes = head[3] if len(head) == 4 else 0
            lengths = stream.read(4 * n_axes)
    except (ValueError, *DAMAGE) as error:
        raise bad_file(path, 0, expected="a gzip stream", found=f"damage ({error})") from error
    if len(head) < 4 or head[:2] != b"\0\0":
        raise bad_file(path, 0, expected="two zero bytes of idx", found=repr(head[:2]))
    if head[2] not in _TYPES:
        expected = "a type code of idx (8, 9, 11, 12, 13 or 14)"
        raise bad_file(path, 2, expected=expected, found=str(head[2]))
    if not n_axes or len(lengths) < 4 * n_axes:
        expected = f"the lengths of {max(n_axes, 1)} dimensions"
        raise bad_file(path, 4, expected=expected, found=f"{len(lengths)} bytes")
    shape = struct.unpack(f">{n_axes}I", lengths)
    return _Header(4 + 4 * n_axes, shape, _TYPES[head[2]])
