"""The nearest other vectors of each vector of a set."""

from __future__ import annotations

import numpy as np

from sghash.validation import Ids, Vectors


def k_nearest_others(vectors: Vectors, k: int, *, metric: str, threads: int = 1) -> Ids:
    """Rows (n, k) of the nearest other vectors of each of `vectors` (n, d); k is at most n - 1.

    `metric` is "l2" or "ip"; exact.
    """
    from sghash.kernels import exact_neighbors

    n = len(vectors)
    found = exact_neighbors(vectors, vectors, k + 1, metric=metric, threads=threads).ids
    # A vector is not always its own nearest: duplicates tie, and inner products prefer length.
    is_self = found == np.arange(n)[:, None]
    is_self[~is_self.any(axis=1), -1] = True
    return found[~is_self].reshape(n, k)
