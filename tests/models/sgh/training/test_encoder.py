"""The hidden layer in a training step: every gradient against its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from sghash.models.sgh.losses.terms import TermGradient, Terms, TermView, WeightDecay
from sghash.models.sgh.paper.encoder import code_moments, divergence, sigmoid
from sghash.models.sgh.paper.generative import GaussianDecoder
from sghash.models.sgh.paper.gradients import ESTIMATORS
from sghash.models.sgh.training.batches import Batch
from sghash.models.sgh.training.encoder import HIDDEN, encoder_of
from sghash.models.sgh.training.optimizer import Parameters
from sghash.models.sgh.training.scaling import PrincipalScaling, Scaling
from sghash.models.sgh.training.start import hidden_start
from sghash.models.sgh.training.step import GaussianStep

N_ROWS, WIDTH, N_BITS, N_HIDDEN = 40, 7, 5, 6
Arrays = dict[str, np.ndarray]


def some_parameters(rng: np.random.Generator, *, n_hidden: int = N_HIDDEN) -> Parameters:
    arrays: Arrays = {
        "encoder_weights": rng.standard_normal((WIDTH, N_BITS)),
        "encoder_bias": rng.standard_normal(N_BITS),
        "decoder_weights": rng.standard_normal((N_BITS, WIDTH)),
        "decoder_bias": rng.standard_normal(WIDTH),
        "log_noise": np.array(-0.4),
        "prior_logits": rng.standard_normal(N_BITS),
    }
    if n_hidden:
        arrays["hidden_weights"] = rng.standard_normal((WIDTH, n_hidden))
        arrays["hidden_bias"] = rng.standard_normal(n_hidden)
        arrays["hidden_output"] = 0.5 * rng.standard_normal((n_hidden, N_BITS))
    return Parameters(arrays)


def some_batch(rng: np.random.Generator) -> Batch:
    vectors = rng.standard_normal((N_ROWS, WIDTH)).astype(np.float32)
    return Batch(vectors, np.arange(N_ROWS, dtype=np.int64))


def slopes_of(loss: Callable[[Arrays], float], parameters: Mapping[str, np.ndarray]) -> Arrays:
    """Slopes of a loss in every parameter, by finite differences in double precision."""
    start = {name: np.array(value, dtype=np.float64) for name, value in parameters.items()}
    found = {name: np.empty_like(value) for name, value in start.items()}
    for name, value in start.items():
        for index in np.ndindex(value.shape):
            here = value[index]
            ends = []
            for change in (1e-5, -1e-5):
                value[index] = here + change
                ends.append(loss(start))
            value[index] = here
            found[name][index] = (ends[0] - ends[1]) / 2e-5
    return found


@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_exact_step_is_the_slope_of_the_objective_in_every_parameter(
    rng: np.random.Generator, coding: str
) -> None:
    parameters, batch = some_parameters(rng), some_batch(rng)
    x = batch.vectors.astype(np.float64)

    def objective(p: Arrays) -> float:
        decoder = GaussianDecoder(
            p["decoder_weights"], p["decoder_bias"], float(np.exp(p["log_noise"]))
        )
        linear = x @ p["encoder_weights"] + p["encoder_bias"]
        units = np.maximum(x @ p["hidden_weights"] + p["hidden_bias"], 0)
        logits = linear + units @ p["hidden_output"]
        nats = decoder.expected_nats(x, *code_moments(sigmoid(logits), coding))
        return float((nats + divergence(logits, p["prior_logits"]).sum(axis=1)).mean())

    out = parameters.zeros()
    GaussianStep(estimator="exact", coding=coding).gradient(parameters, batch, 1.0, rng, out)
    for name, slopes in slopes_of(objective, parameters).items():
        np.testing.assert_allclose(out[name], slopes, rtol=5e-4, atol=5e-5, err_msg=name)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_goes_back_through_the_hidden_layer(
    rng: np.random.Generator, estimator: str
) -> None:
    parameters, batch = some_parameters(rng), some_batch(rng)
    out = parameters.zeros()
    step = GaussianStep(estimator=estimator, coding="signed")
    step.gradient(parameters, batch, 0.3, rng, out)
    assert step._workspace is not None
    slopes, x = step._workspace.slopes.astype(np.float64), batch.vectors.astype(np.float64)
    units = np.maximum(x @ parameters["hidden_weights"] + parameters["hidden_bias"], 0)
    by_units = (slopes @ parameters["hidden_output"].T) * (units > 0)
    expected = {
        "encoder_weights": x.T @ slopes,
        "encoder_bias": slopes.sum(axis=0),
        "hidden_weights": x.T @ by_units,
        "hidden_bias": by_units.sum(axis=0),
        "hidden_output": units.T @ slopes,
    }
    assert 0 < (units > 0).mean() < 1
    for name, value in expected.items():
        np.testing.assert_allclose(out[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_step_in_parts_is_the_step(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters, batch = some_parameters(rng), some_batch(rng)
    whole, parts, threads = (parameters.zeros() for _ in range(3))
    step = GaussianStep(estimator="distributional", coding="signed")
    step.gradient(parameters, batch, 0.7, np.random.default_rng(1), whole)
    monkeypatch.setattr("sghash.models.sgh.training.step.PART_WORK", 1)
    divided = GaussianStep(estimator="distributional", coding="signed")
    divided.gradient(parameters, batch, 0.7, np.random.default_rng(1), parts)
    assert divided._workspace is not None and len(divided._workspace.parts) == 4
    np.testing.assert_allclose(parts.flat, whole.flat, rtol=1e-4, atol=1e-5)
    with divided.working():
        divided.gradient(parameters, batch, 0.7, np.random.default_rng(1), threads)
    np.testing.assert_array_equal(threads.flat, parts.flat)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_hidden_layer_that_says_nothing_changes_nothing(
    rng: np.random.Generator, estimator: str
) -> None:
    """To the last bit: the linear part is computed as it is without the layer."""
    parameters, batch = some_parameters(rng), some_batch(rng)
    parameters["hidden_output"][...] = 0
    linear = Parameters({k: v for k, v in parameters.items() if k not in HIDDEN})
    out, plain = parameters.zeros(), linear.zeros()
    step = GaussianStep(estimator=estimator, coding="signed")
    loss = step.gradient(parameters, batch, 0.7, np.random.default_rng(1), out)
    step = GaussianStep(estimator=estimator, coding="signed")
    assert step.gradient(linear, batch, 0.7, np.random.default_rng(1), plain) == loss
    for name in linear:
        np.testing.assert_array_equal(out[name], plain[name], err_msg=name)


class Squares:
    """Half the squared logits of the batch, and as much again of vectors of its own."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors

    def start_parameters(self) -> Arrays:
        return {}

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return self.vectors

    def gradient(self, view: TermView) -> TermGradient:
        assert view.extra_logits is not None
        return TermGradient(0.0, logits=view.logits, extra_logits=view.extra_logits)


@pytest.mark.parametrize("n_hidden", [0, N_HIDDEN])
def test_terms_go_back_through_the_hidden_layer(rng: np.random.Generator, n_hidden: int) -> None:
    extra = rng.standard_normal((6, WIDTH)).astype(np.float32)
    parameters, batch = some_parameters(rng, n_hidden=n_hidden), some_batch(rng)
    x, more = batch.vectors.astype(np.float64), extra.astype(np.float64)

    def loss(p: Arrays) -> float:
        encoder = encoder_of(p)
        # Two such terms stand beside each other.
        return sum(float(np.square(encoder.logits(rows)).sum()) for rows in (x, more))

    out = parameters.zeros()
    terms = Terms([Squares(extra), Squares(extra)])
    step = GaussianStep(estimator="exact", coding="signed", terms=terms, describes=False)
    for _ in range(2):  # the second time starts from a filled gradient
        step.gradient(parameters, batch, 1.0, rng, out)
    expected = slopes_of(loss, parameters)
    assert not expected["decoder_weights"].any()  # nothing of the objective is left
    for name, slopes in expected.items():
        np.testing.assert_allclose(out[name], slopes, rtol=1e-3, atol=2e-3, err_msg=name)
    beside, alone = parameters.zeros(), parameters.zeros()
    GaussianStep(estimator="exact", coding="signed", terms=terms).gradient(
        parameters, batch, 1.0, rng, beside
    )
    GaussianStep(estimator="exact", coding="signed").gradient(parameters, batch, 1.0, rng, alone)
    np.testing.assert_allclose(beside.flat, out.flat + alone.flat, rtol=1e-3, atol=2e-3)


def test_weight_decay_reaches_the_hidden_layer(rng: np.random.Generator) -> None:
    parameters, batch = some_parameters(rng), some_batch(rng)

    def loss(p: Arrays) -> float:
        weights = [value for name, value in p.items() if name.endswith(("weights", "output"))]
        return 0.05 * sum(float(np.square(value).sum()) for value in weights)

    out = parameters.zeros()
    terms = Terms([WeightDecay(0.1)])
    step = GaussianStep(estimator="exact", coding="signed", terms=terms, describes=False)
    step.gradient(parameters, batch, 1.0, rng, out)
    for name, slopes in slopes_of(loss, parameters).items():
        np.testing.assert_allclose(out[name], slopes, rtol=1e-3, atol=1e-5, err_msg=name)


def test_principal_coordinates_are_left_with_the_same_logits(rng: np.random.Generator) -> None:
    raw = (rng.standard_normal((300, 12)) * np.linspace(3, 1, 12) + 4).astype(np.float32)
    outer = Scaling.of(raw, cosine=False, standardize=True)
    units = PrincipalScaling.of(raw, outer, N_BITS, 128, rng)
    inner = units.apply(raw)
    width = inner.shape[1]
    parameters = Parameters(
        {
            "encoder_weights": rng.standard_normal((width, N_BITS)),
            "encoder_bias": rng.standard_normal(N_BITS),
            "decoder_weights": rng.standard_normal((N_BITS, width)),
            "decoder_bias": np.zeros(width),
            "log_noise": 0.0,
            "prior_logits": np.zeros(N_BITS),
            **hidden_start(inner, N_HIDDEN, N_BITS, rng),
        }
    )
    parameters["hidden_output"][...] *= 30
    lifted = encoder_of(units.lift(parameters)).logits(outer.apply(raw))
    np.testing.assert_allclose(lifted, encoder_of(parameters).logits(inner), rtol=1e-3, atol=1e-3)


def test_the_hidden_layer_starts_small_with_half_of_its_units_at_zero(
    rng: np.random.Generator,
) -> None:
    sample = (rng.standard_normal((2000, 30)) * np.linspace(5, 0.1, 30) + 100).astype(np.float32)
    sample[:, 3] = 1e6  # a constant column has no say
    start = hidden_start(sample, 200, 8, rng)
    units = np.maximum(sample @ start["hidden_weights"] + start["hidden_bias"], 0)
    assert 0.4 < (units > 0).mean() < 0.6
    assert 0.8 < np.square(units).mean() < 1.2
    assert not start["hidden_weights"][3].any()
    assert 0.05 < (units @ start["hidden_output"]).std() < 0.2
    assert hidden_start(sample, 0, 8, rng) == {}
