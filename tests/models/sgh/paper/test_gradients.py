"""The four gradients against their slow definitions, in both codings."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.models.sgh import SGH, encoder_gradient, objective
from sghash.models.sgh.paper.encoder import draw_bits, sigmoid
from sghash.models.sgh.paper.generative import code_values
from sghash.models.sgh.paper.gradients import encoder_logits, gaussian_decoder

CODINGS = ("signed", "binary")


def by_definition(model: SGH, X: np.ndarray, seed: int, kl_weight: float = 1.0) -> np.ndarray:
    """Lemma 2 word for word: two forward passes per bit at a sampled code."""
    decoder, logits = gaussian_decoder(model), encoder_logits(model, X)
    p = sigmoid(logits)
    bits = draw_bits(p, np.random.default_rng(seed))
    slopes = np.empty_like(p)
    for k in range(p.shape[1]):
        losses = []
        for value in (0, 1):
            changed = bits.copy()
            changed[:, k] = value
            codes = code_values(changed, model.coding, np.float64)
            losses.append(-decoder.log_likelihood(X, codes))
        slopes[:, k] = losses[1] - losses[0]
    slopes += kl_weight * (logits - model.prior_logits_)
    return X.T @ (p * (1 - p) * slopes) / len(X)


def expectation_over_codes(model: SGH, x: np.ndarray, estimator: str) -> np.ndarray:
    """Mean of an estimator's gradient of the data term over all codes, exactly, for one row."""
    decoder, logits = gaussian_decoder(model), encoder_logits(model, x)
    p = sigmoid(logits)[0]
    total = np.zeros_like(model.encoder_weights_)
    step = 2 if model.coding == "signed" else 1
    for bits in product((0, 1), repeat=len(p)):
        chance = np.prod(np.where(bits, p, 1 - p))
        codes = code_values(np.array([bits]), model.coding, np.float64)
        if estimator == "approximate":
            slope = -step * decoder.code_gradient(x, codes)[0]
        else:
            slope = np.empty(len(p))
            for k in range(len(p)):
                low, high = codes.copy(), codes.copy()
                low[0, k], high[0, k] = code_values(np.array([0, 1]), model.coding)
                slope[k] = (decoder.log_likelihood(x, low) - decoder.log_likelihood(x, high))[0]
        total += chance * np.outer(x[0], p * (1 - p) * slope)
    kl = np.outer(x[0], p * (1 - p) * (logits[0] - model.prior_logits_))
    return total + kl


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("closed_form", [True, False])
def test_distributional_is_its_definition(
    make_model: Any, rng: np.random.Generator, coding: str, closed_form: bool
) -> None:
    model, X = make_model(coding), rng.standard_normal((30, 5)).astype(np.float32)
    found = encoder_gradient(
        model, X, estimator="distributional", random_state=3, closed_form=closed_form
    )
    expected = by_definition(model, X.astype(np.float64), 3)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("coding", CODINGS)
def test_exact_is_the_mean_over_all_codes(
    make_model: Any, rng: np.random.Generator, coding: str
) -> None:
    model, x = make_model(coding), rng.standard_normal((1, 5)).astype(np.float32)
    found = encoder_gradient(model, x, estimator="exact")
    expected = expectation_over_codes(model, x.astype(np.float64), "distributional")
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("kl_weight", [1.0, 0.25])
def test_exact_is_the_slope_of_the_objective(
    make_model: Any, rng: np.random.Generator, coding: str, kl_weight: float
) -> None:
    model, X = make_model(coding), rng.standard_normal((20, 5)).astype(np.float32)
    found = encoder_gradient(model, X, estimator="exact", kl_weight=kl_weight)
    slopes = np.empty_like(found)
    for index in np.ndindex(found.shape):
        ends = []
        for change in (1e-5, -1e-5):
            moved = copy.deepcopy(model)
            moved.encoder_weights_[index] += change
            ends.append(objective(moved, X, kl_weight=kl_weight))
        slopes[index] = (ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(found, slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("coding", CODINGS)
def test_mean_of_draws_lies_within_its_error_bars(
    make_model: Any, rng: np.random.Generator, coding: str
) -> None:
    model, X = make_model(coding), rng.standard_normal((3, 5)).astype(np.float32)
    exact = encoder_gradient(model, X, estimator="exact")
    seeds = np.random.default_rng(1)
    draws = np.array(
        [
            encoder_gradient(model, X, estimator="distributional", random_state=seeds)
            for _ in range(4000)
        ]
    )
    errors = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    scores = (draws.mean(axis=0) - exact) / errors
    assert np.abs(scores).max() < 4.5
    assert scores.std() > 0.2  # error bars far too wide would hide a bias


@pytest.mark.parametrize("coding", CODINGS)
def test_approximate_is_biased_by_the_curvature_alone(
    make_model: Any, rng: np.random.Generator, coding: str
) -> None:
    model, x = make_model(coding), rng.standard_normal((1, 5)).astype(np.float32)
    mean = expectation_over_codes(model, x.astype(np.float64), "approximate")
    exact = encoder_gradient(model, x, estimator="exact")
    p = sigmoid(encoder_logits(model, x))[0]
    squares = np.square(model.decoder_weights_).sum(axis=1)
    step = 2 if coding == "signed" else 1
    # l(1) - l(0) is the slope in the middle: the bias is |u|²/rho² times the way to it.
    bias = step**2 * (p - 0.5) * squares / model.noise_variance_
    np.testing.assert_allclose(mean - exact, np.outer(x[0], p * (1 - p) * bias), atol=1e-9)
    assert np.abs(mean - exact).max() > 1e-3


@pytest.mark.parametrize("coding", CODINGS)
def test_straight_through_looks_at_the_likelier_code(
    make_model: Any, rng: np.random.Generator, coding: str
) -> None:
    model, X = make_model(coding), rng.standard_normal((9, 5)).astype(np.float32)
    decoder, logits = gaussian_decoder(model), encoder_logits(model, X)
    codes = code_values(logits >= 0, coding, np.float64)
    step = 2 if coding == "signed" else 1
    slope = -step * decoder.code_gradient(X.astype(np.float64), codes)
    p = sigmoid(logits)
    expected = X.T @ (p * (1 - p) * (slope + logits - model.prior_logits_)) / len(X)
    for closed_form in (True, False):
        found = encoder_gradient(model, X, estimator="straight-through", closed_form=closed_form)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_bad_estimators_are_refused(make_model: Any, rng: np.random.Generator) -> None:
    model, X = make_model("signed"), rng.standard_normal((3, 5))
    with pytest.raises(InvalidInput, match="estimator must be one of"):
        encoder_gradient(model, X, estimator="reinforce")
    with pytest.raises(InvalidInput, match="use estimator='distributional'"):
        encoder_gradient(model, X, estimator="exact", closed_form=False)
