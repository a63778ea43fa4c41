"""What product quantization and its rotation are learned from: parts of rows, and their sums."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sghash.models.shared.axes import balanced_parts, principal_axes
from sghash.models.shared.blockwise import sum_over_blocks
from sghash.validation import Vectors


def first_centroids(
    rows: Vectors, widths: NDArray[np.int32], n_centroids: int, rng: Generator
) -> list[Vectors]:
    """Random rows, cut into parts; as many as there are, if they are fewer."""
    chosen = rng.choice(len(rows), min(n_centroids, len(rows)), replace=False)
    return np.split(rows[chosen], np.cumsum(widths)[:-1], axis=1)


def part_sums(
    rows: Vectors, rotation: Vectors, centroids: list[Vectors]
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Sizes (n_parts, k) of the clusters of turned rows, sums (n_parts, k, d) of the rows as they
    were, and the mean squared error.
    """
    from sghash.kernels.learning.clusters import add_to_clusters

    k, edges = len(centroids[0]), np.cumsum([part.shape[1] for part in centroids])[:-1]

    def of_block(block: Vectors) -> tuple[NDArray[np.float64], ...]:
        sizes, sums = np.zeros((len(centroids), k)), np.zeros((len(centroids), k, block.shape[1]))
        error = np.einsum("ij,ij->", block, block, dtype=np.float64)
        for part, columns in enumerate(np.split(block @ rotation, edges, axis=1)):
            scores = columns @ (-2 * centroids[part].T)
            scores += np.einsum("ij,ij->i", centroids[part], centroids[part])
            error += add_to_clusters(scores, block, sizes[part], sums[part])
        return sizes, sums, np.array([error])

    sizes, sums, error = sum_over_blocks(of_block, np.ascontiguousarray(rows))
    return sizes, sums, max(0.0, float(error[0])) / len(rows)


def allocated_axes(rows: Vectors, widths: NDArray[np.int32]) -> Vectors:
    """All principal axes (d, d), ordered so that the parts' products of variances are balanced."""
    basis = principal_axes(rows, rows.shape[1])
    # Directions without variance complete the rotation; which ones does not matter.
    full, _ = np.linalg.qr(np.hstack([basis.axes, np.eye(rows.shape[1])]))
    axes = np.hstack([basis.axes, full[:, basis.axes.shape[1] : rows.shape[1]]])
    floor = basis.variances[-1] if len(basis.variances) else 1.0
    variances = np.full(rows.shape[1], floor)
    variances[: len(basis.variances)] = basis.variances
    order = np.concatenate(balanced_parts(variances, [int(width) for width in widths]))
    return np.ascontiguousarray(axes[:, order], dtype=np.float32)
