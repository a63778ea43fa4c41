"""Keeping the best k scores of a scan: a buffer per query, and a bar that a row must score below.

Rows are seen in rising order, so a later row that scores what the k-th best does loses the tie.
When a buffer is full, all but the best k are dropped and the bar becomes the k-th best score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.sorting import sort_pairs
from sghash.kernels.tables.rescoring import kth_smallest


class Selection(NamedTuple):
    """Per query: entries in the buffer, the bar, and the buffers of scores and of rows."""

    used: NDArray[np.int64]
    bars: NDArray[np.float32]
    scores: NDArray[np.float32]
    rows: NDArray[np.int64]

    def part(self, queries: slice) -> Selection:
        """The state of some of the queries."""
        used, bars, scores, rows = self
        return Selection(used[queries], bars[queries], scores[queries], rows[queries])


def new_selection(n_queries: int, k: int) -> Selection:
    """Empty buffers for the best `k`, and bars that every score passes."""
    capacity = k + k // 2 + 16
    return Selection(
        np.zeros(n_queries, dtype=np.int64),
        np.full(n_queries, np.inf, dtype=np.float32),
        np.empty((n_queries, capacity), dtype=np.float32),
        np.empty((n_queries, capacity), dtype=np.int64),
    )


@compiled
def offer(
    used: NDArray[np.int64],
    bars: NDArray[np.float32],
    scores: NDArray[np.float32],
    rows: NDArray[np.int64],
    k: int,
    query: int,
    score: np.float32,
    row: int,
) -> bool:
    """Take a row that passes the bar; return whether the bar has moved."""
    place = used[query]
    scores[query, place] = score
    rows[query, place] = row
    used[query] = place + 1
    if place + 1 < scores.shape[1]:
        return False
    # Entries stay in rising order of rows, so of equal scores the first ones win.
    bar = kth_smallest(scores[query].copy(), k)
    better = 0
    for i in range(place + 1):
        better += scores[query, i] < bar
    kept, ties = 0, k - better
    for i in range(place + 1):
        here = scores[query, i]
        if here < bar or (here == bar and ties > 0):
            ties -= here == bar
            scores[query, kept], rows[query, kept] = here, rows[query, i]
            kept += 1
    used[query] = k
    bars[query] = bar
    return True


@compiled
def write_sorted(
    used: NDArray[np.int64],
    bars: NDArray[np.float32],
    scores: NDArray[np.float32],
    rows: NDArray[np.int64],
    k: int,
    out_scores: NDArray[np.float32],
    out_rows: NDArray[np.int64],
) -> None:
    """Write each query's best k by (score, row)."""
    for query in range(out_rows.shape[0]):
        sort_pairs(scores[query, : used[query]], rows[query, : used[query]])
        for i in range(min(used[query], k)):
            out_scores[query, i] = scores[query, i]
            out_rows[query, i] = rows[query, i]
