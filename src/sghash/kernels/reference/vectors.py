"""Distances between vectors in double precision, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.reference.order import nearest
from sghash.kernels.reference.small import small_distances
from sghash.kernels.vectors.kinds import is_small
from sghash.neighbors import Neighbors
from sghash.validation import Ids, Vectors


def vector_distances(vectors: Vectors, queries: Vectors, metric: str) -> NDArray[np.float32]:
    """All distances (n_queries, n), computed in double precision, rounded to float32.

    "l2" is the squared Euclidean distance, "ip" the negative inner product, "cosine" one minus
    the cosine, itself rounded to float32 (a zero vector has cosine 0 with everything).
    """
    x, q = vectors.astype(np.float64), queries.astype(np.float64)
    if metric == "l2":
        exact = ((q[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)
    else:
        exact = -(q @ x.T)
        if metric == "cosine":
            norms = np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(x, axis=1)[None, :]
            cosine = np.divide(exact, norms, out=np.zeros_like(exact), where=norms > 0)
            return np.float32(1) + cosine.astype(np.float32)
    return exact.astype(np.float32)


def exact_neighbors(
    vectors: Vectors, queries: Vectors, k: int, *, metric: str = "l2", threads: int = 1
) -> Neighbors:
    """The k nearest vectors of each query by (distance, row)."""
    return nearest(vector_distances(vectors, queries, metric), k, None)


def kept_distances(
    vectors: NDArray[Any], rows: Ids, queries: Vectors, metric: str, *, threads: int = 1
) -> Vectors:
    """Distances (n_queries, m) of the `rows` (n_queries, m) of `vectors`; infinite where negative.

    A vector of no length is as far as a right angle.
    """
    if not len(vectors):
        return np.full(rows.shape, np.inf, dtype=np.float32)
    if is_small(vectors):
        return small_distances(vectors, rows, queries, metric)
    every = vector_distances(vectors.astype(np.float32), queries, metric)
    found = np.take_along_axis(every, np.maximum(rows, 0), axis=1)
    return np.where(rows < 0, np.float32(np.inf), found)
