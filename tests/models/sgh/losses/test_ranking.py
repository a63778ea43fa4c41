"""Ranking losses against plain NumPy, neighbours against brute force, and models with them."""

from __future__ import annotations

import numpy as np
import pytest

from sghash import ITQ, SGH, Recipe
from sghash.errors import InvalidInput
from sghash.kernels.learning.ranking import softmax_gradient
from sghash.models.sgh.losses.ranking import (
    PAIR_LOSSES,
    PairBatches,
    Ranking,
    bernoulli_loss,
    find_neighbors,
    softmax_loss,
)
from sghash.models.sgh.losses.terms import TermView
from sghash.models.sgh.training.optimizer import Parameters
from sghash.models.sgh.training.scaling import EXACT_WIDTH, PrincipalScaling, Scaling


def signs(rng: np.random.Generator, n: int, n_bits: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], size=(n, n_bits)).astype(np.float32)


def slow_softmax(
    codes: np.ndarray, anchors: np.ndarray, positives: np.ndarray, scale: float
) -> float:
    """Summed loss in double precision, for any numbers in the place of signs."""
    loss = 0.0
    for i, j in zip(anchors, positives, strict=True):
        scores = scale * (codes @ codes[i])
        others = np.delete(scores, i)
        loss += np.log(np.exp(others - others.max()).sum()) + others.max() - scores[j]
    return loss


def slow_bernoulli(
    codes: np.ndarray, anchors: np.ndarray, positives: np.ndarray, scale: float, offset: float
) -> float:
    loss = 0.0
    for i, (a, b) in enumerate(zip(anchors, positives, strict=True)):
        other = positives[(i + 1) % len(positives)]
        loss += np.log1p(np.exp(-(scale * (codes[a] @ codes[b]) + offset)))
        loss += np.log1p(np.exp(scale * (codes[a] @ codes[other]) + offset))
    return loss


def differences(function, codes: np.ndarray, step: float = 1e-5) -> np.ndarray:
    result = np.zeros_like(codes)
    for index in np.ndindex(codes.shape):
        up, down = codes.copy(), codes.copy()
        up[index] += step
        down[index] -= step
        result[index] = (function(up) - function(down)) / (2 * step)
    return result


@pytest.mark.parametrize("n_bits", [1, 7, 16, 128])
@pytest.mark.parametrize("scale", [0.02, 0.7])
@pytest.mark.parametrize("everyone", [False, True])
def test_softmax_is_the_slow_one(n_bits: int, scale: float, everyone: bool) -> None:
    rng = np.random.default_rng(n_bits)
    codes = signs(rng, 9, n_bits)
    codes[4] = codes[1]  # duplicates are as near as can be
    anchors, positives = np.array([1, 2, 5, 8]), np.array([4, 0, 7, 3])
    if everyone:
        anchors, positives = np.arange(9), np.array([1, 4, 0, 8, 1, 7, 0, 3, 3])
    answer = softmax_loss(codes, anchors, positives, scale, 0.0, 2.0)
    exact = codes.astype(np.float64)
    assert answer.loss == pytest.approx(
        2 * slow_softmax(exact, anchors, positives, scale), rel=1e-5
    )
    expected = differences(lambda c: 2 * slow_softmax(c, anchors, positives, scale), exact)
    np.testing.assert_allclose(answer.codes, expected, atol=2e-4)
    by_scale = (
        slow_softmax(exact, anchors, positives, scale + 1e-6)
        - slow_softmax(exact, anchors, positives, scale - 1e-6)
    ) / 1e-6
    assert answer.scale == pytest.approx(by_scale, rel=1e-3, abs=1e-3)


def test_far_candidates_do_not_vanish_beside_the_anchor_itself() -> None:
    # All others far away, a large scale: the anchor's own product would swallow them in float32.
    codes = np.ones((3, 256), dtype=np.float32)
    codes[1, :100] = codes[2, :120] = -1
    products = codes[:1] @ codes.T
    loss, _ = softmax_gradient(products, np.array([0]), np.array([1]), 1.0, 256, 1.0)
    assert loss == pytest.approx(np.log1p(np.exp(-40.0)), abs=1e-6)
    np.testing.assert_allclose(products, [[0, 0, 0]], atol=1e-6)


def test_bernoulli_is_the_slow_one() -> None:
    rng = np.random.default_rng(3)
    codes = signs(rng, 8, 6)
    anchors, positives = np.arange(4), np.array([5, 5, 6, 7])
    answer = bernoulli_loss(codes, anchors, positives, 0.3, -0.4, 1.5)
    exact = codes.astype(np.float64)

    def slow(c: np.ndarray, scale: float = 0.3, offset: float = -0.4) -> float:
        return 1.5 * slow_bernoulli(c, anchors, positives, scale, offset)

    assert answer.loss == pytest.approx(slow(exact), rel=1e-5)
    np.testing.assert_allclose(answer.codes, differences(slow, exact), atol=1e-4)
    by_scale = (slow(exact, 0.3 + 1e-6) - slow(exact, 0.3 - 1e-6)) / 2e-6
    by_offset = (slow(exact, 0.3, -0.4 + 1e-6) - slow(exact, 0.3, -0.4 - 1e-6)) / 2e-6
    assert answer.scale == pytest.approx(by_scale, rel=1e-4)
    assert answer.offset == pytest.approx(by_offset, rel=1e-4)


@pytest.mark.parametrize("pair_loss", sorted(PAIR_LOSSES))
def test_the_gradient_passes_straight_through_the_sign(pair_loss: str) -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((10, 5)).astype(np.float32)
    p = 1 / (1 + np.exp(-logits))
    term = Ranking(n_bits=5, weight=8.0, pair_loss=pair_loss, n_pairs=5)
    parameters = {name: np.float32(v) for name, v in term.start_parameters().items()}
    view = TermView(np.arange(10), np.zeros((10, 3)), logits, p, None, None, parameters)
    answer = term.gradient(view)
    codes = np.where(logits > 0, 1, -1).astype(np.float32)
    scale = float(np.exp(parameters["pair_scale"]))
    direct = PAIR_LOSSES[pair_loss](codes, np.arange(5), np.arange(5, 10), scale, 0.0, 1.6)
    np.testing.assert_allclose(answer.logits, direct.codes * 2 * p * (1 - p), rtol=1e-5, atol=1e-7)
    assert answer.loss == pytest.approx(direct.loss)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_neighbors_are_the_nearest_others(metric: str) -> None:
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((60, 9)).astype(np.float32)
    vectors[7] = vectors[3]
    mean = rng.standard_normal(9).astype(np.float32)
    found = find_neighbors(vectors, 4, metric, mean, n_rows=60, again=True, rng=rng)
    exact = vectors.astype(np.float64)
    if metric == "ip":
        scores = (exact + mean) @ (exact + mean).T
    else:
        scores = -np.square(exact[:, None] - exact[None]).sum(axis=2)
    np.fill_diagonal(scores, -np.inf)
    # Duplicates tie: the distances are those of the nearest, whichever of the two was taken.
    assert not (found == np.arange(60)[:, None]).any()
    best = -np.sort(-scores, axis=1)
    np.testing.assert_allclose(
        -np.sort(-np.take_along_axis(scores, found, axis=1)), best[:, :4], atol=1e-5
    )


def test_batches_hold_anchors_then_a_neighbour_of_each() -> None:
    rng = np.random.default_rng(1)
    vectors = np.arange(40, dtype=np.float32).reshape(20, 2)
    neighbors = np.array([[1, 2], [0, 2], [0, 1]])
    batches = PairBatches(vectors, neighbors, n_pairs=7)
    scaling = Scaling(np.zeros(2, dtype=np.float32), 1.0, False)
    for _ in range(5):
        drawn, rows = batches.draw(scaling, rng)
        np.testing.assert_array_equal(drawn, vectors[rows])
        for anchor, neighbor in zip(rows[:7], rows[7:], strict=True):
            assert neighbor in neighbors[anchor]


def test_every_vector_is_an_anchor_before_any_is_one_again() -> None:
    rng = np.random.default_rng(1)
    batches = PairBatches(np.zeros((60, 2), np.float32), rng.integers(60, size=(60, 3)), n_pairs=20)
    scaling = Scaling(np.zeros(2, dtype=np.float32), 1.0, False)
    anchors = [batches.draw(scaling, rng).rows[:20] for _ in range(3)]
    assert sorted(np.concatenate(anchors)) == list(range(60))


def test_parameters_lifted_from_principal_coordinates_give_the_same_codes() -> None:
    rng = np.random.default_rng(2)
    raw = (rng.standard_normal((300, 12)) * np.arange(1, 13) + 5).astype(np.float32)
    outer = Scaling.of(raw, cosine=False, standardize=True)
    units = PrincipalScaling.of(raw, outer, 4, 128, rng)
    inside = units.apply(raw)
    assert inside[:, :4].var(axis=0).mean() == pytest.approx(4.0, rel=1e-3)
    shapes = {"encoder_weights": (12, 4), "encoder_bias": 4, "decoder_weights": (4, 12)}
    shapes |= {"decoder_bias": 12, "log_noise": (), "prior_logits": 4}
    inner = Parameters({name: rng.standard_normal(shape) for name, shape in shapes.items()})
    lifted, scaled = units.lift(inner), outer.apply(raw)
    logits = inside @ inner["encoder_weights"] + inner["encoder_bias"]
    np.testing.assert_allclose(
        scaled @ lifted["encoder_weights"] + lifted["encoder_bias"], logits, rtol=1e-3, atol=1e-3
    )
    codes = np.where(logits > 0, 1, -1).astype(np.float32)
    back = codes @ inner["decoder_weights"] + inner["decoder_bias"]
    full = codes @ lifted["decoder_weights"] + lifted["decoder_bias"]
    # All axes are kept here, so the squared error is the same up to the units.
    np.testing.assert_allclose(
        np.square(scaled - full).sum(axis=1) * units.factor**2,
        np.square(inside - back).sum(axis=1),
        rtol=1e-3,
    )


@pytest.fixture(scope="module")
def blobs() -> np.ndarray:
    rng = np.random.default_rng(11)
    centres = rng.standard_normal((60, 24)) * 2
    return (centres[rng.integers(60, size=3000)] + rng.standard_normal((3000, 24))).astype(
        np.float32
    )


def recall_of(model, vectors: np.ndarray) -> float:
    queries, base = vectors[:300], vectors[300:]
    truth = np.argsort(np.square(queries[:, None] - base[None]).sum(axis=2), axis=1)[:, :10]
    model.fit(base)
    bits = [np.where(model.transform(part) > 0, 1, -1) for part in (queries, base)]
    found = np.argsort(-(bits[0] @ bits[1].T), axis=1, kind="stable")[:, :50]
    return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(truth, found, strict=True)]))


def test_neighbors_raise_the_recall(blobs: np.ndarray) -> None:
    plain = np.mean([recall_of(ITQ(16, random_state=seed), blobs) for seed in range(5)])
    with_pairs = recall_of(SGH(16, neighbors=10, n_steps=400, random_state=0), blobs)
    assert with_pairs > 1.03 * plain


@pytest.mark.parametrize("options", [{"goal": "hamming"}, {"neighbors": 3}, {}])
@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_the_same_seed_gives_the_same_model(
    options: dict[str, object], metric: str, blobs: np.ndarray
) -> None:
    models = [
        SGH(n_bits=12, n_steps=30, metric=metric, random_state=4, **options).fit(blobs[:500])
        for _ in range(2)
    ]
    assert models[0].fingerprint_ == models[1].fingerprint_
    assert models[0].history_["step"][-1] == 30


@pytest.mark.parametrize("options", [{"goal": "hamming"}, {"neighbors": 3}])
def test_degenerate_vectors(options: dict[str, object], blobs: np.ndarray) -> None:
    wide = np.full((5, EXACT_WIDTH + 1), 2.5, dtype=np.float32)
    for vectors in (blobs[:1], blobs[:2], np.ones((5, 4), dtype=np.float32), blobs[[3] * 20], wide):
        codes = SGH(n_bits=9, n_steps=5, random_state=0, **options).fit(vectors).encode(vectors)
        assert codes.shape == (len(vectors), 2)


def test_the_goal_of_reconstruction_reconstructs_best(blobs: np.ndarray) -> None:
    errors = {}
    for goal in ("reconstruction", "hamming"):
        model = SGH(n_bits=16, goal=goal, n_steps=800, random_state=0).fit(blobs)
        errors[goal] = np.square(blobs - model.decode(model.encode(blobs))).sum(axis=1).mean()
    assert errors["reconstruction"] < errors["hamming"]


def test_options_that_cannot_be(blobs: np.ndarray) -> None:
    with pytest.raises(InvalidInput, match="partial_fit finds no neighbours"):
        SGH(n_bits=8, neighbors=5).partial_fit(blobs)
    with pytest.raises(InvalidInput, match="goal"):
        SGH(goal="speed").fit(blobs)
    with pytest.raises(InvalidInput, match="neighbors must be at least 0"):
        SGH(neighbors=-1).fit(blobs)
    with pytest.raises(InvalidInput, match="pair_weight"):
        SGH(recipe=Recipe(pair_weight=0)).fit(blobs)
    with pytest.raises(InvalidInput, match="decoder_scale"):
        SGH(recipe=Recipe(decoder_scale="variance")).fit(blobs)
