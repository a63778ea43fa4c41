"""`Recipe`: scikit-learn's contract for options of options, without ever changing."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from sghash import SGH, Recipe
from sghash.errors import InvalidInput
from sghash.models.sgh.recipe import FIELDS


@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_scikit_learns_checks(coding: str) -> None:
    model = SGH(n_bits=8, n_steps=40, coding=coding, recipe=Recipe(schedule="cosine"))
    check_estimator(model, on_skip=None)


@pytest.mark.slow
def test_scikit_learns_checks_with_default_options() -> None:
    check_estimator(SGH(), on_skip=None)


def test_the_fields_of_a_recipe_are_options_of_the_model() -> None:
    for model in (SGH(), SGH(recipe=Recipe())):
        assert {f"recipe__{name}" for name in FIELDS} < set(model.get_params())
        assert model.get_params()["recipe__schedule"] is None
        assert set(model.get_params(deep=False)) == set(SGH._get_param_names())
        changed = model.set_params(recipe__schedule="cosine", n_bits=7)
        assert changed is model and model.n_bits == 7
        assert model.recipe == Recipe(schedule="cosine")
    assert SGH(recipe=Recipe(init="pca")).get_params()["recipe__init"] == "pca"


def test_a_shared_recipe_never_changes() -> None:
    shared = Recipe(init="pca")
    first, second = SGH(recipe=shared), SGH(recipe=shared)
    first.set_params(recipe__init="random", recipe__refit=False)
    assert first.recipe == Recipe(init="random", refit=False)
    assert second.recipe is shared and shared == Recipe(init="pca")
    assert shared.set_params(schedule="step") == Recipe(init="pca", schedule="step") != shared
    with pytest.raises(dataclasses.FrozenInstanceError):
        shared.init = "itq"  # type: ignore[misc]
    again = first.set_params(recipe=shared, recipe__schedule="sqrt")
    assert again.recipe == Recipe(init="pca", schedule="sqrt") and shared.schedule is None


def test_copies_are_equal() -> None:
    model = SGH(9, recipe=Recipe(init="pca", terms={"weight_decay": 0.1}), goal="hamming")
    for twin in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.get_params(deep=False) == model.get_params(deep=False)
        assert twin.recipe == model.recipe
    assert clone(SGH()).recipe is None


def test_wrong_names_and_wrong_recipes_are_refused_before_anything_changes() -> None:
    model = SGH(9)
    for wrong in ({"recipe__nope": 1}, {"recipe": "paper", "recipe__init": "pca"}, {"nope": 1}):
        with pytest.raises(ValueError, match=r"nope|recipe must be None or a Recipe"):
            model.set_params(n_bits=5, **wrong)
        assert model.recipe is None
    with pytest.raises(InvalidInput, match="a recipe has no n_bits: it has pair_loss, "):
        Recipe().set_params(n_bits=4)
    with pytest.raises(InvalidInput, match="schedule is a field of the recipe: set recipe__sched"):
        model.set_params(n_bits=7, schedule="cosine")
    assert model.n_bits != 7
    with pytest.raises(TypeError, match="nope"):
        Recipe(nope=1)  # type: ignore[call-arg]


def test_what_is_shown_is_what_was_changed() -> None:
    assert repr(SGH()) == "SGH()" and repr(Recipe()) == "Recipe()"
    model = SGH(32, recipe=Recipe(schedule="cosine", refit=False))
    assert repr(model) == "SGH(n_bits=32, recipe=Recipe(schedule='cosine', refit=False))"


def test_grids_reach_into_a_recipe_through_a_pipeline(clusters: np.ndarray) -> None:
    pipe = make_pipeline(SGH(8, n_steps=20, random_state=0))
    grid = ParameterGrid({"sgh__recipe__init": ["itq", "pca"], "sgh__recipe__refit": [True, False]})
    found = {clone(pipe).set_params(**chosen).fit(clusters)[-1].fingerprint_ for chosen in grid}
    assert len(found) == 4 and pipe[-1].recipe is None
