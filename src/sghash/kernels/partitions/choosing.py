"""Which lists a query visits, and whether they hold enough rows that it may find."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.hamming.single import code_distances
from sghash.kernels.partitions.block_lanes import ROWS
from sghash.kernels.partitions.coarse import insert_least, nearest_lists


@compiled
def choose_lists(
    query: NDArray[np.float32],
    code: NDArray[np.uint64],
    margin: float,
    centroids: NDArray[Any],
    half_squares: NDArray[np.float32],
    groups: NDArray[Any],
    group_squares: NDArray[np.float32],
    group_starts: NDArray[np.int64],
    centroid_words: NDArray[np.uint64],
    n_lists: int,
    n_probes: int,
    lists: NDArray[np.int64],
) -> int:
    """The lists to visit, nearest first; none beyond the margin, a share of the way to the mean."""
    if n_probes >= n_lists:
        for i in range(n_lists):
            lists[i] = i
        return n_lists
    scores = np.empty(n_probes, dtype=np.float32)
    if centroid_words.shape[0]:
        found = np.empty(n_lists, dtype=np.uint16)
        code_distances(centroid_words, 0, n_lists, code, found)
        used, total = 0, 0.0
        for i in range(n_lists):
            total += found[i]
            used = insert_least(np.float32(found[i]), i, scores, lists, used, n_probes)
        mean = np.float32(total / n_lists)
    else:
        used, mean = nearest_lists(
            query, centroids, half_squares, groups, group_squares, group_starts, n_probes, scores,
            lists,
        )  # fmt: skip
    bound = scores[0] + np.float32(margin) * max(mean - scores[0], np.float32(0))
    kept = 1
    while kept < used and scores[kept] <= bound:
        kept += 1
    return kept


@compiled
def rows_met(
    lists: NDArray[np.int64],
    n_visited: int,
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    ranks: NDArray[np.uint32],
    allowed: NDArray[np.bool_],
) -> int:
    """How many rows of these lists are allowed."""
    met = 0
    for i in range(n_visited):
        here = lists[i]
        if not allowed.shape[0]:
            met += counts[here]
            continue
        for j in range(counts[here]):
            row = ranks[starts[here] * ROWS + j]
            met += 1 if row < allowed.shape[0] and allowed[row] else 0
    return met


@compiled
def next_probes(n_visited: int, met: int, wanted: int, n_lists: int) -> int:
    """How many lists will hold enough rows, by what was met so far; many are all."""
    share = min(8.0, 1.1 * wanted / max(met, 1))
    probes = int(np.ceil(max(n_visited + 1.0, n_visited * share)))
    return n_lists if 2 * probes >= n_lists else probes
