"""The options of `SGH` in files: what is written today, and what earlier versions wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sghash.models.sgh.recipe import FIELDS, PREFIX, Recipe, recipe_fields

#: Until version 0.1 the fields of the recipe were options, and these had values by default where
#: None now leaves them open: beside other options they would be refused.
_OPENED = {
    "goal": "balanced",
    "pair_loss": "softmax",
    "decay": 0.5,
    "sampling": "passes",
    "validation_fraction": 0.1,
    "tol": 1e-3,
    "smoothness": 1.0,
}


def to_save(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as files hold them: the fields of the recipe beside them, by `PREFIX`."""
    recipe = options["recipe"]
    if not isinstance(recipe, Recipe):
        return dict(options)
    fields = {f"{PREFIX}{name}": value for name, value in recipe.get_params().items()}
    return {**{k: v for k, v in options.items() if k != "recipe"}, **fields}


def from_saved(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a file holds; `TypeError` for what no version has written."""
    fields = recipe_fields(saved)
    if any(name in saved for name in FIELDS):
        saved = {k: None if k in _OPENED and _OPENED[k] == v else v for k, v in saved.items()}
        fields = {name: value for name, value in saved.items() if name in FIELDS}
        if saved.get("neighbors"):  # which decided alone, whatever the goal
            saved["goal"] = None
    options = {k: v for k, v in saved.items() if k not in FIELDS and not k.startswith(PREFIX)}
    if not fields:
        return options
    # JSON knows no tuples.
    fields["terms"] = fields.get("terms") or ()
    return {**options, "recipe": Recipe(**fields)}
