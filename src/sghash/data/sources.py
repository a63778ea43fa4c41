"""What every reader returns: vectors that stay in their file and are read by ranges of rows.

Each class here satisfies `sghash.blocks.VectorSource`, so models, kernels and evaluation take it
in place of an array. `np.asarray(source)` loads all of it.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.errors import BadFile, InvalidDtype, InvalidInput

BLOCK_BYTES = 1 << 24


class NoRows(BadFile):
    """A file that is whole, and has no rows: alone it is of no use, among others it is skipped."""


def bad_file(path: Path | str, offset: int, *, expected: str, found: str) -> BadFile:
    """The one sentence about a file that is not what it claims: where, what, and what instead."""
    return BadFile(f"{path}, byte {offset}: expected {expected}, found {found}")


def check_stored(path: Path, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse anything but a table of real numbers with at least one row and one column."""
    if dtype.kind not in "fiu" or dtype.itemsize > 8:
        raise bad_file(path, offset, expected="real numbers of at most 8 bytes", found=str(dtype))
    if len(shape) != 2 or min(shape) < 1:
        expected = "a table of two dimensions, both at least 1"
        error = bad_file(path, offset, expected=expected, found=f"shape {shape}")
        raise NoRows(str(error)) if len(shape) == 2 and not shape[0] else error


class RowSource(ABC):
    """Abstract: vectors `shape` (n, d) of type `dtype`, read by ranges of rows.

    `columns` are the names that the reader chose in a file with named columns or tables, in their
    order; empty where the file has no names.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    columns: tuple[str, ...] = ()

    @abstractmethod
    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop` - 1 of a range that was checked and is not empty."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop` - 1, as stored, as an array (stop - start, d)."""
        if not 0 <= start <= stop <= self.shape[0]:
            raise InvalidInput(
                f"rows {start} to {stop} were asked for, the source has {self.shape[0]}: "
                "stay within them"
            )
        if start == stop:
            return np.empty((0, self.shape[1]), dtype=self.dtype)
        return self._rows(start, stop)

    def rows(self, start: int = 0, stop: int | None = None) -> RowRange:
        """The same source seen through rows `start` to `stop` - 1 (to the end by default)."""
        return RowRange(self, start, self.shape[0] if stop is None else stop)

    def shard(self, rank: int, of: int) -> RowRange:
        """Part `rank` (from 0) of `of` contiguous parts whose sizes differ by one row at most."""
        if not 0 <= rank < of:
            raise InvalidInput(f"shard {rank} of {of} does not exist: count from 0 to {of - 1}")
        n = self.shape[0]
        return RowRange(self, rank * n // of, (rank + 1) * n // of)

    def batches(self, n_rows: int) -> Iterator[NDArray[Any]]:
        """Yield the rows in order, at most `n_rows` at a time."""
        if n_rows < 1:
            raise InvalidInput(f"a batch needs at least one row, got {n_rows}")
        return (block for _, block in blocks_of(self, n_rows))

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise InvalidInput("a source is always copied into memory: leave out copy=False")
        return np.asarray(self.read(0, self.shape[0]), dtype=dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape[0]} x {self.shape[1]} {self.dtype}>"


class RowRange(RowSource):
    """Rows `start` to `stop` - 1 of another source."""

    def __init__(self, source: VectorSource, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= source.shape[0]:
            raise InvalidInput(
                f"rows {start} to {stop} were asked for, the source has {source.shape[0]}: "
                "stay within them"
            )
        self.source, self.start = source, start
        self.shape, self.dtype = (stop - start, source.shape[1]), source.dtype

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        return self.source.read(self.start + start, self.start + stop)


class ArraySource(RowSource):
    """An array (n, d) in memory, behind the same interface as a file."""

    def __init__(self, array: NDArray[Any]) -> None:
        if array.ndim != 2:
            raise InvalidInput(f"vectors must have two dimensions, got {array.ndim}")
        if array.dtype.kind not in "fiu":
            raise InvalidDtype(f"vectors must be real numbers, got {array.dtype}")
        self.array = array
        self.shape, self.dtype = (array.shape[0], array.shape[1]), array.dtype

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        return self.array[start:stop]


class JoinedSource(RowSource):
    """Several sources of one width and type, one after the other."""

    def __init__(self, parts: Sequence[RowSource]) -> None:
        if not parts:
            raise InvalidInput("there is nothing to join: give at least one source")
        kinds = {(part.shape[1], part.dtype.str) for part in parts}
        if len(kinds) != 1:
            listed = ", ".join(f"{width} x {dtype}" for width, dtype in sorted(kinds))
            raise InvalidInput(f"the parts differ in width or type ({listed}): convert them first")
        self.parts = tuple(parts)
        self.limits = np.cumsum([0, *(part.shape[0] for part in parts)])
        self.shape, self.dtype = (int(self.limits[-1]), parts[0].shape[1]), parts[0].dtype

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        blocks = []
        for part, first in zip(self.parts, self.limits[:-1].tolist(), strict=True):
            lower, upper = max(start - first, 0), min(stop - first, part.shape[0])
            if lower < upper:
                blocks.append(part.read(lower, upper))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


class ScaledSource(RowSource):
    """Small integers and the factor that turns them back into vectors (n, d) float32."""

    def __init__(self, source: RowSource, factor: float) -> None:
        self.source, self.factor = source, np.float32(factor)
        self.shape, self.dtype = source.shape, np.dtype(np.float32)

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        return self.source.read(start, stop).astype(np.float32) * self.factor


def block_rows(vectors: VectorSource | NDArray[Any]) -> int:
    """Rows that make a block of about 16 MiB."""
    row_bytes = int(vectors.shape[1]) * int(vectors.dtype.itemsize)
    return max(1, BLOCK_BYTES // max(1, row_bytes))


def content_hash(vectors: VectorSource | NDArray[Any]) -> str:
    """SHA-256 of shape, type and numbers: the same for the same vectors in any file format."""
    dtype = vectors.dtype.newbyteorder("<")
    digest = hashlib.sha256(f"{dtype.str}:{tuple(vectors.shape)}:".encode())
    for _, block in blocks_of(vectors, block_rows(vectors)):
        digest.update(np.ascontiguousarray(block, dtype=dtype).data.cast("B"))
    return digest.hexdigest()
