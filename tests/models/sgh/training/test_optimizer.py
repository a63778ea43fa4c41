"""Optimisers and schedules against their textbook forms."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.models.sgh.training.optimizer import (
    SGD,
    Adam,
    Schedule,
    iterate_probabilities,
    make_optimizer,
)


def test_adam_equals_the_published_algorithm(rng: np.random.Generator) -> None:
    values = rng.standard_normal(50).astype(np.float32)
    expected, m, v = values.astype(np.float64), np.zeros(50), np.zeros(50)
    adam = Adam(50)
    for t in range(1, 40):
        g = rng.standard_normal(50).astype(np.float32)
        adam.update(values, g, 0.01)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g.astype(np.float64) ** 2
        expected -= 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)


def test_sgd_is_the_plain_update() -> None:
    values = np.array([1.0, 2.0], dtype=np.float32)
    optimizer = make_optimizer("sgd", 2)
    assert isinstance(optimizer, SGD)
    optimizer.update(values, np.array([10.0, -10.0], dtype=np.float32), 0.1)
    np.testing.assert_allclose(values, [0.0, 3.0])


def test_schedules() -> None:
    step = Schedule(100, "step", 0.1, 0.5, 25, (1.0, 0.0))
    assert [step.rate(t) for t in (0, 24, 25, 50, 99)] == [0.1, 0.1, 0.05, 0.025, 0.0125]
    assert step.rate(10_000) == step.rate(99)  # online learning goes on at the last rate
    assert [step.weight(t) for t in (0, 75, 99, 500)] == [1.0, 0.0, 0.0, 0.0]
    assert step.weight(30) == pytest.approx(0.6)
    root = Schedule(100, "sqrt", 0.1, 0.5, 25, 0.3)
    assert root.rate(0) == 0.1 and root.rate(99) == pytest.approx(0.01)
    assert root.weight(50) == 0.3
    assert Schedule(5, "constant", 0.1, 0.5, 1, 0.0).rates().tolist() == [0.1] * 5


def test_iterates_of_the_theorems() -> None:
    gammas = np.array([0.4, 0.2, 0.1])
    np.testing.assert_allclose(iterate_probabilities(gammas, "last"), [0, 0, 1])
    np.testing.assert_allclose(iterate_probabilities(gammas, "theorem2"), gammas / 0.7)
    weights = 2 * gammas - 3 * gammas**2
    np.testing.assert_allclose(
        iterate_probabilities(gammas, "theorem1", 3.0), weights / weights.sum()
    )
    with pytest.raises(InvalidInput, match=r"below 2 / smoothness = 0\.25, the largest is 0\.4"):
        iterate_probabilities(gammas, "theorem1", 8.0)
