"""`SGH` in files: learned numbers and options, of this version and of earlier ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sghash
from sghash.errors import BadFile
from sghash.models.sgh import SGH, Recipe
from sghash.models.sgh.losses.terms import WeightDecay

GOLDEN = Path(__file__).parents[2] / "golden"


def quick(**options: Any) -> SGH:
    return SGH().set_params(**{"n_bits": 12, "n_steps": 120, "random_state": 0, **options})


def test_files(clusters: np.ndarray, tmp_path: Path) -> None:
    model = quick(kl_weight=(0.5, 0.0), recipe__terms={"weight_decay": 1e-4}).fit(clusters)
    model.save(tmp_path / "model")
    loaded = sghash.load_model(tmp_path / "model")
    assert isinstance(loaded, SGH) and loaded.fingerprint_ == model.fingerprint_
    np.testing.assert_array_equal(loaded.encode(clusters), model.encode(clusters))
    assert loaded.history_ == model.history_
    assert loaded.fit(clusters).fingerprint_ == model.fingerprint_  # the options came along


@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_files_with_numbers_that_are_not_finite_are_refused(
    number: str, clusters: np.ndarray, tmp_path: Path
) -> None:
    quick(n_steps=5).fit(clusters).save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    text = re.sub(r'("noise_variance_": )[^,\n]+', rf"\g<1>{number}", path.read_text())
    path.write_text(text)
    with pytest.raises(BadFile, match="noise_variance_ is not a finite number"):
        sghash.load_model(tmp_path / "model")


def test_a_recipe_is_saved_with_the_model(clusters: np.ndarray, tmp_path: Path) -> None:
    recipe = Recipe(init="pca", schedule="step", decay=0.3, terms={"weight_decay": 1e-4})
    model = quick(recipe=recipe, n_steps=10).fit(clusters)
    model.save(tmp_path / "model")
    loaded = sghash.load_model(tmp_path / "model")
    assert loaded.recipe == recipe
    assert loaded.get_params(deep=False) == model.get_params(deep=False)
    assert repr(loaded) == repr(model)
    plain = quick(n_steps=5).fit(clusters)
    plain.save(tmp_path / "plain")
    assert sghash.load_model(tmp_path / "plain").recipe is None


def test_a_term_that_no_file_can_hold_leaves_the_rest_of_the_recipe(
    clusters: np.ndarray, tmp_path: Path
) -> None:
    recipe = Recipe(init="pca", terms=[WeightDecay(0.1)])
    quick(recipe=recipe, n_steps=5).fit(clusters).save(tmp_path / "model")
    assert sghash.load_model(tmp_path / "model").recipe == Recipe(init="pca")


@pytest.mark.parametrize(
    "options", [{"recipe__nope": 1}, {"recipe__init": "pca", "n_bit": 3}, {"decay_rate": 0.5}]
)
def test_options_of_no_version_are_refused(
    options: dict[str, Any], clusters: np.ndarray, tmp_path: Path
) -> None:
    quick(n_steps=5).fit(clusters).save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "options": {**config["options"], **options}}))
    with pytest.raises(BadFile, match="has options that SGH does not know"):
        sghash.load_model(tmp_path / "model")


def numbers(n: int) -> np.ndarray:
    return ((np.arange(n * 6).reshape(n, 6) * 37) % 11 - 5).astype(np.float32)


def test_a_model_of_the_version_without_recipes_stays_readable(tmp_path: Path) -> None:
    """Written when the fields of a recipe were options of `SGH`, 33 in all."""
    model = SGH.load(GOLDEN / "sgh-flat-options")
    assert model.encode(numbers(11)).tobytes().hex() == "93aec078650b97c0c46265"
    assert model.recipe == Recipe(
        init="pca", schedule="step", decay=0.25, terms={"weight_decay": 1e-4}
    )
    assert (model.goal, model.neighbors, model.n_steps) == (None, 3, 40)
    assert model.kl_weight == (0.5, 0.0) and model.random_state == 3
    model.save(tmp_path / "again")
    again = SGH.load(tmp_path / "again")
    assert again.get_params() == model.get_params() and again.fingerprint_ == model.fingerprint_
    # What was left alone then is not refused now.
    assert again.fit(numbers(50)).steps_done_ == 40
