"""Which list each of many rows belongs to, where lists are too many to compare all with each row.

A row is compared with the lists of the groups whose centroids are nearest to it. Rows are sorted by
group, so that products with a group's lists are products of matrices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled


@compiled
def by_nearest_groups(
    scores: NDArray[np.float32],
    n_near: int,
    members: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> None:
    """Sort rows by the `n_near` groups that score lowest, the first of equals.

    `scores` is (n, n_groups); rows of group g are `members[starts[g] : starts[g + 1]]`, rising.
    """
    n, n_groups = scores.shape
    near = np.empty((n, n_near), dtype=np.int32)
    best = np.empty(n_near, dtype=np.float32)
    starts[:] = 0
    for row in range(n):
        used = 0
        for group in range(n_groups):
            score = scores[row, group]
            if used == n_near and score >= best[used - 1]:
                continue
            place = min(used, n_near - 1)
            used = min(used + 1, n_near)
            while place > 0 and best[place - 1] > score:
                best[place], near[row, place] = best[place - 1], near[row, place - 1]
                place -= 1
            best[place], near[row, place] = score, group
        for i in range(n_near):
            starts[near[row, i] + 1] += 1
    for group in range(n_groups):
        starts[group + 1] += starts[group]
    ends = starts.copy()
    for row in range(n):
        for i in range(n_near):
            group = near[row, i]
            members[ends[group]] = row
            ends[group] += 1


@compiled
def keep_nearest(
    products: NDArray[np.float32],
    half_squares: NDArray[np.float32],
    members: NDArray[np.int64],
    first: int,
    lists: NDArray[np.int64],
    scores: NDArray[np.float32],
) -> None:
    """Let rows know the lists from `first` on that are nearer than what they know.

    `products` (len(members), m) are those of rows with centroids; `lists` and `scores` (n, 1 or 2)
    are nearest first.
    """
    for i in range(products.shape[0]):
        row = members[i]
        for j in range(products.shape[1]):
            score = half_squares[j] - products[i, j]
            if score < scores[row, 0]:
                if scores.shape[1] == 2:
                    scores[row, 1], lists[row, 1] = scores[row, 0], lists[row, 0]
                scores[row, 0], lists[row, 0] = score, first + j
            elif scores.shape[1] == 2 and score < scores[row, 1]:
                scores[row, 1], lists[row, 1] = score, first + j
