"""Presets of `SGH`: options and a recipe under one name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sghash.errors import InvalidInput
from sghash.models.sgh.recipe import AUTHORS_SCRIPT, PAPER, recipe_fields

#: Preset -> the options that it fixes; the paper names no number of steps, this is the script's.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "goal": "reconstruction",
        "gradient": "approximate",
        "coding": "binary",
        "kl_weight": 1.0,
        "learning_rate": 0.01,
        "batch_size": 500,
        "n_steps": 5000,
        "recipe": PAPER,
    },
    "authors_script": {
        "goal": "reconstruction",
        "gradient": "straight-through",
        "coding": "binary",
        "kl_weight": 0.0,
        "learning_rate": 0.01,
        "batch_size": 500,
        "n_steps": 5000,
        "recipe": AUTHORS_SCRIPT,
    },
}
#: What a caller may choose beside a preset without changing what it stands for.
FREE_OPTIONS = ("metric", "n_steps", "random_state", "callback")
FREE_FIELDS = ("n_passes", "report_every", "patience", "validation_fraction", "tol")


def preset_options(preset: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a preset, with what the caller may add to it."""
    free = (*FREE_OPTIONS, *(f"recipe__{name}" for name in FREE_FIELDS))
    mixed = sorted(set(options) - set(free))
    if mixed:
        raise InvalidInput(
            f"a preset fixes {', '.join(mixed)}: build SGH(...) with all options yourself"
        )
    fixed, changes = dict(PRESETS[preset]), recipe_fields(options)
    if changes.get("n_passes") is not None:
        fixed["n_steps"] = None
    fixed["recipe"] = fixed["recipe"].set_params(**changes)
    return {**fixed, **{name: v for name, v in options.items() if name in FREE_OPTIONS}}
