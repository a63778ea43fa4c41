"""Inner loops of k-means and of its affinity-preserving kind."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled

# Sums over a whole row in several lanes take a fraction of the time.
_summing = partial(compiled, fastmath={"reassoc", "contract", "nsz"})

#: Rows that stay in the cache while they are added to one byte's sums after the other's.
_TILE = 512


@compiled
def add_to_clusters(
    scores: NDArray[np.float32],
    rows: NDArray[np.float32],
    sizes: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> Any:
    """Add each row (n, d) to the cluster with its lowest score (n, k), the first of equals.

    Fills `sizes` (k,) and `sums` (k, d); returns the sum of the lowest scores.
    """
    total = 0.0
    for row in range(scores.shape[0]):
        best, lowest = 0, scores[row, 0]
        for cluster in range(1, scores.shape[1]):
            if scores[row, cluster] < lowest:
                best, lowest = cluster, scores[row, cluster]
        total += lowest
        sizes[best] += 1
        for column in range(rows.shape[1]):
            sums[best, column] += rows[row, column]
    return total


@compiled
def add_by_byte(
    vectors: NDArray[np.float32], codes: NDArray[np.uint8], sums: NDArray[np.float32]
) -> None:
    """Add every row (n, d) to the sum of each value of its code's bytes, `sums` (B, 256, d)."""
    n, n_parts = codes.shape
    for first in range(0, n, _TILE):
        for part in range(n_parts):
            table = sums[part]
            for i in range(first, min(n, first + _TILE)):
                vector, total = vectors[i], table[codes[i, part]]
                for k in range(len(vector)):
                    total[k] += vector[k]


@compiled
def subtract_tables(
    vectors: NDArray[np.float32], codes: NDArray[np.uint8], tables: NDArray[np.float32]
) -> None:
    """Subtract from every row (n, d), in place, its code's sum of rows of `tables` (B, 256, d)."""
    n, n_parts = codes.shape
    for first in range(0, n, _TILE):
        for part in range(n_parts):
            table = tables[part]
            for i in range(first, min(n, first + _TILE)):
                vector, row = vectors[i], table[codes[i, part]]
                for k in range(len(vector)):
                    vector[k] -= row[k]


@compiled
def count_pairs(codes: NDArray[np.uint8], counts: NDArray[np.float32]) -> None:
    """Count how often two bytes have two values together, in `counts` (256 B, 256 B).

    Only the lower triangle of blocks is filled: the upper one is its mirror image.
    """
    n, n_parts = codes.shape
    for part in range(n_parts):
        for other in range(part + 1):
            for i in range(n):
                counts[256 * part + codes[i, part], 256 * other + codes[i, other]] += np.float32(1)


@_summing
def move(
    centroids: NDArray[np.float64],
    means: NDArray[np.float64],
    weights: NDArray[np.float64],
    wanted: NDArray[np.float64],
    affinity_weight: float,
    n_steps: int,
) -> None:
    """Move centroids (k, d) in place, one after the other, rows staying with their clusters.

    For centroid c_j with the others fixed: |c - m_j|² + 2 lambda sum_i w_i (|c - c_i| - h_ij)²,
    with m_j its cluster's mean, w_i the clusters' parts of all rows and h = `wanted` (k, k).
    Replacing h |c - c_i| by its tangent plane gives an upper bound that touches at the present c;
    its minimum is a weighted mean. A centroid without rows stays.
    """
    k, width = centroids.shape
    moved = np.empty(width, dtype=np.float64)
    for j in range(k):
        if weights[j] == 0:
            continue
        pull = 2 * affinity_weight * (weights.sum() - weights[j])
        for _ in range(n_steps):
            moved[:] = means[j]
            for i in range(k):
                if i == j or weights[i] == 0 or affinity_weight == 0:
                    continue
                square = 0.0
                for column in range(width):
                    square += (centroids[j, column] - centroids[i, column]) ** 2
                # A centroid that stands on another has no direction to leave it.
                factor = wanted[j, i] / np.sqrt(square) if square > 0 else 0.0
                weight = 2 * affinity_weight * weights[i]
                for column in range(width):
                    gap = centroids[j, column] - centroids[i, column]
                    moved[column] += weight * (centroids[i, column] + factor * gap)
            change, size = 0.0, 0.0
            for column in range(width):
                place = moved[column] / (1 + pull)
                change = max(change, abs(place - centroids[j, column]))
                size = max(size, abs(place))
                centroids[j, column] = place
            if change <= 1e-6 * size:
                break
