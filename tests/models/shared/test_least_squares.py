"""Least squares decoders against NumPy's solver."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.models.sgh.paper.generative import code_values
from sghash.models.shared.blockwise import BLOCK_ROWS
from sghash.models.shared.least_squares import LeastSquares, fit_linear_decoder


@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_blocks_give_the_least_squares_decoder(rng: np.random.Generator, coding: str) -> None:
    codes = code_values(rng.random((300, 6)) < 0.3, coding)
    codes[:, 2] = 1  # a bit that never changes
    vectors = rng.standard_normal((300, 4)).astype(np.float32) + codes[:, :4]
    squares = LeastSquares(6, 4)
    for start in range(0, 300, 70):
        squares.add(codes[start : start + 70], vectors[start : start + 70])
    weights, bias = squares.solve()
    design = np.column_stack([np.delete(codes, 2, axis=1), np.ones(300)]).astype(np.float64)
    expected = np.linalg.lstsq(design, vectors)[0]
    np.testing.assert_allclose(np.delete(weights, 2, axis=0), expected[:-1], atol=1e-4)
    np.testing.assert_allclose(weights[2], 0, atol=1e-6)
    np.testing.assert_allclose(bias, expected[-1], atol=1e-4)


@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_a_given_decoder_counts_as_further_rows(rng: np.random.Generator, coding: str) -> None:
    weights, bias = rng.standard_normal((3, 4)), rng.standard_normal(4)
    codes = code_values(rng.random((20, 3)) < 0.5, coding)
    vectors = rng.standard_normal((20, 4)).astype(np.float32)
    squares = LeastSquares(3, 4)
    squares.add(codes, vectors)
    every = np.array([[(i >> k) & 1 for k in range(3)] for i in range(8)])
    listed = code_values(every, coding, np.float64)
    rows = np.vstack([codes, np.repeat(listed, 5, axis=0)])
    targets = np.vstack([vectors, np.repeat(listed @ weights + bias, 5, axis=0)])
    design = np.column_stack([rows, np.ones(len(rows))])
    expected = np.linalg.lstsq(design, targets)[0]
    found = squares.solve_near(weights, bias, n_rows=40, coding=coding)
    np.testing.assert_allclose(found[0], expected[:3], atol=1e-5)
    np.testing.assert_allclose(found[1], expected[3], atol=1e-5)


@pytest.mark.parametrize("n", [200, BLOCK_ROWS + 100])
def test_the_linear_decoder_is_that_of_least_squares(rng: np.random.Generator, n: int) -> None:
    bits = rng.random((n, 5)) < 0.4
    vectors = (rng.standard_normal((n, 3)) + bits[:, :3] + 50).astype(np.float32)
    design = np.column_stack([np.where(bits, 1.0, -1.0), np.ones(n)])
    expected = np.linalg.lstsq(design, vectors.astype(np.float64))[0]
    found = fit_linear_decoder(vectors, bits)
    np.testing.assert_allclose(found.weights, expected[:5], atol=1e-4)
    np.testing.assert_allclose(found.offset, expected[5], atol=1e-4)
