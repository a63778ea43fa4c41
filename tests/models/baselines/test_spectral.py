"""Spectral hashing against the published eigenvalues and a slow twin."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.models.baselines.spectral import SpectralHashing, smallest_modes


def eigenvalue(side: float, k: int, epsilon: float = 0.1) -> float:
    """Of the eigenfunction with k half waves on [0, side] (the paper's equation 11)."""
    return 1 - np.exp(-(epsilon**2) / 2 * (k * np.pi / side) ** 2)


@pytest.mark.parametrize("sides", [[4.0, 1.0], [3.0, 2.9, 0.2], [1.0], [5.0, 4.0, 3.0, 2.0]])
def test_modes_come_in_the_order_of_their_eigenvalues(sides):
    n_modes = 12
    axes, modes = smallest_modes(np.asarray(sides), n_modes)
    every = sorted((eigenvalue(s, k), a, k) for a, s in enumerate(sides) for k in range(1, 200))
    assert [(a, k) for _, a, k in every[:n_modes]] == list(zip(axes, modes, strict=True))


def test_known_order_on_a_box():
    """A box of 4 x 1: three or four modes of the long side come before the first of the short."""
    axes, modes = smallest_modes(np.asarray([4.0, 1.0]), 7)
    assert list(zip(axes.tolist(), modes.tolist(), strict=True)) == [
        (0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (0, 5), (0, 6),
    ]  # fmt: skip


def test_bits_of_uniform_data_follow_the_published_functions(rng):
    """On a uniform box all is known: axes, sides, modes, and the sign of every eigenfunction."""
    box = np.asarray([8.0, 3.0])
    vectors = (rng.uniform(size=(20_000, 2)) * box + 100).astype(np.float32)
    model = SpectralHashing(n_bits=7).fit(vectors)
    assert np.allclose(model.sides_, box, rtol=0.01)
    assert model.bit_axis_.tolist() == [0, 0, 1, 0, 0, 0, 1]
    assert model.bit_mode_.tolist() == [1, 2, 1, 3, 4, 5, 2]
    bits = model.transform(vectors)
    for bit, (axis, mode) in enumerate(zip(model.bit_axis_, model.bit_mode_, strict=True)):
        turned = model.axes_[axis, axis] < 0
        position = (vectors[:, axis] - 100) / box[axis]
        position = 1 - position if turned else position
        expected = np.cos(mode * np.pi * position) > 0
        assert np.mean(bits[:, bit] == expected) > 0.97


def test_slow_twin(rng):
    vectors = (rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5))).astype(np.float32)
    model = SpectralHashing(n_bits=20).fit(vectors)
    bits = model.transform(vectors)
    for row in range(0, 200, 17):
        for bit in range(20):
            axis, mode = model.bit_axis_[bit], int(model.bit_mode_[bit])
            along = float((vectors[row] - model.mean_) @ model.axes_[:, axis])
            phase = mode * np.pi * (along - model.corner_[axis]) / model.sides_[axis]
            if abs(np.cos(phase)) > 1e-3:
                assert bits[row, bit] == (np.cos(phase) > 0)


def test_one_axis_gives_many_bits(rng):
    vectors = np.repeat(rng.uniform(size=(500, 1)), 3, axis=1).astype(np.float32)
    model = SpectralHashing(n_bits=10).fit(vectors)
    assert model.bit_mode_.tolist() == list(range(1, 11))
    assert set(model.bit_axis_.tolist()) == {0}
