"""Rows of one fixed length at a known place in a file, read by position.

Positional reads, not a memory map: a file that shrinks while it is open is then an error with a
sentence instead of the death of the process, and a source can be sent to another process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.data.sources import RowSource, bad_file, check_stored


class FixedRows(RowSource):
    """`shape` (n, d) numbers of type `stored` that begin at byte `offset` of `path`."""

    def __init__(
        self, path: Path, offset: int, shape: tuple[int, int], stored: np.dtype[Any]
    ) -> None:
        check_stored(path, offset, shape, stored)
        self.path, self.offset, self.stored = path, offset, stored
        self.shape, self.dtype = shape, stored.newbyteorder("=")

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        width = self.shape[1]
        count = (stop - start) * width
        first = self.offset + start * width * self.stored.itemsize
        values = np.fromfile(self.path, dtype=self.stored, count=count, offset=first)
        if len(values) != count:
            end = first + values.nbytes
            expected = f"{count} numbers from byte {first} on"
            raise bad_file(self.path, end, expected=expected, found=f"the end after {len(values)}")
        return values.reshape(stop - start, width).astype(self.dtype, copy=False)


class FixedColumns(RowSource):
    """Like `FixedRows`, for numbers that stand column by column (Fortran order)."""

    def __init__(
        self, path: Path, offset: int, shape: tuple[int, int], stored: np.dtype[Any]
    ) -> None:
        check_stored(path, offset, shape, stored)
        self.path, self.offset, self.stored = path, offset, stored
        self.shape, self.dtype = shape, stored.newbyteorder("=")

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        n, width = self.shape
        rows = np.empty((stop - start, width), dtype=self.dtype)
        with open(self.path, "rb") as stream:
            for column in range(width):
                first = self.offset + (column * n + start) * self.stored.itemsize
                stream.seek(first)
                values = np.fromfile(stream, dtype=self.stored, count=stop - start)
                if len(values) != stop - start:
                    expected = f"{stop - start} numbers from byte {first} on"
                    found = f"the end after {len(values)}"
                    raise bad_file(self.path, first, expected=expected, found=found)
                rows[:, column] = values
        return rows


def check_size(path: Path, offset: int, size: int, shape: tuple[int, ...], itemsize: int) -> None:
    """Refuse a file whose `size` is not what a header that ends at `offset` announces."""
    if any(length < 0 for length in shape):
        raise bad_file(path, 0, expected="lengths that are not negative", found=f"shape {shape}")
    expected = offset
    payload = itemsize
    for length in shape:
        payload *= length
    expected += payload
    if size != expected:
        raise bad_file(
            path,
            min(size, expected),
            expected=f"{expected} bytes for shape {shape}",
            found=f"a file of {size} bytes",
        )
