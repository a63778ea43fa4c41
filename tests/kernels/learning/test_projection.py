"""Signs packed by the compiled kernel against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.kernels.learning.projection import arrange, pack_signs


@pytest.mark.parametrize("n_bits", [1, 7, 8, 9, 64, 131])
def test_packed_signs_equal_numpys(rng: np.random.Generator, n_bits: int) -> None:
    vectors = rng.integers(-3, 4, (57, 6)).astype(np.float32)
    weights = rng.integers(-2, 3, (6, n_bits)).astype(np.float32)
    bias = rng.integers(-2, 3, n_bits).astype(np.float32)
    projection = arrange(weights, bias)
    codes = np.empty((57, (n_bits + 7) // 8), dtype=np.uint8)
    assert pack_signs(vectors @ projection.weights, projection.bias, codes)
    # Whole numbers: many sums are exactly zero, and zero is not a set bit.
    expected = np.packbits(vectors @ weights + bias > 0, axis=1)
    np.testing.assert_array_equal(codes, expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 11])
def test_what_is_not_finite_is_noticed(rng: np.random.Generator, bad: float, column: int) -> None:
    scores = rng.standard_normal((40, 16)).astype(np.float32)
    bias = np.zeros(16, dtype=np.float32)
    codes = np.empty((40, 2), dtype=np.uint8)
    assert pack_signs(scores, bias, codes)
    scores[33, column] = bad
    assert not pack_signs(scores, bias, codes)
