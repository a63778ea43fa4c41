"""The scale invariant model: its gradient against definitions, what its codes and scales mean."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sghash import load_model
from sghash.errors import Diverged, InvalidInput
from sghash.models import ScaleInvariantSGH
from sghash.models.sgh.paper.encoder import sigmoid
from sghash.models.sgh.variants.scale_step import Rows, scale_gradient

WIDTH, N_BITS, N_ROWS, SPREAD = 4, 3, 6, 0.3


class Wide(dict):
    """Parameters in double precision, so that finite differences are exact enough."""

    def zeros(self) -> Wide:
        return Wide({name: np.zeros_like(value) for name, value in self.items()})


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    parameters = Wide(
        encoder_weights=rng.normal(size=(WIDTH, N_BITS)),
        encoder_bias=rng.normal(size=N_BITS),
        scale_weights=0.1 * rng.normal(size=(WIDTH, N_BITS + 1)),
        scale_bias=0.1 * rng.normal(size=N_BITS + 1),
        log_scale_variance=np.log(0.05) + 0.1 * rng.normal(size=N_BITS + 1),
        decoder_weights=rng.normal(size=(N_BITS + 1, WIDTH)),
        decoder_bias=rng.normal(size=WIDTH),
        log_noise=np.array(-0.3),
        prior_logits=rng.normal(size=N_BITS),
    )
    directions = rng.normal(size=(N_ROWS, WIDTH))
    return parameters, Rows(directions, directions * 1.5 + 0.2, rng.uniform(0.5, 2, N_ROWS))


def gradient(parameters, rows, estimator="exact", seed=0):
    out = parameters.zeros()
    nats = scale_gradient(
        parameters, rows, estimator=estimator, kl_weight=0.7, spread=SPREAD,
        rng=np.random.default_rng(seed), out=out,
    )  # fmt: skip
    return nats, out


def objective_by_definition(parameters, rows, n_draws=200_000):
    """All codes enumerated, log-normal scales by quadrature over each bit's own distribution."""
    rng = np.random.default_rng(0)
    f = rows.features
    p = sigmoid(f @ parameters["encoder_weights"] + parameters["encoder_bias"])
    mu = f @ parameters["scale_weights"] + parameters["scale_bias"]
    deviation = np.exp(parameters["log_scale_variance"] / 2)
    noise, total = float(np.exp(parameters["log_noise"])), 0.0
    for i in range(N_ROWS):
        e = np.exp(mu[i] + deviation * rng.standard_normal((n_draws // 10, N_BITS + 1)))
        expected = 0.0
        for bits in product((0, 1), repeat=N_BITS):
            chance = np.prod(np.where(bits, p[i], 1 - p[i]))
            s = np.concatenate([[1.0], 2.0 * np.array(bits) - 1])
            mean = (e * s) @ parameters["decoder_weights"]
            mean += parameters["decoder_bias"] / rows.lengths[i]
            expected += chance * np.square(rows.directions[i] - mean).sum(axis=1).mean()
        total += expected / (2 * noise) + 0.5 * WIDTH * np.log(2 * np.pi * noise)
        theta = sigmoid(parameters["prior_logits"])
        kl = p[i] * np.log(p[i] / theta) + (1 - p[i]) * np.log((1 - p[i]) / (1 - theta))
        log_ratio = (
            -np.log(deviation) - 0.5 * np.square((np.log(e) - mu[i]) / deviation)
            + np.log(SPREAD) + 0.5 * np.square((np.log(e) + SPREAD**2 / 2) / SPREAD)
        )  # fmt: skip
        total += 0.7 * kl.sum() + log_ratio.sum(axis=1).mean()
    return total / N_ROWS


def test_objective_is_the_expectation_it_claims(problem):
    assert gradient(*problem)[0] == pytest.approx(objective_by_definition(*problem), rel=5e-3)


def test_exact_gradient_is_the_slope_of_the_objective(problem):
    parameters, rows = problem
    _, out = gradient(parameters, rows)
    for name, value in parameters.items():
        slopes = np.empty_like(value)
        for place in np.ndindex(value.shape):
            ends = []
            for change in (1e-6, -1e-6):
                moved = Wide({key: array.copy() for key, array in parameters.items()})
                moved[name][place] += change
                ends.append(gradient(moved, rows)[0])
            slopes[place] = (ends[0] - ends[1]) / 2e-6
        assert np.allclose(out[name], slopes, rtol=1e-6, atol=1e-7), name


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["distributional", "approximate"])
def test_draws_average_to_the_exact_gradient_or_are_biased(problem, estimator):
    parameters, rows = problem
    exact = gradient(parameters, rows)[1]["encoder_weights"]
    draws = np.array(
        [gradient(parameters, rows, estimator, seed)[1]["encoder_weights"] for seed in range(4000)]
    )
    scores = np.abs(draws.mean(axis=0) - exact) / (draws.std(axis=0) / np.sqrt(len(draws)))
    assert (scores.max() < 4.5) == (estimator == "distributional")


def rows_of(n=400, width=8, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(12, width)) * 3 + 2
    return (centres[rng.integers(12, size=n)] + 0.3 * rng.normal(size=(n, width))).astype("f4")


def test_codes_do_not_see_lengths_and_scales_do():
    X = rows_of()
    factors = np.exp(np.random.default_rng(1).uniform(-2, 2, (len(X), 1))).astype(np.float32)
    model = ScaleInvariantSGH(n_bits=16, n_steps=200, random_state=0).fit(X * factors)
    assert (model.encode(X) == model.encode(X * factors)).mean() > 0.999
    assert len(np.unique(model.encode(X), axis=0)) >= 12
    assert np.allclose(model.scales(X * factors), model.scales(X) * factors, rtol=1e-4)
    kept = model.decode(model.encode(X * factors), scales=model.scales(X * factors))
    alone = model.decode(model.encode(X * factors))
    error, lost = (np.square(X * factors - back).sum() for back in (kept, alone))
    assert error < 0.1 * np.square(X * factors).sum() and lost > 5 * error
    # Codes alone stand for vectors of about the mean length.
    lengths = np.linalg.norm(alone, axis=1)
    assert lengths.mean() == pytest.approx(np.linalg.norm(X * factors, axis=1).mean(), rel=0.1)


def test_the_mean_as_origin_undoes_translations():
    X = rows_of()
    model = ScaleInvariantSGH(n_bits=16, n_steps=100, origin="mean", random_state=0).fit(X + 100)
    moved = model.origin_ + 3 * (X + 100 - model.origin_)
    assert (model.transform(X + 100) == model.transform(moved)).mean() > 0.999
    plain = ScaleInvariantSGH(n_bits=16, n_steps=100, origin="mean", random_state=0).fit(X)
    # Rounding sends single bits another way; codes of different data agree in half.
    assert (model.transform(X + 100) == plain.transform(X)).mean() > 0.85


def test_saving_keeps_scales(tmp_path):
    X = rows_of()
    model = ScaleInvariantSGH(n_bits=9, n_steps=20, random_state=0).fit(X)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert np.array_equal(again.scales(X), model.scales(X))
    assert np.array_equal(again.bit_probabilities(X) > 0.5, model.transform(X))
    assert again.history_ == model.history_


def test_a_vector_at_the_origin_is_hashed():
    X = rows_of()
    model = ScaleInvariantSGH(n_bits=9, n_steps=20, random_state=0).fit(X)
    zero = np.zeros((1, X.shape[1]))
    assert np.array_equal(model.transform(zero)[0], model.encoder_bias_ > 0)
    assert np.array_equal(model.scales(zero), np.zeros((1, 10)))


def test_wrong_use_is_refused():
    X = rows_of(50)
    model = ScaleInvariantSGH(n_bits=9, n_steps=5, random_state=0).fit(X)
    codes = model.encode(X)
    with pytest.raises(InvalidInput, match="scales must have shape"):
        model.decode(codes, scales=np.ones((50, 9)))
    with pytest.raises(InvalidInput, match="not negative"):
        model.decode(codes, scales=-np.ones((50, 10)))
    for wrong in (
        {"origin": "median"}, {"gradient": "none"}, {"scale_spread": 0.0}, {"n_steps": 0},
        {"kl_weight": 1.0}, {"learning_rate": -1.0}, {"batch_size": 2.5},
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            ScaleInvariantSGH(**wrong).fit(X)
    with pytest.raises(Diverged, match="learning_rate"):
        ScaleInvariantSGH(n_bits=9, learning_rate=1e30, n_steps=40).fit(X)


@pytest.mark.parametrize(
    ("n", "width", "rank"),
    [
        (300, 2000, 20),
        pytest.param(1000, 2000, 2000, marks=pytest.mark.slow),
        pytest.param(5000, 3072, 100, marks=pytest.mark.slow),
    ],
)
def test_wide_vectors_are_learned_with_the_default_learning_rate(n, width, rank):
    """One step must not throw the scales out of reach of their prior, however wide the vectors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, width)) if rank == width else rng.normal(size=(n, rank))
    if rank < width:
        X = X @ rng.normal(size=(rank, width))
    model = ScaleInvariantSGH(16, n_steps=60, random_state=0, batch_size=100).fit(X)
    objective = model.history_["objective"]
    assert objective[-1] < objective[0] < 2 * width
    scales = model.scales(X) / np.linalg.norm(X, axis=1, keepdims=True) * model.length_
    assert scales.min() > 0.5 and scales.max() < 2
    back = model.decode(model.encode(X), scales=model.scales(X))
    assert np.square(X - back).sum() < (0.95 if rank < width else 1) * np.square(X).sum()
