"""Every equation of the paper has one function, which is what the equation says."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

from sghash.models.sgh import SGH, objective
from sghash.models.sgh.paper import encoder, generative, gradients, objective as objectives
from sghash.models.sgh.paper.encoder import log_encoder, sigmoid, stochastic_neuron
from sghash.models.sgh.paper.generative import code_values, log_joint, log_prior
from sghash.models.sgh.paper.gradients import (
    approximate_derivative,
    approximate_gradient,
    distributional_derivative,
    encoder_gradient,
    gaussian_decoder,
    unbiased_gradient,
)
from sghash.models.sgh.paper.objective import reparametrized_objective

ALL_BITS = np.array(list(product((0.0, 1.0), repeat=4)))
CODINGS = pytest.mark.parametrize("coding", ["signed", "binary"])


def test_every_equation_is_named_where_it_is_computed() -> None:
    homes = {
        1: (generative.GaussianDecoder, generative.log_prior),
        2: (generative.log_joint,),
        3: (encoder.log_encoder,),
        4: (objectives.objective, objectives.description_length),
        5: (encoder.stochastic_neuron,),
        6: (objectives.reparametrized_objective,),
        7: (gradients.distributional_derivative,),
        8: (gradients.unbiased_gradient,),
        9: (gradients.approximate_derivative,),
        10: (gradients.approximate_gradient,),
    }
    for number, functions in homes.items():
        for function in functions:
            assert re.search(rf"equation {number}\b", function.__doc__ or "", re.IGNORECASE)


@CODINGS
def test_equations_1_and_2(coding: str, make_model: Any, rng: np.random.Generator) -> None:
    model = make_model(coding)
    beta = np.asarray(model.prior_logits_)
    assert np.exp(log_prior(ALL_BITS, beta)).sum() == pytest.approx(1)
    theta = sigmoid(beta)
    assert log_prior(ALL_BITS[5], beta) == pytest.approx(
        np.log(np.where(ALL_BITS[5] == 1, theta, 1 - theta)).sum()
    )
    x = np.tile(rng.standard_normal(5), (16, 1))
    joint = log_joint(gaussian_decoder(model), x, ALL_BITS, beta, coding=coding)
    h = code_values(ALL_BITS, coding, np.float64)
    squares = np.square(x - model.decoder_bias_ - h @ model.decoder_weights_).sum(axis=1)
    exponent = -squares / (2 * model.noise_variance_) + ALL_BITS @ beta
    np.testing.assert_allclose(joint - joint[0], exponent - exponent[0], atol=1e-9)


def test_equation_3(rng: np.random.Generator) -> None:
    logits = rng.standard_normal(4)
    assert np.exp(log_encoder(ALL_BITS, logits)).sum() == pytest.approx(1)
    p = sigmoid(logits)
    likely = np.prod(np.where(ALL_BITS == 1, p, 1 - p), axis=1)
    np.testing.assert_allclose(np.exp(log_encoder(ALL_BITS, logits)), likely)


def test_equation_5() -> None:
    xi = (np.arange(1000) + 0.5) / 1000
    for p in (0.0, 0.2, 0.75, 1.0):
        assert stochastic_neuron(np.array(p), xi).mean() == p
    assert not stochastic_neuron(np.array(0.0), np.array(0.0))


@pytest.mark.parametrize("hidden", [0, 3])
@CODINGS
def test_equations_4_and_6(
    coding: str, hidden: int, make_model: Any, rng: np.random.Generator
) -> None:
    model = make_model(coding, hidden=hidden)
    X = rng.standard_normal((3, 5)).astype(np.float32)
    expected = objective(model, X)
    assert expected == pytest.approx(model.description_length(X).total.mean() * np.log(2), rel=1e-9)
    drawn = reparametrized_objective(model, np.tile(X, (20_000, 1)), random_state=0)
    assert drawn == pytest.approx(expected, rel=0.02)
    assert drawn != reparametrized_objective(model, np.tile(X, (20_000, 1)), random_state=1)


NAMES = {
    "encoder_weights": "encoder_weights_",
    "encoder_bias": "encoder_bias_",
    "decoder_weights": "decoder_weights_",
    "decoder_bias": "decoder_bias_",
    "prior_logits": "prior_logits_",
}
HIDDEN = {f"hidden_{name}": f"hidden_{name}_" for name in ("weights", "bias", "output")}


def slope(model: SGH, X: np.ndarray, attribute: str, place: tuple[int, ...]) -> float:
    """Numerical derivative of the exact objective by one number."""
    values, step = getattr(model, attribute), 1e-5
    found = []
    for sign in (1, -1):
        moved = np.array(values)
        moved[place] += sign * step
        setattr(model, attribute, moved)
        found.append(objective(model, X))
    setattr(model, attribute, values)
    return (found[0] - found[1]) / (2 * step)


@pytest.mark.parametrize("hidden", [0, 3])
@CODINGS
def test_equations_7_to_10(
    coding: str, hidden: int, make_model: Any, rng: np.random.Generator
) -> None:
    model = make_model(coding, hidden=hidden)
    X = rng.standard_normal((2, 5)).astype(np.float32)
    many = np.tile(X, (50_000, 1))
    unbiased = unbiased_gradient(model, many, random_state=0)
    biased = approximate_gradient(model, many, random_state=0)
    names = NAMES | (HIDDEN if hidden else {})
    assert set(unbiased) == {*names, "log_noise"}
    for name, attribute in names.items():
        place = (1,) * unbiased[name].ndim
        assert unbiased[name][place] == pytest.approx(
            slope(model, X, attribute, place), rel=0.05, abs=0.05
        )
    noise = model.noise_variance_
    found = []
    for factor in (np.exp(1e-5), np.exp(-1e-5)):
        model.noise_variance_ = noise * factor
        found.append(objective(model, X))
    model.noise_variance_ = noise
    assert unbiased["log_noise"] == pytest.approx((found[0] - found[1]) / 2e-5, rel=0.05, abs=0.05)
    # The same draws: only the encoder is approximated, and that by another number.
    for name in ("decoder_weights", "decoder_bias", "prior_logits", "log_noise"):
        np.testing.assert_array_equal(biased[name], unbiased[name])
    exact = encoder_gradient(model, X, estimator="exact")
    np.testing.assert_allclose(unbiased["encoder_weights"], exact, atol=0.05 * np.abs(exact).max())
    assert np.abs(biased["encoder_weights"] - exact).max() > 0.1 * np.abs(exact).max()
    by_w = distributional_derivative(model, many, random_state=0)
    np.testing.assert_allclose(by_w, unbiased["encoder_weights"])
    by_passes = distributional_derivative(model, many[:500], closed_form=False, random_state=0)
    np.testing.assert_allclose(
        by_passes, distributional_derivative(model, many[:500], random_state=0)
    )
    approximated = approximate_derivative(model, many, random_state=0)
    np.testing.assert_allclose(approximated, biased["encoder_weights"])
