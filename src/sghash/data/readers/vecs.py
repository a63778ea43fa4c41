"""`.fvecs`, `.bvecs`, `.ivecs`: each row is its width (int32, little endian) and its numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sghash.data.readers.fixed import FixedRows
from sghash.data.sources import RowSource, bad_file

DTYPES: dict[str, np.dtype[Any]] = {
    ".fvecs": np.dtype("<f4"),
    ".bvecs": np.dtype("u1"),
    ".ivecs": np.dtype("<i4"),
}
_WIDTH = np.dtype("<i4")


def open_source(path: Path, *, key: str | None) -> RowSource:
    """Open a file whose rows must all have the width of the first."""
    stored = DTYPES[path.suffix.lower()]
    size = path.stat().st_size
    with open(path, "rb") as stream:
        head = stream.read(4)
    if len(head) < 4:
        expected = "the width of the first row in 4 bytes"
        raise bad_file(path, 0, expected=expected, found=f"a file of {size} bytes")
    width = int.from_bytes(head, "little", signed=True)
    if width < 1:
        raise bad_file(path, 0, expected="a width of at least 1", found=str(width))
    record = 4 + width * stored.itemsize
    if size % record:
        raise bad_file(
            path,
            size - size % record,
            expected=f"rows of {record} bytes each (width {width})",
            found=f"{size % record} bytes left over at the end",
        )
    return VecsSource(path, width, size // record)


class VecsSource(RowSource):
    """Rows of a `.?vecs` file; the width that stands before each row is checked when it is read."""

    def __init__(self, path: Path, width: int, n: int) -> None:
        stored = DTYPES[path.suffix.lower()]
        self.path, self.stored = path, stored
        self.shape, self.dtype = (n, width), stored.newbyteorder("=")
        self._records = FixedRows(path, 0, (n, 4 + width * stored.itemsize), np.dtype(np.uint8))

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        records = self._records.read(start, stop)
        widths = np.ascontiguousarray(records[:, :4]).view(_WIDTH)[:, 0]
        wrong = np.flatnonzero(widths != self.shape[1])
        if len(wrong):
            row = start + int(wrong[0])
            raise bad_file(
                self.path,
                row * records.shape[1],
                expected=f"width {self.shape[1]} before row {row}",
                found=str(widths[wrong[0]]),
            )
        values = np.ascontiguousarray(records[:, 4:]).view(self.stored)
        native: NDArray[Any] = values.astype(self.dtype, copy=False)
        return native


def write(
    stream: BinaryIO,
    blocks: Iterable[NDArray[Any]],
    shape: tuple[int, int],
    dtype: np.dtype[Any],
) -> None:
    """Write blocks of rows, each row behind its width."""
    row = np.dtype([("width", _WIDTH), ("values", dtype, (shape[1],))])
    for block in blocks:
        records = np.empty(len(block), dtype=row)
        records["width"], records["values"] = shape[1], block
        stream.write(records.tobytes())
