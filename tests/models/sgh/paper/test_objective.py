"""Description length in closed form against the enumeration of all codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.models.sgh import SGH, objective


@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_description_length_is_the_enumerated_objective(
    make_model: Any, rng: np.random.Generator, coding: str
) -> None:
    model, X = make_model(coding), rng.standard_normal((12, 5)).astype(np.float32)
    length = model.description_length(X)
    assert length.total.shape == (12,)
    np.testing.assert_allclose(length.total, length.code + length.residual)
    assert (length.code >= 0).all()
    for i in range(3):
        row = objective(model, X[i : i + 1]) / np.log(2)
        assert length.total[i] == pytest.approx(row, rel=1e-10)
    without = objective(model, X, kl_weight=0.0) / np.log(2)
    assert length.residual.mean() == pytest.approx(without, rel=1e-10)


def test_description_length_may_be_negative(make_model: Any, rng: np.random.Generator) -> None:
    model = make_model("signed")
    model.noise_variance_ = 1e-8
    on_a_code = model.decode(np.array([[0b01010000]], dtype=np.uint8))
    model.encoder_weights_ *= 0
    model.encoder_bias_ = np.where([0, 1, 0, 1], 50.0, -50.0)
    assert model.description_length(on_a_code).total[0] < 0


def test_objective_refuses_long_codes(clusters: np.ndarray) -> None:
    model = SGH(n_bits=17, n_steps=2, random_state=0).fit(clusters)
    with pytest.raises(InvalidInput, match="description_length"):
        objective(model, clusters[:2])


def test_description_length_is_a_density_in_the_units_of_the_vectors(
    clusters: np.ndarray,
) -> None:
    width = clusters.shape[1]
    small = SGH(n_bits=6, n_steps=100, random_state=0).fit(clusters)
    large = SGH(n_bits=6, n_steps=100, random_state=0).fit(clusters * 8)
    change = large.description_length(clusters * 8).total - small.description_length(clusters).total
    np.testing.assert_allclose(change, 3 * width, rtol=1e-2)
