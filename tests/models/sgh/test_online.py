"""`SGH.partial_fit`: pieces of vectors, one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sghash.models.sgh import SGH, Recipe


def quick(**options: Any) -> SGH:
    return SGH().set_params(**{"n_bits": 12, "n_steps": 120, "random_state": 0, **options})


def test_pieces_reach_the_quality_of_all(clusters: np.ndarray) -> None:
    whole = quick(n_steps=300).fit(clusters)
    online = quick(n_steps=300)
    for turn in range(50):
        start = 500 * (turn % 6)
        online.partial_fit(clusters[start : start + 500])
    for turn in range(42):  # pieces of other sizes, down to single vectors
        start = 71 * turn
        online.partial_fit(clusters[start : start + 71])
    assert online.steps_done_ == 50 + 42
    for _ in range(40):
        online.partial_fit(clusters)
    assert online.reconstruction_error(clusters) < 1.05 * whole.reconstruction_error(clusters)


@pytest.mark.slow
def test_pieces_of_real_data_reach_the_quality_of_all(data_folder: Path) -> None:
    with np.load(data_folder / "sift_photos_500k.npz") as data:
        vectors = data["base"][np.random.default_rng(0).permutation(500_000)[:60_000]]
    vectors, unseen = vectors[:50_000], vectors[50_000:]
    whole = SGH(32, recipe=Recipe(n_passes=10), random_state=0).fit(vectors)
    online = SGH(n_bits=32, n_steps=1000, random_state=0)
    for _ in range(10):
        for start in range(0, 50_000, 10_000):
            online.partial_fit(vectors[start : start + 10_000])
    assert online.steps_done_ == whole.steps_done_ == 1000
    assert online.reconstruction_error(unseen) < 1.01 * whole.reconstruction_error(unseen)


def test_online_learning_goes_on_after_fit_and_after_loading(
    clusters: np.ndarray, tmp_path: Path
) -> None:
    model = quick().fit(clusters[:300])
    before = model.reconstruction_error(clusters)
    model.save(tmp_path / "model")
    loaded = SGH.load(tmp_path / "model")
    for candidate in (model, loaded):
        for _ in range(30):
            candidate.partial_fit(clusters)
        assert candidate.reconstruction_error(clusters) < before
        assert candidate.steps_done_ == 120 + 30 * 6
    with pytest.raises(ValueError, match="expecting 20 features"):
        model.partial_fit(clusters[:, :3])


@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_single_vectors_do_no_harm(coding: str, clusters: np.ndarray) -> None:
    model = quick(coding=coding).fit(clusters)
    before = model.reconstruction_error(clusters)
    for i in range(30):
        model.partial_fit(clusters[i : i + 1])
    assert model.reconstruction_error(clusters) < 1.1 * before
    assert model.description_length(clusters).code.mean() < 12
    fresh = quick(coding=coding)
    for i in range(5):
        fresh.partial_fit(clusters[i : i + 1])
    assert np.isfinite(fresh.decode(fresh.encode(clusters))).all()


def test_a_decoder_that_is_not_refitted_any_more_follows_the_steps(clusters: np.ndarray) -> None:
    model = quick().fit(clusters)
    before = model.fingerprint_
    model.set_params(recipe__refit=False).partial_fit(clusters)
    assert model.fingerprint_ != before
    np.testing.assert_array_equal(
        model.prior_logits_, model._session.trainer.parameters["prior_logits"]
    )


def test_a_loaded_model_keeps_its_recipe_online(clusters: np.ndarray, tmp_path: Path) -> None:
    recipe = Recipe(decoder_scale="variance", refit=False)
    model = quick(goal="reconstruction", recipe=recipe).fit(clusters)
    assert "decoder_scale" in model._session.trainer.parameters
    model.save(tmp_path / "model")
    loaded = SGH.load(tmp_path / "model").partial_fit(clusters)
    assert "decoder_scale" in loaded._session.trainer.parameters
    assert loaded.reconstruction_error(clusters) < 1.1 * model.reconstruction_error(clusters)
