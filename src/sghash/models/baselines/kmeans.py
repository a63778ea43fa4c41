"""K-means hashing.

He, Wen and Sun, "K-means Hashing: an Affinity-Preserving Quantization Method for Learning Binary
Compact Codes", CVPR 2013.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput
from sghash.models.base import BinaryHasher, Callback
from sghash.models.capabilities import Capabilities
from sghash.models.shared.axes import balanced_parts, principal_axes, semi_orthogonal
from sghash.models.shared.blockwise import map_over_blocks, some_rows
from sghash.models.shared.centroids import assign, nearest
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import Vectors, check_count, check_number

_INNER_STEPS = 20


class KMeansHashing(BinaryHasher):
    """The number of the nearest centroid, in each of several parts of the space, is the code.

    In every part, k-means runs with centroids that are numbered by bits and pulled towards
    places whose distances follow the Hamming distances of their numbers: it minimises the
    quantization error plus `affinity_weight` times the affinity error. The parts come from the
    principal axes, shared out so that the products of their variances are balanced; centroids
    start at the corners of each part's PCA hashing.

    Deviations: one centroid is moved by the closed steps of a majorizer of its objective, which
    never raise it, where the authors call a general minimiser. Where `n_bits` exceeds the rank r
    of the data, the r components are first spread over `n_bits` columns by a random matrix with
    orthonormal rows. If `n_bits` is no multiple of `bits_per_part`, some parts have a bit less.
    A centroid that loses all rows stays where it is.

    Parameters
    ----------
    n_bits : int
        Code length.
    bits_per_part : int
        Bits of one part, at most 8: it has 2 to that power centroids. The authors recommend 4,
        and 2 for SIFT at 32 bits.
    affinity_weight : float
        The paper's lambda, 10; 0 is plain k-means.
    n_iterations : int
        The authors recommend 50 (to 200).
    sample : int or None
        Learn from this many random rows; None takes all.
    callback : callable or None
        Receives a `Progress` with `objective` after every iteration of every part.
    random_state : int, Generator or None
        Seed of the sample and of the expansion beyond the rank.

    Attributes
    ----------
    mean_ : (d,)
        Mean of the training vectors.
    rotation_ : (d, width)
        Turns centred vectors so that parts are runs of columns.
    part_bits_, part_widths_ : (n_parts,)
        Bits and columns of each part.
    centroids_ : (sum over parts of 2**bits * width,)
        The centroids of all parts, one after the other.
    objective_history_ : (n_iterations + 1, n_parts)
        Objective of each part before every iteration and at the end.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(decodes=True)
    learned_names: ClassVar[tuple[str, ...]] = (
        "mean_",
        "rotation_",
        "part_bits_",
        "part_widths_",
        "centroids_",
        "objective_history_",
    )

    def __init__(
        self,
        n_bits: int = 64,
        *,
        bits_per_part: int = 4,
        affinity_weight: float = 10.0,
        n_iterations: int = 50,
        sample: int | None = 200_000,
        callback: Callback | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_bits, self.bits_per_part = n_bits, bits_per_part
        self.affinity_weight, self.n_iterations = affinity_weight, n_iterations
        self.sample, self.callback, self.random_state = sample, callback, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        check_count(self.bits_per_part, name="bits_per_part")
        if self.bits_per_part > 8:
            raise InvalidInput(f"bits_per_part must lie between 1 and 8, got {self.bits_per_part}")
        check_number(self.affinity_weight, name="affinity_weight", least=0)
        check_count(self.n_iterations, name="n_iterations", least=0)
        check_count(self.sample, name="sample", or_none=True)
        rng = generator_of(self.random_state)
        vectors = some_rows(vectors, self.sample, rng)
        n_parts = -(-self.n_bits // self.bits_per_part)
        part_bits = [len(part) for part in np.array_split(np.arange(self.n_bits), n_parts)]
        self.mean_, axes, variances = principal_axes(vectors, vectors.shape[1])
        if len(variances) < self.n_bits:
            expansion = semi_orthogonal(len(variances), self.n_bits, rng)
            self.rotation_ = (axes @ expansion).astype(np.float32)
            parts = np.array_split(np.arange(self.n_bits), n_parts)
        else:
            widths = [len(part) for part in np.array_split(variances, n_parts)]
            parts = balanced_parts(variances, widths)
            self.rotation_ = np.ascontiguousarray(axes[:, np.concatenate(parts)])
        self.part_bits_ = np.asarray(part_bits, dtype=np.int32)
        self.part_widths_ = np.asarray([len(part) for part in parts], dtype=np.int32)
        self._learn_parts(map_over_blocks(self._rotated, vectors))

    def _learn_parts(self, rotated: Vectors) -> None:
        from sghash.kernels.learning.clusters import move

        n_parts = len(self.part_bits_)
        edges = np.cumsum(self.part_widths_)
        columns = np.split(rotated, edges[:-1], axis=1)
        learned, histories = [], []
        for part, (rows, n_bits) in enumerate(zip(columns, self.part_bits_, strict=True)):
            rows = np.ascontiguousarray(rows)
            centroids, scale = corners(rows, int(n_bits))
            wanted = hamming_lengths(int(n_bits), scale)
            history = []
            for step in range(self.n_iterations + 1):
                sizes, sums, error = assign(rows, centroids.astype(np.float32))
                weights = sizes / len(rows)
                error += self.affinity_weight * affinity_error(centroids, weights, wanted)
                history.append(error)
                done = part * (self.n_iterations + 1) + step + 1
                self._report(done, n_parts * (self.n_iterations + 1), objective=error)
                if step < self.n_iterations:
                    means = sums / np.maximum(sizes, 1)[:, None]
                    move(centroids, means, weights, wanted, self.affinity_weight, _INNER_STEPS)
            learned.append(centroids.astype(np.float32).ravel())
            histories.append(history)
        self.centroids_ = np.concatenate(learned)
        self.objective_history_ = np.asarray(histories).T.copy()

    def _rotated(self, vectors: Vectors) -> Vectors:
        turned: Vectors = np.matmul(vectors - self.mean_, self.rotation_)
        return turned

    def _parts(self) -> list[tuple[slice, slice, Vectors]]:
        """For every part its columns, its bits and its centroids (2**bits, width)."""
        parts, column, bit, at = [], 0, 0, 0
        for width, n_bits in zip(self.part_widths_.tolist(), self.part_bits_.tolist(), strict=True):
            size = (1 << n_bits) * width
            centroids = self.centroids_[at : at + size].reshape(1 << n_bits, width)
            parts.append((slice(column, column + width), slice(bit, bit + n_bits), centroids))
            column, bit, at = column + width, bit + n_bits, at + size
        return parts

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return map_over_blocks(self._block_bits, vectors)

    def _block_bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        rotated = self._rotated(vectors)
        bits = np.empty((len(vectors), self.n_bits), dtype=np.bool_)
        for columns, places, centroids in self._parts():
            table = numbers_as_bits(places.stop - places.start)
            bits[:, places] = table[nearest(rotated[:, columns], centroids)]
        return bits

    def _decode(self, bits: NDArray[np.bool_]) -> Vectors:
        rotated = np.empty((len(bits), self.rotation_.shape[1]), dtype=np.float32)
        for columns, places, centroids in self._parts():
            powers = 1 << np.arange(places.stop - places.start)[::-1]
            rotated[:, columns] = centroids[bits[:, places] @ powers]
        return rotated @ self.rotation_.T + self.mean_


def numbers_as_bits(n_bits: int) -> NDArray[np.bool_]:
    """All numbers below 2**n_bits as bits (2**n_bits, n_bits), most significant first."""
    numbers = np.arange(1 << n_bits)[:, None]
    return (numbers >> np.arange(n_bits)[::-1]) & 1 > 0


def corners(rows: Vectors, n_bits: int) -> tuple[NDArray[np.float64], float]:
    """Centroids at the corners of PCA hashing, numbered by its bits, and half the edge length."""
    basis = principal_axes(rows, n_bits)
    components = (rows - basis.mean) @ basis.axes
    scale = float(np.abs(components).mean(dtype=np.float64)) if components.size else 0.0
    signs = np.where(numbers_as_bits(n_bits), 1.0, -1.0)[:, : components.shape[1]]
    return basis.mean + scale * (signs @ basis.axes.T), scale


def hamming_lengths(n_bits: int, scale: float) -> NDArray[np.float64]:
    """Distances wanted between centroids: the edge times the root of the Hamming distance."""
    bits = numbers_as_bits(n_bits)
    return 2 * scale * np.sqrt((bits[:, None] != bits[None, :]).sum(axis=2))


def affinity_error(
    centroids: NDArray[np.float64], weights: NDArray[np.float64], wanted: NDArray[np.float64]
) -> float:
    """Weighted mean of the squared gaps between distances and wanted ones (equation 5)."""
    # By products: all differences at once would take 2**16 times the width of a part.
    centred = centroids - centroids.mean(axis=0)
    squares = np.square(centred).sum(axis=1)
    apart = np.maximum(squares[:, None] + squares - 2 * (centred @ centred.T), 0)
    np.fill_diagonal(apart, 0)
    return float(weights @ np.square(np.sqrt(apart) - wanted) @ weights)
