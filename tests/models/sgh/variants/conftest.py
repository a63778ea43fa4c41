"""What tests of decoders share: slopes by finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


def slope(function: Callable[[np.ndarray], float], place: tuple[int, ...], array: Any) -> float:
    """Derivative of `function` by one entry of `array`."""
    ends = []
    for change in (1e-6, -1e-6):
        moved = np.array(array, dtype=np.float64)
        moved[place] += change
        ends.append(function(moved))
    return (ends[0] - ends[1]) / 2e-6


def check_decoder_gradients(kind: Any, parameters: Any, X: np.ndarray, codes: np.ndarray) -> None:
    """Compare all that a `TrainableDecoder` says about slopes with its own log-likelihood."""
    decoder = kind.at(parameters)
    found = decoder.code_gradient(X, codes)
    for row, k in np.ndindex(codes.shape):
        here = slope(lambda c, r=row: decoder.log_likelihood(X, c)[r], (row, k), codes)
        assert found[row, k] == pytest.approx(here, rel=1e-6, abs=1e-6)
    gradients = kind.parameter_gradients(parameters, X, codes)
    assert set(gradients) == set(parameters)
    for key, value in parameters.items():
        for place in np.ndindex(np.shape(value)):

            def loss(array: np.ndarray, key: str = key) -> float:
                return -kind.at({**parameters, key: array}).log_likelihood(X, codes).mean()

            here = slope(loss, place, value)
            assert gradients[key][place] == pytest.approx(here, rel=1e-5, abs=1e-5), key


@pytest.fixture
def check_gradients() -> Callable[..., None]:
    return check_decoder_gradients
