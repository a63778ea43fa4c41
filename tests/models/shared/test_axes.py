"""Principal axes against NumPy's plain definition, and random rotations."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.models.shared import blockwise
from sghash.models.shared.axes import leading_axes, principal_axes, semi_orthogonal


@pytest.mark.parametrize("shape", [(500, 7), (5, 20), (20_000, 4)])
def test_axes_diagonalise_the_covariance(rng, shape):
    vectors = (rng.normal(size=shape) * rng.uniform(1, 9, size=shape[1]) + 30).astype(np.float32)
    basis = principal_axes(vectors, shape[1])
    wide = vectors.astype(np.float64)
    expected = np.cov(wide.T, bias=True)
    rank = min(shape[1], shape[0] - 1) if shape[0] <= shape[1] else shape[1]
    assert basis.axes.shape == (shape[1], rank)
    along = basis.axes.T.astype(np.float64) @ expected @ basis.axes
    assert np.allclose(along, np.diag(basis.variances), atol=1e-4 * basis.variances[0])
    assert np.all(np.diff(basis.variances) <= 0)
    assert np.allclose(basis.mean, wide.mean(axis=0), rtol=1e-6)


def test_directions_without_variance_are_left_out(rng):
    vectors = np.full((300, 6), 1234.5, dtype=np.float32)
    assert principal_axes(vectors, 6).axes.shape == (6, 0)
    vectors[:, 2] += rng.normal(size=300)
    vectors[:, 4] = vectors[:, 2]
    basis = principal_axes(vectors, 6)
    assert basis.axes.shape == (6, 1)
    assert np.allclose(np.abs(basis.axes[:, 0]), [0, 0, 0.5**0.5, 0, 0.5**0.5, 0], atol=1e-6)


def test_leading_axes_are_principal_ones(rng):
    vectors = (rng.normal(size=(400, 60)) * np.linspace(5, 0.1, 60) + 9).astype(np.float32)
    vectors[:, 7] = 1e6
    found, exact = leading_axes(vectors, 4, rng, n_rounds=20), principal_axes(vectors, 4).axes
    assert np.allclose(found.T @ found, np.eye(4), atol=1e-4)
    assert np.linalg.svd(found.T @ exact)[1].min() > 0.99
    assert not found[7].any()


@pytest.mark.parametrize("shape", [(6, 6), (3, 9), (9, 3), (0, 4)])
def test_semi_orthogonal(shape):
    matrix = semi_orthogonal(*shape, np.random.default_rng(0))
    assert matrix.shape == shape
    small = matrix @ matrix.T if shape[0] < shape[1] else matrix.T @ matrix
    assert np.allclose(small, np.eye(min(shape)), atol=1e-12)


def test_block_sums_do_not_depend_on_the_number_of_cores(rng, monkeypatch):
    vectors = rng.normal(size=(60_000, 5)).astype(np.float32)

    def term(block):
        return block.T @ block, block.sum(axis=0)

    many = blockwise.sum_over_blocks(term, vectors)
    monkeypatch.setattr(blockwise, "available_cores", lambda: 1)
    one = blockwise.sum_over_blocks(term, vectors)
    assert all(np.array_equal(a, b) for a, b in zip(many, one, strict=True))
    assert np.allclose(many[0], vectors.T @ vectors, rtol=1e-3, atol=1)
    assert len(many[1]) == 5
