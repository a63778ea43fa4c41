"""The binary autoencoder: each of its three steps against brute force, and all together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from sghash.errors import InvalidInput
from sghash.models.baselines.binary_autoencoder.code_step import CodeStep
from sghash.models.baselines.binary_autoencoder.estimator import BinaryAutoencoder
from sghash.models.baselines.binary_autoencoder.hyperplanes import Trainer
from sghash.models.baselines.binary_autoencoder.validation_precision import ValidationPrecision
from sghash.models.baselines.itq import ITQ
from sghash.models.shared.axes import principal_axes
from sghash.models.shared.least_squares import LinearDecoder


def problem(rng, n_bits: int, n: int = 60, width: int = 10):
    """A decoder of signs, vectors that it cannot make exactly, and bits to stay near to."""
    decoder = LinearDecoder(
        rng.normal(size=(n_bits, width)).astype(np.float32),
        rng.normal(size=width).astype(np.float32),
    )
    vectors = (rng.normal(size=(n, width)) * 3).astype(np.float32)
    return decoder, vectors, rng.uniform(size=(n, n_bits)) > 0.5


def error_of(decoder, vector, pull, code, penalty) -> float:
    """The definition of what the step of the codes minimises, for one row."""
    signs = np.where(code, 1.0, -1.0)
    rest = vector.astype(np.float64) - decoder.offset - signs @ decoder.weights
    return float(rest @ rest + penalty * np.sum(code != pull))


def best_error(decoder, vector, pull, penalty) -> float:
    n_bits = len(decoder.weights)
    every = (np.asarray(code) > 0 for code in itertools.product((0, 1), repeat=n_bits))
    return min(error_of(decoder, vector, pull, code, penalty) for code in every)


@pytest.mark.parametrize("penalty", [1e-3, 2.0, 50.0])
def test_exact_codes_equal_brute_force_at_8_bits(rng, penalty):
    decoder, vectors, pull = problem(rng, 8)
    step = CodeStep(decoder, penalty, exact=True)
    codes, reached = step.minimise(vectors, pull, pull)
    found = [
        error_of(decoder, x, h, z, penalty) for x, h, z in zip(vectors, pull, codes, strict=True)
    ]
    best = [best_error(decoder, x, h, penalty) for x, h in zip(vectors, pull, strict=True)]
    assert np.allclose(found, best, rtol=1e-5)
    assert reached == pytest.approx(np.mean(best), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [1e-3, 2.0, 50.0])
def test_alternating_codes_are_near_the_best_and_never_worse_than_the_start(rng, penalty):
    decoder, vectors, pull = problem(rng, 10)
    step = CodeStep(decoder, penalty, exact=False)
    codes, reached = step.minimise(vectors, pull, pull)
    rows = list(zip(vectors, pull, codes, strict=True))
    found = np.asarray([error_of(decoder, x, h, z, penalty) for x, h, z in rows])
    best = np.asarray([best_error(decoder, x, h, penalty) for x, h, _ in rows])
    start = np.asarray([error_of(decoder, x, h, h, penalty) for x, h, _ in rows])
    assert np.all(found >= best * (1 - 1e-5)) and np.all(found <= start * (1 + 1e-5))
    assert found.mean() < best.mean() + 0.25 * (start.mean() - best.mean())
    # No single bit can be changed for the better.
    for row in range(0, len(rows), 7):
        x, h, z = rows[row]
        for bit in range(10):
            flipped = z.copy()
            flipped[bit] ^= True
            assert error_of(decoder, x, h, flipped, penalty) >= found[row] * (1 - 1e-5)
    assert reached == pytest.approx(found.mean(), rel=1e-5)


def test_relaxed_codes_solve_the_problem_on_the_unit_cube(rng):
    decoder, vectors, pull = problem(rng, 6, n=8)
    penalty = 0.5
    step = CodeStep(decoder, penalty, exact=False)
    weights = 2 * decoder.weights.astype(np.float64)
    offset = decoder.offset - decoder.weights.sum(axis=0)
    relaxed = step._relaxed(((vectors - offset) @ weights.T).astype(np.float32), pull)
    assert relaxed.min() >= 0 and relaxed.max() <= 1
    for x, h, z in zip(vectors, pull, relaxed, strict=True):

        def objective(code, x=x, h=h):
            rest = x - offset - code @ weights
            return rest @ rest + penalty * np.square(code - h).sum()

        best = minimize(objective, np.full(6, 0.5), bounds=[(0, 1)] * 6, method="L-BFGS-B")
        assert objective(z) <= best.fun * 1.01 + 1e-3


@pytest.mark.parametrize("loss", ["svm", "logistic"])
def test_classifiers_are_those_of_liblinear(rng, loss):
    """Not separable data, so that the minimum is unique and finite."""
    vectors = (rng.normal(size=(400, 5)) * [5, 2, 1, 1, 0.3] + 3).astype(np.float32)
    noisy = vectors @ rng.normal(size=(5, 3)) + rng.normal(size=(400, 3)) * 4
    bits = noisy > np.median(noisy, axis=0)
    trainer = Trainer(vectors, principal_axes(vectors, 5), 1.0, loss, 100.0)
    weights = trainer.improve(np.zeros((6, 3), dtype=np.float32), bits, 200)
    projection, bias = trainer.in_input_space(weights)
    for bit in range(3):
        if loss == "svm":
            reference = LinearSVC(C=100, dual=False, tol=1e-8, intercept_scaling=10, max_iter=5000)
        else:
            reference = LogisticRegression(C=100, tol=1e-8)
        reference.fit(vectors - vectors.mean(axis=0), bits[:, bit])
        assert np.allclose(projection[:, bit], reference.coef_[0], rtol=0.02, atol=0.005)
        assert bias[bit] == pytest.approx(reference.intercept_[0], abs=0.02)


@pytest.fixture
def vectors(rng):
    hidden = np.where(rng.uniform(size=(1500, 6)) > 0.5, 1.0, -1.0)
    made = hidden @ rng.normal(size=(6, 16)) + rng.normal(size=(1500, 16)) * 0.4
    return (made * 5 + 40).astype(np.float32)


@pytest.mark.parametrize("n_bits", [8, 20])
def test_objective_falls_in_every_step_at_a_fixed_penalty(rng, n_bits):
    """Codes, decoder and encoder each lower it: before, after, before, after, ..."""
    vectors = (rng.normal(size=(2000, 16)) * np.linspace(3, 0.5, 16)).astype(np.float32)
    model = BinaryAutoencoder(
        n_bits=n_bits,
        penalty=0.002,
        penalty_growth=1.0,
        n_iterations=8,
        n_validation=0,
        random_state=0,
    ).fit(vectors)
    path = model.objective_history_[:, 1:3].ravel()
    assert len(path) > 4
    assert np.all(np.diff(path) <= 1e-6 * path[0])
    assert path[-1] < 0.99 * path[0]


def test_reconstructs_better_than_its_start(vectors):
    """Never worse; the same where the start is as good as it gets."""

    def error(which):
        return np.square(which.decode(which.encode(vectors)) - vectors).sum(axis=1).mean()

    starts, errors = [], []
    for seed in range(3):
        model = BinaryAutoencoder(n_bits=8, random_state=seed).fit(vectors)
        errors.append(error(model))
        starts.append(error(ITQ(n_bits=8, random_state=seed).fit(vectors)))
        history = model.objective_history_
        assert np.all(np.diff(history[:, 0]) > 0)
        assert np.all(history[:, 2] <= history[:, 1] + 1e-6)
    assert all(np.less_equal(errors, np.array(starts) * (1 + 1e-6)))
    assert sum(errors) < 0.99 * sum(starts)


def test_ends_when_the_encoder_gives_the_codes(vectors):
    model = BinaryAutoencoder(n_bits=8, n_iterations=40, random_state=0).fit(vectors)
    last = model.objective_history_[-1]
    assert len(model.objective_history_) < 40
    assert last[2] == pytest.approx(last[3], rel=1e-6)


def test_logistic_encoder(vectors):
    model = BinaryAutoencoder(n_bits=8, classifier="logistic", random_state=0).fit(vectors)
    decoded = model.decode(model.encode(vectors))
    assert np.square(decoded - vectors).sum() < 0.3 * np.square(vectors - vectors.mean(0)).sum()


def test_precision_by_hand(rng):
    vectors = np.arange(1000, dtype=np.float32)[:, None]
    watch = ValidationPrecision(vectors, 50, np.random.RandomState(0))
    thermometer = np.arange(1000)[:, None] > np.arange(0, 1000, 1)
    assert watch.measure(thermometer) > 0.4
    assert watch.measure(rng.uniform(size=(1000, 8)) > 2) < 0.1
    assert ValidationPrecision(vectors, 0, np.random.RandomState(0)).measure(thermometer) == 1.0


@pytest.mark.parametrize(
    "option",
    [{"classifier": "tree"}, {"exact_bits": 40}, {"penalty": 0.0}, {"penalty_growth": 0.5}],
)
def test_bad_options_are_refused(vectors, option):
    with pytest.raises(InvalidInput, match=next(iter(option))):
        BinaryAutoencoder(n_bits=4, **option).fit(vectors)
