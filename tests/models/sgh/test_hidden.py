"""`SGH(hidden=...)`: what a hidden layer learns and encodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import sghash
from sghash.errors import Diverged, InvalidInput
from sghash.models.sgh import SGH
from sghash.models.sgh.paper.gradients import fitted_encoder
from sghash.models.sgh.scores import Scores, arranged


def quick(**options: Any) -> SGH:
    chosen = {"n_bits": 12, "hidden": 10, "n_steps": 60, "random_state": 0, **options}
    return SGH().set_params(**chosen)


class Source:
    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.array[start:stop]


def logits_of(model: SGH, vectors: np.ndarray) -> np.ndarray:
    """The formula, in double precision."""
    x = vectors.astype(np.float64)
    if model.metric == "cosine":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    units = np.maximum(x @ model.hidden_weights_ + model.hidden_bias_, 0)
    return x @ model.encoder_weights_ + units @ model.hidden_output_ + model.encoder_bias_


def assert_coded(model: SGH, codes: np.ndarray, vectors: np.ndarray) -> None:
    logits = logits_of(model, vectors)
    clear = np.abs(logits) > 1e-3  # rounding may turn the others
    bits = np.unpackbits(codes, axis=1, count=model.n_bits).astype(bool)
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(bits[clear], logits[clear] > 0)
    assert not np.unpackbits(codes, axis=1)[:, model.n_bits :].any()


@pytest.fixture(scope="module")
def rings() -> tuple[np.ndarray, np.ndarray]:
    """Two shells around one point, and which of them: no hyperplane tells them apart."""
    rng = np.random.default_rng(5)
    directions = rng.standard_normal((1200, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    outer = np.arange(1200) % 2
    shells = directions * (1 + 2 * outer[:, None]) + 0.05 * rng.standard_normal((1200, 4))
    return shells.astype(np.float32), outer


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("n_bits", [12, 16, 67])
def test_codes_are_the_signs_of_the_formula(metric: str, n_bits: int, clusters: np.ndarray) -> None:
    model = quick(metric=metric, n_bits=n_bits, neighbors=3, n_steps=20).fit(clusters)
    assert model.hidden_weights_.shape == (20, 10) and model.hidden_bias_.shape == (10,)
    assert model.hidden_output_.shape == (10, n_bits)
    for n in (1, 16, 17, 700, 3000):
        assert_coded(model, model.encode(clusters[:n]), clusters[:n])
    np.testing.assert_array_equal(
        model.bit_probabilities(clusters[:50]) > 0.5, logits_of(model, clusters[:50]) > 0
    )


def test_many_rows_and_other_types_are_coded_alike(clusters: np.ndarray) -> None:
    model = quick().fit(clusters)
    many = np.tile(clusters, (6, 1))  # beyond what one thread takes
    for form in (many, Source(many)):
        assert_coded(model, model.encode(form), many)
    for kind in (np.float16, np.uint8, np.float64):
        rows = np.clip(clusters, 0, 200).astype(kind)
        assert_coded(model, model.encode(rows), rows)


@pytest.mark.parametrize("n_hidden", [1, 5, 300, 5000])
def test_blocks_of_any_number_of_units(n_hidden: int, clusters: np.ndarray) -> None:
    model = quick(hidden=n_hidden, n_steps=1).fit(clusters)
    assert_coded(model, model.encode(clusters), clusters)
    scores = Scores(arranged(fitted_encoder(model, np.float32)))
    assert scores.block_rows * n_hidden <= max(1 << 20, 64 * n_hidden)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [10, 3000])
def test_rows_that_are_no_numbers_are_refused(bad: float, n: int, clusters: np.ndarray) -> None:
    model = quick().fit(clusters)
    spoilt = clusters[:n].copy()
    spoilt[7] = bad
    for sweeps in (0, 2):
        with pytest.raises(InvalidInput, match=r"contains (NaN|infinity)"):
            model.encode(spoilt, sweeps=sweeps)


@pytest.mark.parametrize("n", [10, 3000])
def test_rows_too_long_for_the_hidden_layer_are_refused(n: int, clusters: np.ndarray) -> None:
    model = quick().fit(clusters)
    model.encoder_weights_ *= np.float32(1e-3)  # the linear part alone would stay finite
    model.hidden_weights_ *= np.float32(10)
    large = clusters[:n].copy()
    large[7] = 3e38 * np.sign(model.hidden_weights_[:, 0])
    with pytest.raises(InvalidInput, match="projection is infinite in float32"):
        model.encode(large)


def test_a_hidden_layer_learns_what_no_hyperplane_can(
    rings: tuple[np.ndarray, np.ndarray],
) -> None:
    vectors, outer = rings

    def ratio(hidden: int) -> float:
        """Distance of codes within a shell over that between the shells."""
        model = quick(
            n_bits=8, hidden=hidden, goal="reconstruction", supervised=True, learning_rate=0.03,
        ).fit(vectors, outer)  # fmt: skip
        signs = 2 * model.transform(vectors).astype(np.float32) - 1
        distances = (8 - signs @ signs.T) / 2
        same = outer[:, None] == outer[None, :]
        return float(distances[same].mean() / distances[~same].mean())

    assert ratio(32) < 0.3
    assert ratio(0) > 0.6


def test_pairs_reach_the_hidden_layer(rings: tuple[np.ndarray, np.ndarray]) -> None:
    vectors, outer = rings
    rng = np.random.default_rng(0)
    i, j = rng.integers(len(vectors), size=(2, 3000))
    model = quick(n_bits=8, hidden=32, n_steps=300, goal="reconstruction")
    model.fit(vectors, pairs=(i, j, outer[i] == outer[j]))
    bits = model.transform(vectors)
    apart = (bits[i] != bits[j]).mean(axis=1)
    same = outer[i] == outer[j]
    assert apart[same].mean() < 0.7 * apart[~same].mean()


@pytest.mark.parametrize(
    "options",
    [
        {"goal": "reconstruction"},
        {"goal": "hamming"},
        {"neighbors": 5},
        {"neighbors": 5, "recipe__refit": False},
        {"coding": "binary", "gradient": "approximate"},
        {"recipe__init": "random", "goal": "reconstruction", "n_steps": 300},
        {"recipe__iterate": "theorem2"},
        {"recipe__terms": {"confidence": 1e-3, "weight_decay": 1e-5}},
        {"goal": "reconstruction", "recipe__standardize": False, "learning_rate": 0.002},
    ],
    ids=str,
)
def test_every_way_of_training_learns(options: dict[str, Any], clusters: np.ndarray) -> None:
    nothing = float(clusters.var(axis=0).sum())
    model = quick(**options).fit(clusters)
    assert model.reconstruction_error(clusters) < 0.5 * nothing
    assert model.history_["reconstruction_error"][-1] < nothing
    assert np.isfinite(model.description_length(clusters).total).all()
    sharper = model.reconstruction_error(clusters, sweeps=3)
    assert sharper <= model.reconstruction_error(clusters) * 1.001
    assert model.sample(5, random_state=0).shape == (5, 20)


def test_query_tables_score_what_codes_stand_for(clusters: np.ndarray) -> None:
    model = quick(neighbors=5).fit(clusters)
    codes = model.encode(clusters)
    index = sghash.TableIndex.for_model(model)
    index.add(codes)
    found = index.search(model.query_tables(clusters[:5]), 3)
    away = np.square(clusters[:5, None] - model.decode(codes)[None]).sum(axis=2)
    np.testing.assert_allclose(found.distances, np.sort(away, axis=1)[:, :3], rtol=1e-3)


def test_pieces_go_on_from_the_hidden_layer(clusters: np.ndarray, tmp_path: Path) -> None:
    nothing = float(clusters.var(axis=0).sum())
    model = quick(n_steps=40, batch_size=100)
    errors = []
    for start in range(0, 3000, 600):
        model.partial_fit(clusters[start : start + 600])
        errors.append(model.reconstruction_error(clusters))
    assert errors[-1] < 0.5 * nothing
    model.save(tmp_path / "model")
    loaded = SGH.load(tmp_path / "model")
    assert loaded.fingerprint_ == model.fingerprint_
    before = loaded.hidden_weights_.copy()
    loaded.partial_fit(clusters[:600])
    assert loaded.steps_done_ == model.steps_done_ + 6
    moved = np.abs(loaded.hidden_weights_ - before).max()
    assert 0 < moved < np.abs(before).max()
    assert loaded.reconstruction_error(clusters) < 1.3 * errors[-1]


def test_pieces_go_on_after_neighbours(clusters: np.ndarray) -> None:
    model = quick(neighbors=5).fit(clusters)
    error = model.reconstruction_error(clusters)
    model.set_params(neighbors=0).partial_fit(clusters[:600])
    assert model.reconstruction_error(clusters) < 1.3 * error


@pytest.mark.parametrize("neighbors", [0, 5])
@pytest.mark.parametrize("learning_rate", [1e4, 1e30])
def test_divergence_leaves_the_model_as_it_was(
    neighbors: int, learning_rate: float, clusters: np.ndarray
) -> None:
    model = quick(neighbors=neighbors).fit(clusters)
    before = model.fingerprint_
    with pytest.raises(Diverged, match="use a smaller learning_rate"):
        model.set_params(learning_rate=learning_rate).fit(clusters)
    assert model.fingerprint_ == before
    fresh = clone(model)
    with pytest.raises(Diverged):
        fresh.fit(clusters)
    assert not hasattr(fresh, "hidden_weights_")


def test_the_same_seed_gives_the_same_model(clusters: np.ndarray) -> None:
    model = quick(neighbors=5).fit(clusters)
    assert clone(model).fit(clusters).fingerprint_ == model.fingerprint_
    assert quick(neighbors=5, random_state=1).fit(clusters).fingerprint_ != model.fingerprint_


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        (-1, "hidden must be at least 0, got -1"),
        (2.5, "hidden must be a whole number, got 2.5"),
        (True, "hidden must be a whole number, got True"),
        (None, "hidden must be a whole number, got None"),
        (65_537, "hidden must be at most 65536 units, got 65537"),
    ],
)
def test_what_is_no_number_of_units_is_refused(
    hidden: Any, said: str, clusters: np.ndarray
) -> None:
    with pytest.raises(InvalidInput, match=said):
        quick(hidden=hidden).fit(clusters)


def test_presets_have_no_hidden_layer() -> None:
    with pytest.raises(InvalidInput, match="a preset takes no hidden"):
        SGH.paper(16, hidden=8)


def test_a_collection_holds_codes_of_a_hidden_layer(clusters: np.ndarray, tmp_path: Path) -> None:
    model = quick(neighbors=5).fit(clusters)
    with sghash.Collection.create(tmp_path / "shop", model) as shop:
        shop.add(clusters[:500])
        found = shop.search(clusters[:5], k=1)
    with sghash.Collection.open(tmp_path / "shop") as shop:
        again = shop.search(clusters[:5], k=1)
    np.testing.assert_array_equal(again.ids, found.ids)
