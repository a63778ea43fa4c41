"""Keeping the best k of a scan without a heap.

Distances are small integers, so each query keeps a histogram of what it accepted and a `limit`,
the smallest distance within which it already has k rows. Rows are seen in rising order, so a
later row at that distance loses the tie: only rows strictly below the limit are accepted.
Accepted rows go to a buffer; when it is full, those beyond the limit are dropped. Fewer than k
rows lie below the limit and at most k on it, so a buffer of 3 k rows never overflows.

The state is two plain arrays, because Numba counts references at every access of an array that
sits in a tuple, which would cost more than the selection itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled

# An entry of a buffer is row << DISTANCE_BITS | distance: one number, one cache line.
DISTANCE_BITS = 13
DISTANCE_MASK = (1 << DISTANCE_BITS) - 1

# Columns of the record of a query: rows below the limit, entries in the buffer, where the buffer
# begins, the histogram; the buffer takes the rest.
LIVE, USED, BUFFER, HISTOGRAM = range(4)


class Selection(NamedTuple):
    """The state of a scan for a group of queries; `k` = 0 keeps everything below the limit."""

    k: int
    limits: NDArray[np.int64]
    records: NDArray[np.int64]

    def entries(self, query: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Distances and rows in the buffer of a query, rows rising."""
        start = self.records[query, BUFFER]
        entries = self.records[query, start : start + self.records[query, USED]]
        return (entries & DISTANCE_MASK).astype(np.int32), entries >> DISTANCE_BITS


def _selection(n_queries: int, k: int, limit: int, capacity: int) -> Selection:
    start = HISTOGRAM + limit + 1
    # An odd number of cache lines apart, so that records do not compete for the same places.
    width = -(-(start + capacity) // 8) | 1
    records = np.empty((n_queries, width * 8), dtype=np.int64)
    records[:, :start] = 0
    records[:, BUFFER] = start
    return Selection(k, np.full(n_queries, limit, dtype=np.int64), records)


def new_selection(n_queries: int, k: int, n_bits: int, n_rows: int) -> Selection:
    """State for the best `k` of at most `n_rows` rows."""
    return _selection(n_queries, k, n_bits + 1, min(3 * k, n_rows) + 64)


def range_selection(n_queries: int, radius: int, n_bits: int, n_rows: int) -> Selection:
    """State that keeps every row within `radius`, of at most `n_rows` rows."""
    return _selection(n_queries, 0, min(radius, n_bits) + 1, n_rows)


@compiled
def accept(
    limits: NDArray[np.int64],
    records: NDArray[np.int64],
    k: int,
    query: int,
    row: int,
    distance: int,
) -> None:
    """Take a row whose distance is below the query's limit, and tighten the limit."""
    used = records[query, USED]
    place = records[query, BUFFER] + used
    if place == records.shape[1]:
        used = _drop_beyond_limit(limits, records, query)
        place = records[query, BUFFER] + used
    records[query, place] = row << DISTANCE_BITS | distance
    records[query, USED] = used + 1
    if k == 0:
        return
    live = records[query, LIVE] + 1
    records[query, HISTOGRAM + distance] += 1
    if live >= k:
        # The limit's own distance is closed as well, for rows rise.
        limit = limits[query]
        while live >= k:
            limit -= 1
            live -= records[query, HISTOGRAM + limit]
        limits[query] = limit
    records[query, LIVE] = live


@compiled
def _drop_beyond_limit(limits: NDArray[np.int64], records: NDArray[np.int64], query: int) -> int:
    start = records[query, BUFFER]
    kept = 0
    for i in range(records[query, USED]):
        entry = records[query, start + i]
        if entry & DISTANCE_MASK <= limits[query]:
            records[query, start + kept] = entry
            kept += 1
    return kept


@compiled
def write_sorted(
    records: NDArray[np.int64],
    k: int,
    out_distances: NDArray[np.int32],
    out_rows: NDArray[np.int64],
) -> None:
    """Write each query's best `k` by (distance, row): a counting sort, stable in the row."""
    places = np.empty(DISTANCE_MASK + 1, dtype=np.int64)
    for query in range(out_rows.shape[0]):
        start = records[query, BUFFER]
        n_levels = start - HISTOGRAM
        places[: n_levels + 1] = 0
        for i in range(records[query, USED]):
            places[(records[query, start + i] & DISTANCE_MASK) + 1] += 1
        for level in range(1, n_levels + 1):
            places[level] += places[level - 1]
        for i in range(records[query, USED]):
            entry = records[query, start + i]
            distance = entry & DISTANCE_MASK
            place = places[distance]
            places[distance] = place + 1
            if place < k:
                out_distances[query, place] = distance
                out_rows[query, place] = entry >> DISTANCE_BITS
