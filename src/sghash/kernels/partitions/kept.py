"""Distances to kept vectors inside a compiled search, by the kind of the vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import prefetch
from sghash.kernels.vectors.comparing import COSINE, L2, distances_to_small
from sghash.kernels.vectors.stored import row_sums

_AHEAD = 6


@compiled
def _kept_distances(
    kept: NDArray[Any],
    rows: NDArray[np.int64],
    query: NDArray[np.float32],
    metric: int,
    out: NDArray[np.float32],
) -> None:
    width, n = kept.shape[1], rows.shape[0]
    row_bytes = width * kept.itemsize
    length = np.float32(0)
    if metric == COSINE:
        for i in range(width):
            length += query[i] * query[i]
        length = np.sqrt(length)
    for i in range(min(_AHEAD, n)):
        for offset in range(0, row_bytes, 64):
            prefetch(kept, rows[i] * row_bytes + offset)
    for i in range(n):
        if i + _AHEAD < n:
            for offset in range(0, row_bytes, 64):
                prefetch(kept, rows[i + _AHEAD] * row_bytes + offset)
        at = rows[i] * row_bytes
        if metric == L2:
            out[i] = row_sums(kept, at, query, 0, width, True)[0]
            continue
        product, square = row_sums(kept, at, query, 0, width, None)
        out[i] = -product
        if metric == COSINE:
            both = np.sqrt(square) * length
            out[i] = 1 - product / both if both > 0 else np.float32(1)


def order_kept(
    kept: NDArray[Any],
    rows: NDArray[np.int64],
    query: NDArray[np.float32],
    metric: int,
    out: NDArray[np.float32],
) -> None:
    """Distances of a query to kept vectors of any kind; compiled code alone calls it."""
    raise TypeError("compiled code alone can call this")


@overload(order_kept)
def _way_of(kept: Any, rows: Any, query: Any, metric: Any, out: Any) -> Any:
    """The way of the kind that an array of this type holds."""
    four = kept.dtype == types.uint8

    def plain(kept: Any, rows: Any, query: Any, metric: Any, out: Any) -> Any:
        _kept_distances(kept, rows, query, metric, out)

    def small(kept: Any, rows: Any, query: Any, metric: Any, out: Any) -> Any:
        distances_to_small(kept, rows, query, four, metric, out)

    return small if kept.dtype in (types.int8, types.uint8) else plain
