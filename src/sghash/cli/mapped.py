"""Rows that are computed from other rows when they are read: codes of vectors, vectors of codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.data.sources import block_rows


class MappedRows:
    """`function` of each block of `source`, rows (n, `width`) of `dtype`.

    A block is small on both sides, since codes are far smaller than their vectors; `callback`
    receives (rows done, rows in all) after each.
    """

    def __init__(
        self,
        source: VectorSource,
        function: Callable[[NDArray[Any]], NDArray[Any]],
        width: int,
        dtype: DTypeLike,
    ) -> None:
        self._source, self._function = source, function
        self.shape = (source.shape[0], width)
        self.dtype = np.dtype(dtype)
        self.callback: Callable[[int, int], None] | None = None

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """What the function makes of rows `start` to `stop` - 1."""
        made = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        n_rows = min(block_rows(self._source), block_rows(self))
        for first, block in blocks_of(self._source, n_rows, start=start, stop=stop):
            made[first - start : first - start + len(block)] = self._function(block)
            if self.callback is not None:
                self.callback(first + len(block), self.shape[0])
        return made
