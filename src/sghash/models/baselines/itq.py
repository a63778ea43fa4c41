"""Iterative quantization.

Gong and Lazebnik, "Iterative Quantization: A Procrustean Approach to Learning Binary Codes",
CVPR 2011 (and with Gordo and Perronnin, TPAMI 35(12), 2013).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.models.base import BinaryHasher, Callback
from sghash.models.capabilities import Capabilities
from sghash.models.shared.axes import principal_axes, semi_orthogonal
from sghash.models.shared.blockwise import (
    map_over_blocks,
    single_threaded_blas,
    some_rows,
    sum_over_blocks,
)
from sghash.models.shared.least_squares import fit_linear_decoder, signed
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import Vectors, check_count


class ITQ(BinaryHasher):
    """Signs of the principal components, rotated to lie as near to the signs as they can.

    Beyond the paper: where `n_bits` exceeds the rank r of the data, the rotation becomes an
    (r, n_bits) matrix with orthonormal rows; the same alternation then minimises the same error,
    so any number of bits works. Training stops early when the error no longer falls. `decode` is
    the linear map with the least squared error on the training vectors.

    Parameters
    ----------
    n_bits : int
        Code length.
    n_iterations : int
        Alternations between codes and rotation; the paper uses 50.
    sample : int or None
        Learn the rotation from this many random rows; None takes all. The principal axes and the
        decoder always use all rows.
    callback : callable or None
        Receives a `Progress` with `quantization_error` after every iteration.
    random_state : int, Generator or None
        Seed of the first rotation and of the sample.

    Attributes
    ----------
    mean_ : (d,)
        Mean of the training vectors.
    projection_ : (d, n_bits)
        A bit is set where the centred vector times its column is positive.
    decoder_, decoder_offset_ : (n_bits, d), (d,)
        A vector is the offset plus the rows of `decoder_`, each signed by its bit.
    quantization_error_history_ : (n,)
        Mean squared distance between rotated components and their signs, before each change of
        the rotation and at the end; it never rises.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(decodes=True, tables=True, onnx=True)
    learned_names: ClassVar[tuple[str, ...]] = (
        "mean_",
        "projection_",
        "decoder_",
        "decoder_offset_",
        "quantization_error_history_",
    )

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_iterations: int = 50,
        sample: int | None = None,
        callback: Callback | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_bits, self.n_iterations, self.sample = n_bits, n_iterations, sample
        self.callback, self.random_state = callback, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        check_count(self.n_iterations, name="n_iterations", least=0)
        check_count(self.sample, name="sample", or_none=True)
        rng = generator_of(self.random_state)
        basis = principal_axes(vectors, self.n_bits)
        rotation = semi_orthogonal(basis.axes.shape[1], self.n_bits, rng)
        chosen = some_rows(vectors, self.sample, rng)
        components = map_over_blocks(lambda block: (block - basis.mean) @ basis.axes, chosen)
        rotation = self._rotate(components, rotation)
        self.mean_ = basis.mean
        self.projection_ = (basis.axes @ rotation).astype(np.float32)
        decoder = fit_linear_decoder(vectors, map_over_blocks(self._bits, vectors))
        self.decoder_, self.decoder_offset_ = decoder.weights, decoder.offset

    def _rotate(self, components: Vectors, rotation: NDArray[np.float64]) -> NDArray[np.float64]:
        """Alternate between the nearest codes and the nearest rotation (the paper's algorithm 1).

        With B = sign(V R), |B - V R|² = n l + |V|² - 2 sum |V R|, since R keeps the length of V.
        """
        n, n_bits = len(components), self.n_bits
        length = float(np.square(components, dtype=np.float64).sum())
        column_sums = components.sum(axis=0, dtype=np.float64)[:, None]
        history: list[float] = []
        best, largest = rotation, -np.inf
        for step in range(self.n_iterations + 1):
            positive = _positive_sums(components, rotation.astype(np.float32))
            cross = 2 * positive - column_sums  # V.T @ B
            size = float(np.sum(cross * rotation))  # sum |V R|
            # Not judged by the error, in which data of a large or small scale drown the change.
            if size <= largest:
                break
            best, largest = rotation, size
            error = (n * n_bits + length - 2 * size) / n
            history.append(error)
            self._report(step, self.n_iterations, quantization_error=error)
            if step < self.n_iterations:
                with single_threaded_blas():
                    left, _, right = np.linalg.svd(cross, full_matrices=False)
                    rotation = left @ right
        self.quantization_error_history_ = np.asarray(history)
        return best

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return (vectors - self.mean_) @ self.projection_ > 0

    def _decode(self, bits: NDArray[np.bool_]) -> Vectors:
        return signed(bits) @ self.decoder_ + self.decoder_offset_


def _positive_sums(components: Vectors, rotation: Vectors) -> NDArray[np.float64]:
    """For every bit, the sum (r, n_bits) of the components of all rows whose bit is set."""

    def of_block(block: Vectors) -> tuple[NDArray[np.float64]]:
        positive = (block @ rotation > 0).astype(np.float32)
        return ((block.T @ positive).astype(np.float64),)

    return sum_over_blocks(of_block, components)[0]
