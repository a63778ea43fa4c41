"""`minimize_binary` against enumeration, and its estimators against their definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sghash.errors import InvalidDtype, InvalidInput
from sghash.models import minimize_binary

N_BITS = 10


def quadratic(seed: int):
    """A random quadratic function of bits, and its slope."""
    rng = np.random.default_rng(seed)
    Q = rng.normal(size=(N_BITS, N_BITS))
    Q = Q + Q.T

    def f(bits):
        h = bits.astype(float)
        return np.einsum("ij,ij->i", h @ Q, h)

    def slope(bits):
        return 2 * bits.astype(float) @ Q

    return f, slope


def best_of_all(f) -> float:
    return float(f(np.array(list(product((False, True), repeat=N_BITS)))).min())


@pytest.mark.parametrize("gradient", ["distributional", "approximate", "straight-through"])
@pytest.mark.parametrize("seed", range(4))
def test_finds_the_least_value(gradient, seed):
    f, slope = quadratic(seed)
    found = minimize_binary(f, N_BITS, gradient=gradient, slope=slope, random_state=0)
    assert found.bits.shape == (N_BITS,) and found.bits.dtype == np.bool_
    assert found.value == pytest.approx(float(f(found.bits[None])[0]))
    assert found.value == pytest.approx(best_of_all(f))


@pytest.mark.parametrize("gradient", ["distributional", "approximate", "straight-through"])
def test_finds_a_vector_that_chance_would_not(gradient):
    """One of 2^40, where all vectors asked about are a share of one in thirty million."""
    rng = np.random.default_rng(11)  # not the seed of the search, whose first draws it would be
    hidden, mixing = rng.random(40) < 0.5, rng.normal(size=(80, 40))

    def f(bits):
        return np.square((bits.astype(float) - hidden) @ mixing.T).sum(axis=1)

    def slope(bits):
        return 2 * (bits.astype(float) - hidden) @ mixing.T @ mixing

    found = minimize_binary(f, 40, gradient=gradient, slope=slope, n_steps=100, random_state=0)
    assert found.value == 0.0 and np.array_equal(found.bits, hidden)


def test_the_distribution_itself_settles_at_good_vectors():
    """Not the luck of many draws: the likelier bits of each start are far below the average."""
    f, _ = quadratic(1)
    found = minimize_binary(f, N_BITS, n_starts=4, random_state=0)
    everything = f(np.array(list(product((False, True), repeat=N_BITS))))
    assert (f(found.probabilities > 0.5) < np.quantile(everything, 0.02)).all()
    assert np.minimum(found.probabilities, 1 - found.probabilities).mean() < 0.05


def test_counts_what_it_asks_and_never_gets_worse():
    f, slope = quadratic(2)
    asked = []

    def counting(bits):
        asked.append(len(bits))
        return f(bits)

    found = minimize_binary(counting, N_BITS, n_steps=7, n_starts=3, random_state=0)
    assert found.n_values == sum(asked) == 64 + 7 * 3 * (N_BITS + 1) + 3
    assert found.n_slopes == 0 and found.history.shape == (7,)
    assert (np.diff(found.history) <= 0).all()
    found = minimize_binary(
        f, N_BITS, gradient="approximate", slope=slope, n_steps=7, n_starts=3, random_state=0
    )
    assert found.n_values == 64 + 7 * 3 + 3 and found.n_slopes == 7 * 3


def test_the_scale_of_the_function_does_not_matter_and_the_seed_does_all():
    f, _ = quadratic(3)
    small, large = (
        minimize_binary(lambda bits, c=c: c * f(bits), N_BITS, n_steps=50, random_state=5)
        for c in (2.0**-30, 2.0**30)
    )
    assert np.array_equal(small.bits, large.bits)
    assert np.allclose(small.probabilities, large.probabilities)


def test_a_constant_function_is_harmless():
    found = minimize_binary(lambda bits: np.zeros(len(bits)), 5, n_steps=3, random_state=0)
    assert found.value == 0.0


def test_wrong_use_is_refused():
    f, _ = quadratic(0)
    with pytest.raises(InvalidInput, match="slope="):
        minimize_binary(f, N_BITS, gradient="approximate")
    with pytest.raises(InvalidInput, match="gradient must be one of"):
        minimize_binary(f, N_BITS, gradient="exact")
    with pytest.raises(InvalidInput, match="one value per row"):
        minimize_binary(lambda bits: 1.0, N_BITS)
    with pytest.raises(InvalidInput, match="finite"):
        minimize_binary(lambda bits: np.full(len(bits), np.inf), N_BITS)
    with pytest.raises(InvalidInput, match="slope must give"):
        minimize_binary(f, N_BITS, gradient="approximate", slope=lambda bits: bits[0])
    with pytest.raises(InvalidDtype, match="function"):
        minimize_binary(3, N_BITS)
    with pytest.raises(InvalidInput, match="n_bits"):
        minimize_binary(f, 0)
    for wrong in ({"n_steps": 0}, {"n_starts": True}, {"learning_rate": -1.0}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            minimize_binary(f, N_BITS, **wrong)
