"""Keeping the best k of a scan without a heap.

Distances are small integers, so each query keeps a histogram of what it accepted and a `limit`,
the smallest distance within which it already has k rows. Rows are seen in rising order, so a
later row at that distance loses the tie: only rows strictly below the limit are accepted.
Accepted rows go to a buffer; when it is full, those beyond the limit are dropped. Fewer than k
rows lie below the limit and at most k on it, so a buffer of 3 k rows never overflows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled, inlined

# An entry of a buffer is row << DISTANCE_BITS | distance: one number, one cache line.
DISTANCE_BITS = 13
DISTANCE_MASK = (1 << DISTANCE_BITS) - 1


class Selection(NamedTuple):
    """The state of a scan for a group of queries; `k` = 0 keeps everything below the limit."""

    k: int
    limits: NDArray[np.int64]
    live: NDArray[np.int64]
    used: NDArray[np.int64]
    histogram: NDArray[np.int32]
    entries: NDArray[np.int64]


def new_selection(n_queries: int, k: int, n_bits: int, n_rows: int) -> Selection:
    """State for the best `k` of at most `n_rows` rows."""
    capacity = min(3 * k, n_rows) + 64
    return Selection(
        k,
        np.full(n_queries, n_bits + 1, dtype=np.int64),
        np.zeros(n_queries, dtype=np.int64),
        np.zeros(n_queries, dtype=np.int64),
        np.zeros((n_queries, n_bits + 2), dtype=np.int32),
        np.empty((n_queries, capacity), dtype=np.int64),
    )


def range_selection(n_queries: int, radius: int, n_bits: int, n_rows: int) -> Selection:
    """State that keeps every row within `radius`, of at most `n_rows` rows."""
    state = new_selection(n_queries, 0, n_bits, 0)
    state.limits[:] = min(radius, n_bits) + 1
    return state._replace(entries=np.empty((n_queries, n_rows + 64), dtype=np.int64))


def unpack_entries(entries: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Distances and rows of buffer entries."""
    return (entries & DISTANCE_MASK).astype(np.int32), entries >> DISTANCE_BITS


@inlined
def accept(state: Any, query: int, row: int, distance: int) -> None:
    """Take a row whose distance is below the query's limit, and tighten the limit."""
    used = state.used[query]
    if used == state.entries.shape[1]:
        used = _drop_beyond_limit(state, query)
    state.entries[query, used] = row << DISTANCE_BITS | distance
    state.used[query] = used + 1
    if state.k == 0:
        return
    limit = state.limits[query]
    live = state.live[query] + 1
    state.histogram[query, distance] += 1
    # k rows nearer than the limit: the limit's own distance is closed as well, for rows rise.
    while live >= state.k:
        limit -= 1
        live -= state.histogram[query, limit]
    state.live[query] = live
    state.limits[query] = limit


@compiled
def _drop_beyond_limit(state: Any, query: int) -> int:
    limit = state.limits[query]
    kept = 0
    for i in range(state.used[query]):
        entry = state.entries[query, i]
        if entry & DISTANCE_MASK <= limit:
            state.entries[query, kept] = entry
            kept += 1
    return kept


@compiled
def write_sorted(
    state: Any, k: int, out_distances: NDArray[np.int32], out_rows: NDArray[np.int64]
) -> None:
    """Write each query's best `k` by (distance, row): a counting sort, stable in the row."""
    n_levels = state.histogram.shape[1]
    places = np.empty(n_levels + 1, dtype=np.int64)
    for query in range(out_rows.shape[0]):
        places[:] = 0
        for i in range(state.used[query]):
            places[(state.entries[query, i] & DISTANCE_MASK) + 1] += 1
        for level in range(1, n_levels + 1):
            places[level] += places[level - 1]
        for i in range(state.used[query]):
            distance = state.entries[query, i] & DISTANCE_MASK
            place = places[distance]
            places[distance] = place + 1
            if place < k:
                out_distances[query, place] = distance
                out_rows[query, place] = state.entries[query, i] >> DISTANCE_BITS
