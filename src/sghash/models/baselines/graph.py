"""Scalable graph hashing with feature transformation.

Jiang and Li, "Scalable Graph Hashing with Feature Transformation", IJCAI 2015. (The paper's own
abbreviation is SGH; in this package that name belongs to stochastic generative hashing.)
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sghash.models.base import BinaryHasher, Callback
from sghash.models.capabilities import Capabilities
from sghash.models.shared.blockwise import (
    map_over_blocks,
    single_threaded_blas,
    some_rows,
    sum_over_blocks,
)
from sghash.models.shared.centroids import squared_distances
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import Vectors, check_count, check_flag

# exp(t) is replaced by the line through its values at -1 and 1 (the paper's equation 4).
_SLOPE = float(np.sinh(1.0))
_HEIGHT = float(np.cosh(1.0))
_RHO = 2.0
_RIDGE = 1e-6


class GraphHashing(BinaryHasher):
    """Signs of kernel features whose products follow the similarity graph of all pairs.

    The similarity 2 exp(-|x - y|² / rho) - 1 of any two rows is written as an inner product of
    transformed features, so that the graph of all pairs is used and never built. Bits are learned
    one after the other, each from what the others leave unexplained, and then once more in random
    order (the paper's algorithm; the authors' program has the first pass only, `refine=False`).

    As in the authors' program vectors are centred and scaled to length 1, rho is 2, the kernel's
    width is the mean squared distance to the anchors, and 1e-6 is added to the constraint's
    diagonal. Any number of bits works. Deviations: `n_anchors` shrinks to the number of rows; at
    most `sample` rows are used, since their kernel features are held in memory.

    Parameters
    ----------
    n_bits : int
        Code length.
    n_anchors : int
        Random rows whose kernels are the features of a vector; the paper uses 300.
    sample : int or None
        Learn from this many random rows; None takes all (4 bytes times `n_anchors` each).
    refine : bool
        Learn every bit a second time, given all others.
    callback : callable or None
        Receives a `Progress` after every bit.
    random_state : int, Generator or None
        Seed of anchors, sample and the order of the second pass.

    Attributes
    ----------
    mean_ : (d,)
        Mean of the training vectors.
    anchors_ : (n_anchors, d)
        Centred rows of length 1.
    width_ : float
        Mean squared distance between rows and anchors.
    kernel_mean_ : (n_anchors,)
        Mean of the kernels, subtracted from them.
    projection_ : (n_anchors, n_bits)
        A bit is set where the centred kernels times its column are positive.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    learned_names: ClassVar[tuple[str, ...]] = (
        "mean_",
        "anchors_",
        "width_",
        "kernel_mean_",
        "projection_",
    )

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_anchors: int = 300,
        sample: int | None = 200_000,
        refine: bool = True,
        callback: Callback | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_bits, self.n_anchors, self.sample = n_bits, n_anchors, sample
        self.refine, self.callback, self.random_state = refine, callback, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        check_count(self.n_anchors, name="n_anchors")
        check_flag(self.refine, name="refine")
        check_count(self.sample, name="sample", or_none=True)
        rng = generator_of(self.random_state)
        self.mean_ = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        chosen = some_rows(vectors, self.sample, rng)
        rows = self._unit(chosen)
        n_anchors = min(self.n_anchors, len(rows))
        self.anchors_ = rows[rng.choice(len(rows), n_anchors, replace=False)]
        with single_threaded_blas():
            squared = squared_distances(rows, self.anchors_)
            self.width_ = float(squared.mean(dtype=np.float64)) or 1.0
            features = np.exp(squared / np.float32(-2 * self.width_))
        self.kernel_mean_ = features.mean(axis=0, dtype=np.float64).astype(np.float32)
        features -= self.kernel_mean_
        self.projection_ = self._learn_bits(features, rows, rng)

    def _learn_bits(self, features: Vectors, rows: Vectors, rng: Generator) -> Vectors:
        """The paper's sequential learning: bit after bit, then each again given the others."""
        graph, gram = _graph_and_gram(features, rows)
        with single_threaded_blas():
            # In the coordinates of this root the constraint reads |v| = 1.
            values, axes = np.linalg.eigh(gram + _RIDGE * np.eye(len(gram)))
            root = axes / np.sqrt(np.maximum(values, _RIDGE))
        left = self.n_bits * (root.T @ graph @ root)
        weights = np.zeros((len(root), self.n_bits))
        explained = np.zeros((len(root), self.n_bits))
        order = list(range(self.n_bits))
        if self.refine:
            order += list(rng.permutation(self.n_bits))
        for step, bit in enumerate(order):
            left += np.outer(explained[:, bit], explained[:, bit])
            weights[:, bit] = root @ _top_axis(left)
            explained[:, bit] = root.T @ _signed_sum(features, weights[:, bit])
            left -= np.outer(explained[:, bit], explained[:, bit])
            self._report(step + 1, len(order), unexplained=float(np.abs(left).max()))
        return weights.astype(np.float32)

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return map_over_blocks(self._block_bits, vectors)

    def _block_bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        squared = squared_distances(self._unit(vectors), self.anchors_)
        kernels = np.exp(squared / np.float32(-2 * self.width_)) - self.kernel_mean_
        return kernels @ self.projection_ > 0

    def _unit(self, vectors: Vectors) -> Vectors:
        """Centred vectors of length 1; the mean itself stays zero."""
        centred = vectors - self.mean_
        lengths = np.sqrt(np.einsum("ij,ij->i", centred, centred))[:, None]
        return centred / np.where(lengths > 0, lengths, np.float32(1))


def transformed(rows: Vectors) -> NDArray[np.float64]:
    """Features P (n, d + 2) of rows at most 1 long; Q is P with its last column negated.

    P(x) . Q(y) = 2 (sinh(1) t + cosh(1)) exp(-(|x|² + |y|²) / rho) - 1 with t = 2 x . y / rho,
    which is near 2 exp(-|x - y|² / rho) - 1.
    """
    wide = rows.astype(np.float64)
    decay = np.exp(-np.square(wide).sum(axis=1, keepdims=True) / _RHO)
    linear = np.sqrt(4 * _SLOPE / _RHO) * decay * wide
    return np.hstack([linear, np.sqrt(2 * _HEIGHT) * decay, np.ones((len(rows), 1))])


def _graph_and_gram(
    features: Vectors, rows: Vectors
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """K.T S K for the graph S of all pairs, and K.T K, of kernel features K (n, m)."""

    def of_block(kernels: Vectors, block: Vectors) -> tuple[NDArray[np.float64], ...]:
        wide = kernels.astype(np.float64)
        return wide.T @ transformed(block), wide.T @ wide

    left, gram = sum_over_blocks(of_block, features, rows)
    right = left.copy()
    right[:, -1] *= -1
    return left @ right.T, gram


def _top_axis(symmetric: NDArray[np.float64]) -> NDArray[np.float64]:
    """Eigenvector of the largest eigenvalue, its largest entry positive."""
    with single_threaded_blas():
        axis: NDArray[np.float64] = np.linalg.eigh(symmetric)[1][:, -1]
    return axis if axis[np.abs(axis).argmax()] > 0 else -axis


def _signed_sum(features: Vectors, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """K.T sign(K w), with the sign of zero as -1, as the bits have it."""
    single = weights.astype(np.float32)

    def of_block(block: Vectors) -> tuple[NDArray[np.float64]]:
        signs = np.where(block @ single > 0, np.float32(1), np.float32(-1))
        return ((signs @ block).astype(np.float64),)

    return sum_over_blocks(of_block, features)[0]
