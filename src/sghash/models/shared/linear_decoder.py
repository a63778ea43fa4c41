"""The best linear way back from bits to vectors, for models that only define the way forth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.models.shared.blockwise import single_threaded_blas, sum_over_blocks
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
    n = len(vectors)
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)

    def of_block(block: Vectors, its_bits: NDArray[np.bool_]) -> tuple[NDArray[np.float64], ...]:
        signs = signed(its_bits)
        gram, cross = signs.T @ signs, signs.T @ (block - mean)
        total = signs.sum(axis=0, dtype=np.float64)
        return gram.astype(np.float64), cross.astype(np.float64), total

    gram, cross, signs_sum = sum_over_blocks(of_block, vectors, bits)
    signs_mean = signs_sum / n
    # The vectors are centred already: centring the signs too leaves the offset to the means.
    centred_gram = gram / n - np.outer(signs_mean, signs_mean)
    with single_threaded_blas():
        weights = np.linalg.pinv(centred_gram, rcond=1e-10, hermitian=True) @ (cross / n)
    offset = mean - signs_mean @ weights
    return LinearDecoder(weights.astype(np.float32), offset.astype(np.float32))
