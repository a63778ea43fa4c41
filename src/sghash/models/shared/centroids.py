"""Distances to centroids, and k-means, for the models that quantize vectors or parts of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sghash.models.shared.blockwise import sum_over_blocks
from sghash.validation import Vectors

# Centroids this many times as far from zero as from each other are measured from their mean: of the
# difference of large squares float32 leaves too little.
FAR = 100.0


def centering_point(centroids: Vectors) -> Vectors | None:
    """The point from which to measure centroids (k, d), or None where zero will do."""
    mean = centroids.mean(axis=0, dtype=np.float64)
    spread = np.square(centroids - mean).sum(axis=1).mean()
    return mean.astype(np.float32) if mean @ mean > FAR**2 * spread else None


def squared_distances(rows: Vectors, centroids: Vectors) -> Vectors:
    """Squared Euclidean distances (n, k) between rows (n, d) and centroids (k, d)."""
    if (origin := centering_point(centroids)) is not None:
        rows, centroids = rows - origin, centroids - origin
    squared = -2 * (rows @ centroids.T)
    squared += np.einsum("ij,ij->i", rows, rows)[:, None]
    squared += np.einsum("ij,ij->i", centroids, centroids)
    return np.maximum(squared, 0, out=squared)


def nearest(rows: Vectors, centroids: Vectors) -> NDArray[np.intp]:
    """Number (n,) of the nearest centroid of each row; the lower one of equals."""
    if (origin := centering_point(centroids)) is not None:
        rows, centroids = rows - origin, centroids - origin
    scores = rows @ (-2 * centroids.T)
    scores += np.einsum("ij,ij->i", centroids, centroids)
    return scores.argmin(axis=1)


class Clusters(NamedTuple):
    """`sizes` (k,) and `sums` (k, d) of rows by nearest centroid, and the mean squared `error`."""

    sizes: NDArray[np.float64]
    sums: NDArray[np.float64]
    error: float


def assign(rows: Vectors, centroids: Vectors) -> Clusters:
    """Give every row (n, d) to the nearest of the centroids (k, d)."""
    from sghash.kernels.learning.clusters import add_to_clusters

    origin = centering_point(centroids)
    if origin is not None:
        centroids = centroids - origin
    squares = np.einsum("ij,ij->i", centroids, centroids)
    doubled = -2 * centroids.T

    def of_block(block: Vectors) -> tuple[NDArray[np.float64], ...]:
        sizes, sums = np.zeros(len(centroids)), np.zeros(centroids.shape)
        if origin is not None:
            block = block - origin
        scores = block @ doubled
        scores += squares
        lowest = add_to_clusters(scores, block, sizes, sums)
        error = lowest + np.einsum("ij,ij->", block, block, dtype=np.float64)
        return sizes, sums, np.array([error])

    sizes, sums, error = sum_over_blocks(of_block, np.ascontiguousarray(rows))
    if origin is not None:
        sums += sizes[:, None] * origin
    return Clusters(sizes, sums, max(0.0, float(error[0])) / len(rows))


def k_means(rows: Vectors, centroids: Vectors, n_iterations: int, rng: Generator) -> Vectors:
    """Improve centroids (k, d) by Lloyd's iterations."""
    for _ in range(n_iterations):
        sizes, sums, _ = assign(rows, centroids)
        centroids = means_of(sizes, sums, centroids, rng)
    return centroids


def means_of(
    sizes: NDArray[np.float64],
    sums: NDArray[np.float64],
    centroids: Vectors,
    rng: Generator,
) -> Vectors:
    """Means of clusters of `sizes` (k,) and `sums` (k, d), which were around `centroids`.

    A centroid that no row is nearest to takes the place of one of the largest cluster's halves:
    both stand a little beside its mean, on opposite sides.
    """
    sizes, used = sizes.copy(), sizes > 0
    moved = centroids.astype(np.float64)
    moved[used] = sums[used] / sizes[used, None]
    for empty in np.flatnonzero(~used):
        largest = int(sizes.argmax())
        if sizes[largest] < 2:
            break
        aside = rng.standard_normal(moved.shape[1]) * np.abs(moved[largest]) / 1024
        moved[empty], moved[largest] = moved[largest] + aside, moved[largest] - aside
        sizes[empty] = sizes[largest] / 2
        sizes[largest] /= 2
    return moved.astype(np.float32)
