"""Spherical hashing: balance, overlaps, and its own distance."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.bits import pack_bits
from sghash.errors import InvalidInput
from sghash.models.baselines.spherical import SphericalHashing, spherical_hamming


@pytest.fixture
def vectors(rng):
    return (rng.normal(size=(6000, 24)) * np.linspace(2, 0.5, 24)).astype(np.float32)


def overlaps(bits: np.ndarray) -> np.ndarray:
    counts = bits.T.astype(np.float64) @ bits / len(bits)
    return counts[np.triu_indices(bits.shape[1], 1)]


def test_spheres_hold_half_and_pairs_a_quarter(vectors):
    """Driven to the end, every sphere has 50 % ± 1 % and every pair 25 % ± 2 % in common."""
    model = SphericalHashing(
        n_bits=24,
        sample=None,
        mean_tolerance=0.01,
        deviation_tolerance=0.02,
        n_iterations=500,
        random_state=0,
    ).fit(vectors)
    bits = model.transform(vectors)
    assert np.all(np.abs(bits.mean(axis=0) - 0.5) <= 0.01)
    assert np.all(np.abs(overlaps(bits) - 0.25) <= 0.02)
    assert np.abs(model.overlap_history_[0, 0]) > 0.05


def test_published_tolerances_end_training(vectors):
    model = SphericalHashing(n_bits=32, random_state=0).fit(vectors)
    history = model.overlap_history_
    assert 1 < len(history) < 100
    assert history[-1, 0] <= 0.10 and history[-1, 1] <= 0.15
    assert np.all((history[:-1, 0] > 0.10) | (history[:-1, 1] > 0.15))
    bits = model.transform(vectors)
    deviations = overlaps(bits) / 0.25 - 1
    assert np.abs(deviations).mean() == pytest.approx(history[-1, 0], rel=0.02)
    assert deviations.std() == pytest.approx(history[-1, 1], rel=0.02)


def test_one_move_is_the_published_force(vectors):
    """A slow twin of the first iteration, pair by pair."""
    options = {"n_bits": 5, "sample": None, "mean_tolerance": 0.0, "random_state": 4}
    before = SphericalHashing(n_iterations=0, **options).fit(vectors)
    after = SphericalHashing(n_iterations=1, **options).fit(vectors)
    pivots, m = before.pivots_.astype(np.float64), len(vectors)
    inside = before.transform(vectors)
    expected = pivots.copy()
    for i in range(5):
        for j in range(5):
            if i != j:
                shared = np.sum(inside[:, i] & inside[:, j])
                force = 0.5 * (shared - m / 4) / (m / 4) * (pivots[i] - pivots[j])
                expected[i] += force / 5
    assert np.allclose(after.pivots_, expected, atol=1e-5)


def test_bit_is_set_inside(vectors):
    model = SphericalHashing(n_bits=7, random_state=0).fit(vectors)
    gaps = vectors[:, None].astype(np.float64) - model.mean_ - model.pivots_
    expected = np.square(gaps).sum(axis=2) <= model.squared_radii_
    assert np.mean(model.transform(vectors) == expected) > 0.9999


def test_sample_moves_the_pivots_and_all_rows_set_the_radii(vectors):
    model = SphericalHashing(n_bits=16, sample=500, random_state=0).fit(vectors)
    assert np.all(np.abs(model.transform(vectors).mean(axis=0) - 0.5) <= 0.001)


def test_spherical_hamming_by_hand():
    left = pack_bits([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0]])
    right = pack_bits([[1, 0, 0, 1, 1], [1, 1, 0, 0, 1], [0, 0, 1, 0, 0]])
    found = spherical_hamming(left, right, n_bits=5)
    expected = [[2 / 2.1, 0, 4 / 0.1], [3 / 0.1, 3 / 0.1, 1 / 0.1]]
    assert np.allclose(found, expected, rtol=1e-5)


def test_bad_options_are_refused(vectors):
    with pytest.raises(InvalidInput, match="sample"):
        SphericalHashing(sample=0).fit(vectors)


@pytest.mark.parametrize("n_different", [2, 3, 5])
def test_rows_of_few_different_values_keep_different_codes(vectors, n_different):
    """Three values in equal parts push all pivots away without end."""
    few = vectors[:n_different]
    model = SphericalHashing(n_bits=12, random_state=0).fit(np.repeat(few, 20, axis=0))
    assert np.isfinite(model.squared_radii_).all()
    assert len(np.unique(model.encode(few), axis=0)) == n_different
