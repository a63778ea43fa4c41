"""The best linear way back from bits to vectors, for models that only define the way forth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.models.shared.blockwise import single_threaded_blas, sum_over_blocks
from sghash.models.shared.least_squares import LeastSquares
from sghash.validation import Vectors


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
