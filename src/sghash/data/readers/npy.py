"""NumPy's `.npy`: a magic number, a header that is a Python literal, and the numbers."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from sghash.data.readers.fixed import FixedColumns, FixedRows, check_size
from sghash.data.sources import RowSource, bad_file

MAGIC = b"\x93NUMPY"
_MAX_HEADER = 1 << 16


class NpyHeader(NamedTuple):
    """Where the numbers begin in the stream, and what they are."""

    size: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    #: Whether columns stand one after the other (Fortran order), not rows.
    by_columns: bool = False


def open_source(path: Path, *, key: str | None) -> RowSource:
    """Open an array of two dimensions; one of a single dimension is one row."""
    size = path.stat().st_size
    with open(path, "rb") as stream:
        header = read_header(stream, path)
    check_size(path, header.size, size, header.shape, header.dtype.itemsize)
    kind = FixedColumns if header.by_columns else FixedRows
    return kind(path, header.size, table_shape(path, header), header.dtype)


def read_array(path: Path) -> NDArray[Any]:
    """Load a whole array of plain numbers, of any shape."""
    with open(path, "rb") as stream:
        header = read_header(stream, path)
        check_size(path, header.size, path.stat().st_size, header.shape, header.dtype.itemsize)
        if header.dtype.kind not in "fiub":
            raise bad_file(path, header.size, expected="numbers", found=str(header.dtype))
        values = np.fromfile(stream, dtype=header.dtype)
    return values.reshape(header.shape, order="F" if header.by_columns else "C")


def table_shape(path: Path, header: NpyHeader) -> tuple[int, int]:
    """The shape (n, d) of an array of two dimensions; one vector alone is (1, d)."""
    if len(header.shape) == 1:
        return 1, header.shape[0]
    if len(header.shape) != 2:
        expected = "an array of two dimensions"
        raise bad_file(path, header.size, expected=expected, found=f"shape {header.shape}")
    return header.shape[0], header.shape[1]


def read_header(stream: BinaryIO, path: Path) -> NpyHeader:
    """Read and check the header at the start of `stream`, a part of the file `path`."""
    head = stream.read(8)
    if head[:6] != MAGIC or len(head) < 8:
        raise bad_file(path, 0, expected=f"the bytes {MAGIC!r} of .npy", found=repr(head[:6]))
    if head[6] not in (1, 2, 3):
        raise bad_file(path, 6, expected="format version 1, 2 or 3", found=str(head[6]))
    width = 2 if head[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    if not 0 < length <= _MAX_HEADER:
        expected = f"a header of 1 to {_MAX_HEADER} bytes"
        raise bad_file(path, 8, expected=expected, found=str(length))
    text = stream.read(length)
    if len(text) != length:
        expected = f"a header of {length} bytes"
        raise bad_file(path, 8 + width, expected=expected, found=f"the end after {len(text)}")
    shape, dtype, by_columns = _parse(text, path, 8 + width)
    return NpyHeader(8 + width + length, shape, dtype, by_columns)


def _parse(text: bytes, path: Path, offset: int) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    expected = "a header with descr, fortran_order and shape"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # strange literals in a damaged header
            fields = ast.literal_eval(text.decode("latin1").strip())
            dtype = np.dtype(fields["descr"]) if isinstance(fields["descr"], str) else None
        shape, fortran = fields["shape"], fields["fortran_order"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise bad_file(path, offset, expected=expected, found=repr(text[:60])) from error
    if dtype is None or dtype.hasobject:
        raise bad_file(path, offset, expected="a plain type", found=repr(fields["descr"])[:60])
    if not isinstance(shape, tuple) or not all(type(length) is int for length in shape):
        raise bad_file(path, offset, expected="a shape of whole numbers", found=repr(shape)[:60])
    if not isinstance(fortran, bool):
        raise bad_file(path, offset, expected="an order", found=repr(fortran)[:60])
    return shape, dtype, fortran and len(shape) > 1


def write(
    stream: BinaryIO,
    blocks: Iterable[NDArray[Any]],
    shape: tuple[int, int],
    dtype: np.dtype[Any],
) -> None:
    """Write blocks of rows that make up an array of `shape` and `dtype`."""
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    npy_format.write_array_header_1_0(stream, header)
    for block in blocks:
        stream.write(np.ascontiguousarray(block).data.cast("B"))
