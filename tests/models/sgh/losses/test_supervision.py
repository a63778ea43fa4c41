"""Pairs and labels: gradients against enumeration and finite differences, and what they bring."""

from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest

from sghash import SGH, Recipe
from sghash.errors import InvalidInput
from sghash.models.sgh.losses.supervision import (
    PairTerm,
    check_labels,
    check_pairs,
    label_loss,
    pair_gradient,
)
from sghash.models.sgh.losses.terms import Terms
from sghash.models.sgh.paper.encoder import sigmoid, softplus
from sghash.models.sgh.paper.generative import code_values
from sghash.models.sgh.training.batches import Batch
from sghash.models.sgh.training.optimizer import Parameters

N_BITS, N_PAIRS = 3, 5
SIMILAR = np.array([True, False, True, False, True])


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(size=(2 * N_PAIRS, N_BITS))


def expected_loss(logits, scale, offset, coding):
    """Mean over pairs of the loss, over all 4^l pairs of codes."""
    p = sigmoid(logits)
    total = 0.0
    for bits in product((0, 1), repeat=2 * N_BITS):
        first, second = np.array(bits[:N_BITS]), np.array(bits[N_BITS:])
        h_i, h_j = (code_values(part, coding, np.float64) for part in (first, second))
        margin = np.where(SIMILAR, 1, -1) * (scale * float(h_i @ h_j) + offset)
        chance = np.where(first, p[:N_PAIRS], 1 - p[:N_PAIRS]).prod(axis=1)
        chance *= np.where(second, p[N_PAIRS:], 1 - p[N_PAIRS:]).prod(axis=1)
        total += float((chance * softplus(-margin)).mean())
    return total


@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_exact_pair_gradient_is_the_slope_of_the_enumerated_loss(logits, coding):
    found = pair_gradient(
        sigmoid(logits), SIMILAR, 0.7, -0.2, estimator="exact", coding=coding,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found.loss == pytest.approx(expected_loss(logits, 0.7, -0.2, coding), rel=1e-12)
    for place in np.ndindex(logits.shape):
        moved = [logits.copy() for _ in range(2)]
        moved[0][place] += 1e-5
        moved[1][place] -= 1e-5
        ends = [expected_loss(z, 0.7, -0.2, coding) for z in moved]
        assert found.logits[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)
    ends = [expected_loss(logits, 0.7 + d, -0.2, coding) for d in (1e-5, -1e-5)]
    assert found.scale == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)
    ends = [expected_loss(logits, 0.7, -0.2 + d, coding) for d in (1e-5, -1e-5)]
    assert found.offset == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("coding", ["signed", "binary"])
@pytest.mark.parametrize("estimator", ["distributional", "approximate"])
def test_draws_are_unbiased_or_known_to_be_biased(logits, coding, estimator):
    p, rng = sigmoid(logits), np.random.default_rng(1)
    exact = pair_gradient(p, SIMILAR, 0.7, -0.2, estimator="exact", coding=coding, rng=rng)
    draws = np.array(
        [
            pair_gradient(p, SIMILAR, 0.7, -0.2, estimator=estimator, coding=coding, rng=rng).logits
            for _ in range(8000)
        ]
    )
    errors = draws.std(axis=0) / np.sqrt(len(draws))
    scores = np.abs(draws.mean(axis=0) - exact.logits) / np.maximum(errors, 1e-12)
    assert (scores.max() < 4.5) == (estimator == "distributional")


def test_differences_are_what_flips_change(logits):
    """The closed form of the unbiased estimator against two losses per bit."""
    p = sigmoid(logits)
    found = pair_gradient(
        p, SIMILAR, 0.7, -0.2, estimator="distributional", coding="signed",
        rng=np.random.default_rng(3),
    )  # fmt: skip
    bits = np.random.default_rng(3).random(p.shape) < p
    y = np.where(SIMILAR, 1, -1)
    for row, k in np.ndindex(p.shape):
        ends = []
        for value in (True, False):
            codes = bits.copy()
            codes[row, k] = value
            s = 2.0 * codes - 1
            pair = row % N_PAIRS
            margin = y[pair] * (0.7 * float(s[pair] @ s[pair + N_PAIRS]) - 0.2)
            ends.append(float(softplus(-margin)))
        expected = p[row, k] * (1 - p[row, k]) * (ends[0] - ends[1]) / N_PAIRS
        assert found.logits[row, k] == pytest.approx(expected, abs=1e-12)


def test_label_loss_is_its_definition_and_slope():
    rng = np.random.default_rng(0)
    signs, labels = rng.normal(size=(6, 4)), np.array([0, 1, 0, 2, 1, 0])  # 2 stands alone

    def slowly(s, scale):
        losses = []
        for i in range(6):
            others = [k for k in range(6) if k != i]
            same = [k for k in others if labels[k] == labels[i]]
            total = np.log(sum(np.exp(scale * s[i] @ s[k]) for k in others))
            if same:
                losses.append(np.mean([total - scale * s[i] @ s[k] for k in same]))
        return np.mean(losses)

    loss, by_signs, by_scale = label_loss(signs, labels, 0.6)
    assert loss == pytest.approx(slowly(signs, 0.6))
    for place in np.ndindex(signs.shape):
        moved = [signs.copy(), signs.copy()]
        moved[0][place] += 1e-5
        moved[1][place] -= 1e-5
        slope = (slowly(moved[0], 0.6) - slowly(moved[1], 0.6)) / 2e-5
        assert by_signs[place] == pytest.approx(slope, abs=1e-8)
    slope = (slowly(signs, 0.6 + 1e-5) - slowly(signs, 0.6 - 1e-5)) / 2e-5
    assert by_scale == pytest.approx(slope, abs=1e-8)


def task(seed=0):
    """Vectors whose classes lie along a direction of small variance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 8)) * [6, 5, 4, 3, 2, 2, 1, 1]
    labels = rng.integers(2, size=600)
    X[:, 6] = X[:, 6] * 0.3 + 2 * labels
    return X.astype(np.float32), labels


def margin(model, X, labels):
    signs = 2.0 * model.transform(X) - 1
    products = signs @ signs.T / model.n_bits
    same = labels[:, None] == labels[None, :]
    return products[same].mean() - products[~same].mean()


OPTIONS = {"n_bits": 12, "n_steps": 300, "random_state": 0}


@pytest.mark.parametrize(
    "options", [{}, {"recipe": Recipe(pair_loss="bernoulli")}, {"goal": "reconstruction"}]
)
def test_labels_bring_codes_together(options):
    X, labels = task()
    partly = np.where(np.arange(len(X)) % 4 > 0, -1, labels)
    plain = SGH(**OPTIONS, **options).fit(X, partly)
    assert plain.fingerprint_ == SGH(**OPTIONS, **options).fit(X).fingerprint_
    before = margin(plain, *task(1))
    known = SGH(supervised=True, **OPTIONS, **options).fit(X, partly)
    assert margin(known, *task(1)) > before + 0.25


@pytest.mark.parametrize(
    ("gradient", "coding"),
    [("exact", "signed"), ("exact", "binary"), ("straight-through", "signed")],
)
def test_pairs_bring_codes_together(gradient, coding):
    X, labels = task()
    i, j = np.random.default_rng(0).integers(len(X), size=(2, 3000))
    options = {**OPTIONS, "gradient": gradient, "coding": coding, "goal": "reconstruction"}
    before = margin(SGH(**options).fit(X), *task(1))
    known = SGH(**options).fit(X, pairs=(i, j, labels[i] == labels[j]))
    assert margin(known, *task(1)) > before + 0.15


def test_terms_that_share_a_parameter_add_up():
    X, _ = task()
    weights = np.random.default_rng(1).normal(size=(X.shape[1], N_BITS))
    encoder = {"encoder_weights": weights, "encoder_bias": np.zeros(N_BITS)}

    def gradient(*kinds):
        # A single pair, so that every draw is the same.
        known = [check_pairs(([0], [1], [similar]), len(X)) for similar in kinds]
        options = {"n_bits": N_BITS, "weight": 1.0, "coding": "signed"}
        terms = Terms(
            [PairTerm(X, pair, estimator="straight-through", **options) for pair in known]
        )
        parameters = Parameters({**encoder, **terms.start_parameters()})
        out, nothing = parameters.zeros(), np.zeros((1, N_BITS), dtype="f4")
        out.flat[:] = 7  # the last step's
        batch = Batch(X[:1], np.arange(1))
        slopes = nothing.copy()
        terms.add(parameters, batch, nothing, nothing, slopes, np.random.default_rng(0), out)
        return np.array([out["known_pair_scale"], out["known_pair_offset"]])

    assert np.allclose(gradient(True, False), gradient(True) + gradient(False))


@pytest.mark.parametrize("goal", ["reconstruction", "balanced"])
def test_what_was_known_ends_with_the_fit(goal):
    X, labels = task()
    options = {**OPTIONS, "n_steps": 20, "goal": goal}
    model = SGH(supervised=True, **options).fit(X, labels)
    # Going on draws no labelled rows: it is the same whatever became of them.
    twin = copy.deepcopy(model)
    X[:] = np.nan
    piece = task(1)[0]
    assert model.partial_fit(piece).fingerprint_ == twin.partial_fit(piece).fingerprint_
    assert np.isfinite(model.encoder_weights_).all()
    with pytest.raises(InvalidInput, match="nothing from labels"):
        model.partial_fit(piece, labels)


def test_wrong_use_is_refused():
    X, _ = task()
    with pytest.raises(InvalidInput, match="one per row"):
        SGH(supervised=True, **OPTIONS).fit(X)
    with pytest.raises(InvalidInput, match="one per row"):
        SGH(supervised=True, **OPTIONS).fit(X, np.full(600, 0.5))
    with pytest.raises(InvalidInput, match="no two rows alike"):
        check_labels(np.full(5, -1), 5)
    for pairs in (3, (1, 2), ([0], [1], [2]), ([0.5], [1], [1]), ([0], [60], [1]), ([], [], [])):
        with pytest.raises(InvalidInput, match="pairs"):
            check_pairs(pairs, 60)
