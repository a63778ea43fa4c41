"""Setting some vectors aside as queries, so that none is searched for where it stands itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.data.sources import ArraySource, RowSource, block_rows
from sghash.errors import InvalidInput


class WithoutRows(RowSource):
    """All rows of a source except those in `removed` (ascending)."""

    def __init__(self, source: VectorSource, removed: NDArray[np.int64]) -> None:
        self.source, self.removed = source, removed
        self.shape, self.dtype = (source.shape[0] - len(removed), source.shape[1]), source.dtype
        # Row i here is row i + (number of removed rows before it) there.
        self._passed = removed - np.arange(len(removed))

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        first, last = self._original(start), self._original(stop - 1) + 1
        block = self.source.read(first, last)
        inside = self.removed[(self.removed >= first) & (self.removed < last)]
        return np.delete(block, inside - first, axis=0)

    def _original(self, row: int) -> int:
        return row + int(np.searchsorted(self._passed, row, side="right"))


def hold_out(
    vectors: VectorSource | NDArray[Any], n_queries: int, *, random_state: int = 0
) -> tuple[RowSource, NDArray[Any]]:
    """Split off `n_queries` rows, drawn by the seed: the source without them, and the queries."""
    n = vectors.shape[0]
    if n < 2:
        raise InvalidInput(
            f"some vectors are set aside as queries, and there is only {n}: "
            "give more vectors, or queries"
        )
    if not 1 <= n_queries <= n // 2:
        raise InvalidInput(
            f"between 1 and {n // 2} of {n} vectors can be set aside as queries, not {n_queries}: "
            "ask for fewer, or give queries"
        )
    rng = np.random.default_rng(random_state)
    chosen = np.sort(rng.choice(n, size=n_queries, replace=False))
    if isinstance(vectors, np.ndarray):
        return ArraySource(np.delete(vectors, chosen, axis=0)), vectors[chosen]
    parts = []
    for first, block in blocks_of(vectors, block_rows(vectors)):
        inside = chosen[(chosen >= first) & (chosen < first + len(block))]
        parts.append(block[inside - first])
    return WithoutRows(vectors, chosen), np.concatenate(parts)
