"""Vectors larger than memory: anything that can be read by ranges of rows.

`data` makes such sources, `models` and `evaluation` consume them; they share only this protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class VectorSource(Protocol):
    """`shape` (n, d), `dtype`, and `read(start, stop)` -> rows start..stop-1 as (m, d) array."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of vectors and their width."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers; models convert to float32 block by block."""
        ...

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop` - 1, as stored."""
        ...


def read_rows(vectors: VectorSource | NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    """Rows `start` to `stop` - 1 of an array, a memory map or a source."""
    if isinstance(vectors, np.ndarray):
        return vectors[start:stop]
    return vectors.read(start, stop)


def blocks_of(
    vectors: VectorSource | NDArray[Any], n_rows: int, *, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield (first row, block of at most `n_rows` rows) over rows `start` to `stop` - 1."""
    end = vectors.shape[0] if stop is None else min(stop, vectors.shape[0])
    for first in range(start, end, n_rows):
        yield first, read_rows(vectors, first, min(first + n_rows, end))
