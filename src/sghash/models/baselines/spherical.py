"""Spherical hashing.

Heo, Lee, He, Chang and Yoon, "Spherical Hashing", CVPR 2012 (TPAMI 37(11), 2015).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sghash.bits import unpack_bits
from sghash.blocks import blocks_of
from sghash.models.base import BinaryHasher, Callback
from sghash.models.capabilities import Capabilities
from sghash.models.shared.blockwise import (
    BLOCK_ROWS,
    map_over_blocks,
    single_threaded_blas,
    some_rows,
)
from sghash.models.shared.centroids import squared_distances
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import Vectors, check_codes, check_count, check_number

# The authors' program adds this to the number of common spheres, which may be zero.
_COMMON_OFFSET = 0.1
_ROWS_PER_PIVOT = 5
_PIVOTS_AT_ONCE = 16
# Rows of few different values can push pivots away for ever. From further than this, in largest
# coordinates of the rows, distances in float32 would no longer tell rows apart.
_FARTHEST = 1000.0


class SphericalHashing(BinaryHasher):
    """One bit per hypersphere: is the vector inside?

    Each sphere holds half of the training rows, and pivots push and pull each other until each
    pair of spheres has a quarter in common. Pivots start as means of five random rows, as in the
    authors' program, so any number of bits works.

    Deviations: training ends after `n_iterations` even if the overlaps are not yet within the
    tolerances, and where pivots would leave a thousand times the extent of the rows; the final
    radii are medians over all training rows, not over the sample only. A radius lies half way
    between the two middle distances, so that no row lies on a sphere.

    Search by Hamming distance, or rank by `spherical_hamming`, the paper's own distance.

    Parameters
    ----------
    n_bits : int
        Code length, one sphere per bit.
    sample : int or None
        Move the pivots by this many random rows, 10,000 as in the paper; None takes all.
    mean_tolerance, deviation_tolerance : float
        Training ends when the mean deviation of the overlaps from a quarter of the rows, and
        their standard deviation, are at most these parts of that quarter (the paper's 10 % and
        15 %).
    n_iterations : int
        At most so many moves of the pivots.
    callback : callable or None
        Receives a `Progress` with `mean_deviation` and `standard_deviation` after every move.
    random_state : int, Generator or None
        Seed of the sample and of the first pivots.

    Attributes
    ----------
    mean_ : (d,)
        Mean of the training vectors, the origin of the pivots.
    pivots_ : (n_bits, d)
        Centres of the spheres, relative to `mean_`.
    squared_radii_ : (n_bits,)
        A bit is set where the squared distance to the pivot is at most this.
    overlap_history_ : (n, 2)
        Mean and standard deviation of the overlaps' deviation, in parts of a quarter.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    learned_names: ClassVar[tuple[str, ...]] = (
        "mean_",
        "pivots_",
        "squared_radii_",
        "overlap_history_",
    )

    def __init__(
        self,
        n_bits: int = 64,
        *,
        sample: int | None = 10_000,
        mean_tolerance: float = 0.10,
        deviation_tolerance: float = 0.15,
        n_iterations: int = 100,
        callback: Callback | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_bits, self.sample, self.n_iterations = n_bits, sample, n_iterations
        self.mean_tolerance, self.deviation_tolerance = mean_tolerance, deviation_tolerance
        self.callback, self.random_state = callback, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        check_count(self.sample, name="sample", or_none=True)
        check_count(self.n_iterations, name="n_iterations", least=0)
        check_number(self.mean_tolerance, name="mean_tolerance", least=0)
        check_number(self.deviation_tolerance, name="deviation_tolerance", least=0)
        rng = generator_of(self.random_state)
        self.mean_ = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        chosen = some_rows(vectors, self.sample, rng)
        with single_threaded_blas():
            self.pivots_ = self._balance(chosen - self.mean_, rng)
            self.squared_radii_ = self._radii(vectors)

    def _radii(self, vectors: Vectors) -> Vectors:
        """Squared radii (n_bits,) within which half of all vectors lie."""
        radii = []
        for pivots in np.array_split(
            self.pivots_, range(_PIVOTS_AT_ONCE, self.n_bits, _PIVOTS_AT_ONCE)
        ):
            squared = [
                squared_distances(block - self.mean_, pivots)
                for _, block in blocks_of(vectors, BLOCK_ROWS)
            ]
            radii.append(_middle(np.concatenate(squared)))
        return np.concatenate(radii)

    def _balance(self, rows: Vectors, rng: Generator) -> Vectors:
        """Move the pivots until the overlaps are near a quarter of the rows (algorithm 1)."""
        m, quarter = len(rows), len(rows) / 4
        farthest = _FARTHEST * float(np.abs(rows).max())
        picks = rng.integers(m, size=(self.n_bits, _ROWS_PER_PIVOT))
        pivots = rows[picks].mean(axis=1, dtype=np.float64).astype(np.float32)
        history = []
        for step in range(self.n_iterations + 1):
            squared = squared_distances(rows, pivots)
            inside = (squared <= _middle(squared)).astype(np.float32)
            excess = (inside.T @ inside).astype(np.float64) / quarter - 1
            pairs = excess[np.triu_indices(self.n_bits, 1)]
            mean = float(np.abs(pairs).mean()) if len(pairs) else 0.0
            deviation = float(pairs.std()) if len(pairs) else 0.0
            history.append((mean, deviation))
            self._report(step, self.n_iterations, mean_deviation=mean, standard_deviation=deviation)
            near = mean <= self.mean_tolerance and deviation <= self.deviation_tolerance
            if near or step == self.n_iterations:
                break
            # p_i moves by the mean over j of (p_i - p_j) (o_ij - m/4) / (m/4) / 2.
            np.fill_diagonal(excess, 0)
            push = excess.sum(axis=1)[:, None] * pivots - excess @ pivots
            moved = pivots + push / (2 * self.n_bits)
            if np.abs(moved).max() > farthest:
                break
            pivots = moved.astype(np.float32)
        self.overlap_history_ = np.asarray(history)
        return pivots

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return map_over_blocks(self._block_bits, vectors)

    def _block_bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return squared_distances(vectors - self.mean_, self.pivots_) <= self.squared_radii_


def spherical_hamming(
    query_codes: ArrayLike, codes: ArrayLike, *, n_bits: int
) -> NDArray[np.float32]:
    """Distances (n_queries, n): bits that differ, divided by bits that both have set.

    As in the authors' program 0.1 is added to the divisor, so that codes without a common sphere
    have a large finite distance.
    """
    left = unpack_bits(check_codes(query_codes, n_bits, name="query_codes"), n_bits)
    right = unpack_bits(check_codes(codes, n_bits), n_bits)
    common = left.astype(np.float32) @ right.T.astype(np.float32)
    counts = left.sum(axis=1, dtype=np.float32)[:, None] + right.sum(axis=1, dtype=np.float32)
    return (counts - 2 * common) / (common + np.float32(_COMMON_OFFSET))


def _middle(squared: Vectors) -> Vectors:
    """Half way between the two middle values of each column: half of the rows lie below."""
    half = len(squared) // 2
    if half == 0:
        return squared[0]
    parted = np.partition(squared, (half - 1, half), axis=0)
    return (parted[half - 1] + parted[half]) / 2
