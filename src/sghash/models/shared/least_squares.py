"""The decoder of least squared error from codes to vectors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.models.shared.blockwise import single_threaded_blas, sum_over_blocks
from sghash.validation import Vectors


class LeastSquares:
    """Sums over codes h and the vectors they stand for, fed block by block."""

    def __init__(self, n_bits: int, width: int) -> None:
        self.n_rows = 0
        self.gram, self.cross = np.zeros((n_bits, n_bits)), np.zeros((n_bits, width))
        self.code_sum, self.vector_sum = np.zeros(n_bits), np.zeros(width)

    def add(self, codes: Vectors, vectors: Vectors) -> None:
        """Take codes h (m, n_bits) and the vectors (m, d), near zero mean, that they stand for."""
        self.n_rows += len(codes)
        self.gram += codes.T @ codes
        self.cross += codes.T @ vectors
        self.code_sum += codes.sum(axis=0, dtype=np.float64)
        self.vector_sum += vectors.sum(axis=0, dtype=np.float64)

    def solve(self) -> tuple[Vectors, Vectors]:
        """Weights (n_bits, d) and bias (d,); bits that never change get weight zero."""
        code_mean, vector_mean = self.code_sum / self.n_rows, self.vector_sum / self.n_rows
        gram = self.gram / self.n_rows - np.outer(code_mean, code_mean)
        cross = self.cross / self.n_rows - np.outer(code_mean, vector_mean)
        weights = np.linalg.pinv(gram, rcond=1e-6, hermitian=True) @ cross
        bias = vector_mean - code_mean @ weights
        return weights.astype(np.float32), bias.astype(np.float32)

    def solve_near(
        self, weights: Vectors, bias: Vectors, *, n_rows: int, coding: str
    ) -> tuple[Vectors, Vectors]:
        """Weights and bias, drawn to given ones as if those came from `n_rows` further rows.

        Those rows are taken to have independent, balanced bits. However few rows were added, the
        result is a good decoder if the given one is.
        """
        n_bits = len(weights)
        middle, variance = (0.0, 1.0) if coding == "signed" else (0.5, 0.25)
        prior = np.full((n_bits + 1, n_bits + 1), middle)
        prior[:n_bits, :n_bits] = variance * np.eye(n_bits) + middle**2
        prior[n_bits, n_bits] = 1
        prior *= n_rows
        gram = np.empty_like(prior)
        gram[:n_bits, :n_bits] = self.gram
        gram[n_bits, :n_bits] = gram[:n_bits, n_bits] = self.code_sum
        gram[n_bits, n_bits] = self.n_rows
        cross = np.vstack([self.cross, self.vector_sum])
        given = np.vstack([weights, bias]).astype(np.float64)
        solution = np.linalg.solve(gram + prior, cross + prior @ given).astype(np.float32)
        return solution[:n_bits], solution[n_bits]


class LinearDecoder(NamedTuple):
    """A vector is `offset` (d,) plus the sum of the rows of `weights` (n_bits, d), signed ±1."""

    weights: Vectors
    offset: Vectors


def signed(bits: NDArray[np.bool_]) -> Vectors:
    """Bits as -1 and +1, float32."""
    signs = bits.astype(np.float32)
    signs *= 2
    signs -= 1
    return signs


def fit_linear_decoder(vectors: Vectors, bits: NDArray[np.bool_]) -> LinearDecoder:
    """Find the decoder with the least squared error on vectors (n, d) and bits (n, n_bits).

    Bits that never change get weight zero (the solution of least norm).
    """
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    squares = LeastSquares(bits.shape[1], vectors.shape[1])

    def of_block(block: Vectors, its_bits: NDArray[np.bool_]) -> tuple[NDArray[np.float64], ...]:
        part = LeastSquares(its_bits.shape[1], block.shape[1])
        part.add(signed(its_bits), block - mean)
        return part.gram, part.cross, part.code_sum, part.vector_sum

    sums = sum_over_blocks(of_block, vectors, bits)
    squares.n_rows = len(vectors)
    squares.gram, squares.cross, squares.code_sum, squares.vector_sum = sums
    with single_threaded_blas():
        weights, bias = squares.solve()
    return LinearDecoder(weights, mean + bias)
