"""The fast training step against slow twins: fused kernels, all parameters, any decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from sghash.kernels.learning import training as kernels
from sghash.models.sgh.losses.terms import (
    TERMS,
    Confidence,
    Entropy,
    TermGradient,
    Terms,
    TermView,
    WeightDecay,
)
from sghash.models.sgh.paper.encoder import code_moments, divergence, sigmoid
from sghash.models.sgh.paper.generative import GaussianDecoder, code_values
from sghash.models.sgh.paper.gradients import gaussian_differences
from sghash.models.sgh.training.batches import Batch
from sghash.models.sgh.training.optimizer import Parameters
from sghash.models.sgh.training.step import GaussianStep, GeneralStep, effective_weights

CODINGS = ("signed", "binary")
N_ROWS, WIDTH, N_BITS = 40, 7, 5


def some_parameters(rng: np.random.Generator, **more: Any) -> Parameters:
    return Parameters(
        {
            "encoder_weights": rng.standard_normal((WIDTH, N_BITS)),
            "encoder_bias": rng.standard_normal(N_BITS),
            "decoder_weights": rng.standard_normal((N_BITS, WIDTH)),
            "decoder_bias": rng.standard_normal(WIDTH),
            "log_noise": -0.4,
            "prior_logits": rng.standard_normal(N_BITS),
            **more,
        }
    )


def some_batch(rng: np.random.Generator) -> Batch:
    vectors = rng.standard_normal((N_ROWS, WIDTH)).astype(np.float32)
    return Batch(vectors, np.arange(N_ROWS, dtype=np.int64))


def mean_objective(parameters: Mapping[str, np.ndarray], x: np.ndarray, coding: str) -> float:
    """The exact objective in nats, in double precision."""
    p = {name: np.asarray(value, dtype=np.float64) for name, value in parameters.items()}
    decoder = GaussianDecoder(
        effective_weights(p), p["decoder_bias"], float(np.exp(p["log_noise"]))
    )
    logits = x.astype(np.float64) @ p["encoder_weights"] + p["encoder_bias"]
    means, variances = code_moments(sigmoid(logits), coding)
    nats = decoder.expected_nats(x.astype(np.float64), means, variances)
    return float((nats + divergence(logits, p["prior_logits"]).sum(axis=1)).mean())


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("with_scale", [False, True])
def test_exact_step_is_the_slope_of_the_objective_in_every_parameter(
    rng: np.random.Generator, coding: str, with_scale: bool
) -> None:
    more = {"decoder_scale": rng.uniform(-2, 2, WIDTH)} if with_scale else {}
    parameters, batch = some_parameters(rng, **more), some_batch(rng)
    out = parameters.zeros()
    GaussianStep(estimator="exact", coding=coding).gradient(parameters, batch, 1.0, rng, out)
    for name in parameters:
        start = {key: np.array(value, dtype=np.float64) for key, value in parameters.items()}
        slopes = np.empty_like(start[name])
        for index in np.ndindex(slopes.shape):
            here = start[name][index]
            ends = []
            for change in (1e-5, -1e-5):
                start[name][index] = here + change
                ends.append(mean_objective(start, batch.vectors, coding))
            start[name][index] = here
            slopes[index] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(out[name], slopes, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("estimator", ["approximate", "distributional", "straight-through"])
def test_sampled_step_equals_the_numpy_twin(
    rng: np.random.Generator, coding: str, estimator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters, batch = some_parameters(rng), some_batch(rng)
    out = parameters.zeros()
    step = GaussianStep(estimator=estimator, coding=coding)
    loss = step.gradient(parameters, batch, 0.3, rng, out)
    assert step._workspace is not None
    codes = step._workspace.codes.astype(np.float64)
    decoder = GaussianDecoder(
        parameters["decoder_weights"].astype(np.float64),
        parameters["decoder_bias"].astype(np.float64),
        float(np.exp(parameters["log_noise"])),
    )
    x = batch.vectors.astype(np.float64)
    logits = x @ parameters["encoder_weights"] + parameters["encoder_bias"]
    p = sigmoid(logits)
    # The twin looks at the same codes.
    monkeypatch.setattr("sghash.models.sgh.paper.gradients.codes_for", lambda *_: codes)
    change = gaussian_differences(decoder, x, p, estimator=estimator, coding=coding, rng=rng)
    slopes = p * (1 - p) * (change + 0.3 * (logits - parameters["prior_logits"])) / N_ROWS
    r = decoder.mean(codes) - x
    noise = decoder.noise_variance
    expected = {
        "encoder_weights": x.T @ slopes,
        "encoder_bias": slopes.sum(axis=0),
        "decoder_weights": codes.T @ r / (N_ROWS * noise),
        "decoder_bias": r.sum(axis=0) / (N_ROWS * noise),
        "log_noise": 0.5 * (WIDTH - np.square(r).sum() / (N_ROWS * noise)),
        "prior_logits": sigmoid(parameters["prior_logits"]) - p.mean(axis=0),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(out[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert loss == pytest.approx(-decoder.log_likelihood(x, codes).mean(), rel=1e-5)


@pytest.mark.parametrize("signed", [True, False])
def test_draws_follow_the_probabilities_and_only_the_keys(signed: bool) -> None:
    logits = np.tile(np.linspace(-4, 4, 16, dtype=np.float32), (20_000, 1))
    p, codes = np.empty_like(logits), np.empty_like(logits)
    keys = np.array([7, 8], dtype=np.uint32)
    kernels.draw_codes(logits, np.zeros(16, np.float32), kernels.DRAW, signed, keys, 0, p, codes)
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-logits.astype(np.float64))), atol=2e-7)
    assert set(np.unique(codes)) == ({-1.0, 1.0} if signed else {0.0, 1.0})
    bits = codes > 0
    chances = p[0].astype(np.float64)
    errors = np.sqrt(chances * (1 - chances) / len(bits))
    assert (np.abs(bits.mean(axis=0) - chances) < 5 * errors).all()
    # Neighbouring bits and neighbouring rows are independent.
    centred = (bits - chances) / np.sqrt(chances * (1 - chances))
    assert np.abs((centred[:, 1:] * centred[:, :-1]).mean(axis=0)).max() < 5 / np.sqrt(len(bits))
    assert np.abs((centred[1:] * centred[:-1]).mean(axis=0)).max() < 5 / np.sqrt(len(bits))
    again, other = np.empty_like(codes), np.empty_like(codes)
    zero = np.zeros(16, np.float32)
    kernels.draw_codes(logits, zero, kernels.DRAW, signed, keys, 0, p, again)
    kernels.draw_codes(logits, zero, kernels.DRAW, signed, keys + np.uint32(1), 0, p, other)
    assert (again == codes).all() and (other != codes).any()


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


def test_probabilities_are_right_far_out() -> None:
    logits = np.array([[-1e30, -88.0, -30.0, -1.5, 0.0, 1.5, 30.0, 1e30]], dtype=np.float32)
    p, codes = np.empty_like(logits), np.empty_like(logits)
    keys = np.zeros(2, dtype=np.uint32)
    kernels.draw_codes(logits, np.zeros(8, np.float32), kernels.MEAN, False, keys, 0, p, codes)
    np.testing.assert_allclose(p, sigmoid(np.clip(logits, -100, 100)), atol=1e-7)
    assert ((p >= 0) & (p <= 1)).all() and p[0, 4] == 0.5


class GaussianAsAny:
    """The Gaussian decoder through the door that any decoder takes."""

    def start_parameters(self, sample: np.ndarray, n_bits: int) -> dict[str, np.ndarray]:
        return {
            "decoder_weights": np.zeros((n_bits, sample.shape[1])),
            "decoder_bias": np.zeros(sample.shape[1]),
        }

    def at(self, parameters: Mapping[str, np.ndarray]) -> GaussianDecoder:
        return GaussianDecoder(parameters["decoder_weights"], parameters["decoder_bias"], 0.5)

    def parameter_gradients(
        self, parameters: Mapping[str, np.ndarray], vectors: np.ndarray, codes: np.ndarray
    ) -> dict[str, np.ndarray]:
        r = (self.at(parameters).mean(codes) - vectors) / (0.5 * len(vectors))
        return {"decoder_weights": codes.T @ r, "decoder_bias": r.sum(axis=0)}


@pytest.mark.parametrize("coding", CODINGS)
def test_any_decoder_gets_the_same_gradient_by_finite_differences(
    rng: np.random.Generator, coding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters, batch = some_parameters(rng), some_batch(rng)
    parameters["log_noise"][...] = np.log(0.5)
    fast, general = parameters.zeros(), parameters.zeros()
    step = GaussianStep(estimator="distributional", coding=coding)
    fast_loss = step.gradient(parameters, batch, 0.5, rng, fast)
    assert step._workspace is not None
    codes = step._workspace.codes.copy()
    for module in ("paper.gradients", "training.step"):
        monkeypatch.setattr(f"sghash.models.sgh.{module}.codes_for", lambda *_: codes)
    loss = GeneralStep(GaussianAsAny(), estimator="distributional", coding=coding).gradient(
        parameters, batch, 0.5, rng, general
    )
    assert loss == pytest.approx(fast_loss, rel=1e-5)
    general["log_noise"][...] = fast["log_noise"]
    for name in parameters:
        np.testing.assert_allclose(general[name], fast[name], rtol=2e-3, atol=2e-4, err_msg=name)


class PullTogether:
    """A term with a learned weight and vectors of its own: half the squared extra logits."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors

    def start_parameters(self) -> dict[str, np.ndarray]:
        return {"pull": np.array(2.0)}

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return self.vectors

    def gradient(self, view: TermView) -> TermGradient:
        assert view.extra_logits is not None
        pull = float(view.parameters["pull"])
        half = 0.5 * float(np.square(view.extra_logits).sum())
        return TermGradient(
            pull * half, extra_logits=pull * view.extra_logits, parameters={"pull": np.array(half)}
        )


def test_terms_may_bring_vectors_and_parameters_of_their_own(rng: np.random.Generator) -> None:
    extra = rng.standard_normal((6, WIDTH)).astype(np.float32)
    terms = Terms([PullTogether(extra)])
    parameters = some_parameters(rng, **terms.start_parameters())
    batch, plain, out = some_batch(rng), parameters.zeros(), parameters.zeros()
    GaussianStep(estimator="exact", coding="signed").gradient(parameters, batch, 1.0, rng, plain)
    step = GaussianStep(estimator="exact", coding="signed", terms=terms)
    for _ in range(2):  # the second time starts from a filled gradient
        step.gradient(parameters, batch, 1.0, rng, out)
    logits = extra @ parameters["encoder_weights"] + parameters["encoder_bias"]
    added = out["encoder_weights"] - plain["encoder_weights"]
    np.testing.assert_allclose(added, 2 * extra.T @ logits, rtol=1e-3, atol=1e-3)
    assert float(out["pull"]) == pytest.approx(0.5 * float(np.square(logits).sum()), rel=1e-4)


def test_weight_decay_and_confidence_slopes(rng: np.random.Generator) -> None:
    parameters = some_parameters(rng)
    logits = rng.standard_normal((N_ROWS, N_BITS))
    logits = np.where(np.abs(logits) < 0.1, 0.5, logits)
    rows = np.arange(N_ROWS)
    vectors = np.zeros((N_ROWS, WIDTH), dtype=np.float32)
    view = TermView(rows, vectors, logits, sigmoid(logits), None, None, parameters)
    decay = WeightDecay(0.1).gradient(view)
    np.testing.assert_allclose(
        decay.parameters["encoder_weights"], 0.1 * parameters["encoder_weights"]
    )
    squares = sum(float(np.square(parameters[name]).sum()) for name in WeightDecay.names)
    assert decay.loss == pytest.approx(0.05 * squares, rel=1e-6)

    p, likelier = sigmoid(logits), logits > 0
    confidence = Confidence(0.2).gradient(view)
    assert confidence.loss == pytest.approx(
        -0.2 * np.log(np.where(likelier, p, 1 - p)).sum() / N_ROWS, rel=1e-9
    )
    # The true slope, plus what passes through the threshold as if it were the sigmoid.
    passed = -logits * p * (1 - p)
    np.testing.assert_allclose(confidence.logits, 0.2 * (p - likelier + passed) / N_ROWS)
    assert set(TERMS) == {"confidence", "entropy", "weight_decay"}


def test_the_entropy_term_takes_the_entropy_out_of_the_divergence(
    rng: np.random.Generator,
) -> None:
    parameters = some_parameters(rng)
    batch = some_batch(rng)
    logits = batch.vectors @ parameters["encoder_weights"] + parameters["encoder_bias"]
    p = sigmoid(logits)
    view = TermView(batch.rows, batch.vectors, logits, p, None, None, parameters)
    found = Entropy(1.0).gradient(view)
    entropies = -(p * np.log(p) + (1 - p) * np.log(1 - p)).sum(axis=1)
    assert found.loss == pytest.approx(entropies.mean(), rel=1e-5)
    out = []
    for weight, terms in ((1.0, Terms([Entropy(1.0)])), (0.0, Terms())):
        into = parameters.zeros()
        step = GaussianStep(estimator="exact", coding="signed", terms=terms)
        step.gradient(parameters, batch, weight, rng, into)
        out.append(into["encoder_bias"])
    prior = -(p * (1 - p) * parameters["prior_logits"]).mean(axis=0)
    np.testing.assert_allclose(out[0] - out[1], prior, rtol=1e-3, atol=1e-4)


def test_code_values_are_what_the_decoder_sees() -> None:
    bits = np.array([[True, False]])
    assert code_values(bits, "signed").tolist() == [[1.0, -1.0]]
    assert code_values(bits, "binary").tolist() == [[1.0, 0.0]]
