"""The options of `SGH`: what is legal, and what would have no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sghash.errors import InvalidInput
from sghash.models.sgh.losses.ranking import BATCH_WEIGHT_BITS
from sghash.models.sgh.paper.generative import CODINGS
from sghash.models.sgh.paper.gradients import ESTIMATORS
from sghash.models.sgh.recipe import FIELDS, check_recipe, recipe_of
from sghash.models.sgh.training.settings import Settings
from sghash.validation import (
    METRICS,
    check_callback,
    check_choice,
    check_count,
    check_flag,
    check_n_bits,
    check_number,
)

#: Most hidden units: with more, what one step holds of them would take gigabytes.
MAX_HIDDEN = 65_536
GOALS = tuple(BATCH_WEIGHT_BITS)
#: The goal that None stands for, and the rows that are looked at by default.
GOAL, MAX_ROWS = "balanced", 100_000
#: Weight of the divergence by default, from the first step to the last.
KL_WEIGHT = (1.0, 0.0)


def kl_weights(option: Any) -> float | tuple[float, float]:
    """Return `kl_weight` as a number or as (start, end)."""
    values = option if isinstance(option, (tuple, list)) else (option,)
    is_number = [isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in values]
    if len(values) > 2 or not values or not all(is_number) or not np.isfinite(values).all():
        raise InvalidInput(f"kl_weight must be a number or (start, end), got {option!r}")
    if min(values) < 0:
        raise InvalidInput(f"kl_weight must not be negative, got {option!r}")
    return float(values[0]) if len(values) == 1 else (float(values[0]), float(values[1]))


def kl_line(option: Any) -> tuple[float, float]:
    """Return `kl_weight` as (first, last), for models that take nothing else."""
    if not isinstance(option, (tuple, list)) or len(option) != 2:
        raise InvalidInput(f"kl_weight must be (first, last), got {option!r}")
    kl_weights(option)
    return float(option[0]), float(option[1])


def check_hidden(option: Any) -> int:
    """Return the option `hidden`, a number of units."""
    check_count(option, name="hidden", least=0)
    if option > MAX_HIDDEN:
        raise InvalidInput(f"hidden must be at most {MAX_HIDDEN} units, got {option}: use fewer")
    return int(option)


def settings_of(model: Any, *, online: bool = False, pairs: bool = False) -> Settings:
    """Check the options of `model` and return what they ask of a training.

    Refuses, in one sentence, what cannot be used and what would have no effect: in `partial_fit`
    if `online`, else in `fit`, with or without known `pairs`.
    """
    recipe = recipe_of(model.recipe)
    _check_own(model)
    check_recipe(recipe)
    settings = Settings(
        n_bits=int(model.n_bits),
        metric=model.metric,
        goal=model.goal or GOAL,
        neighbors=int(model.neighbors),
        hidden=int(model.hidden),
        supervised=bool(model.supervised),
        coding=model.coding,
        gradient=model.gradient,
        kl_weight=kl_weights(model.kl_weight),
        n_steps=None if model.n_steps is None else int(model.n_steps),
        batch_size=int(model.batch_size),
        learning_rate=model.learning_rate,
        max_rows=None if model.max_rows is None else int(model.max_rows),
        recipe=recipe,
    )
    _refuse_overruled(model, settings, online=online, pairs=pairs)
    return settings


def _check_own(model: Any) -> None:
    """Refuse the first option outside the recipe that cannot be used."""
    check_n_bits(model.n_bits)
    check_choice(model.metric, METRICS, name="metric")
    check_choice(model.coding, CODINGS, name="coding")
    if model.goal is not None:
        check_choice(model.goal, GOALS, name="goal")
    if model.gradient is not None:
        check_choice(model.gradient, ESTIMATORS, name="gradient")
    check_count(model.batch_size, name="batch_size")
    check_count(model.n_steps, name="n_steps", or_none=True)
    check_count(model.max_rows, name="max_rows", or_none=True)
    check_count(model.neighbors, name="neighbors", least=0)
    check_hidden(model.hidden)
    if model.learning_rate is not None:
        check_number(model.learning_rate, name="learning_rate", above=0)
    check_flag(model.supervised, name="supervised")
    check_callback(model.callback)


class Asked(NamedTuple):
    """All options as they were given, and what follows from them."""

    settings: Settings
    ranked: bool
    schedule: str
    online: bool
    pairs: bool


class Need(NamedTuple):
    """What a given option needs in order to have an effect, and why, with what to do about it."""

    option: str
    is_given: Callable[[Any], bool]
    holds: Callable[[Asked], bool]
    remedy: str


def _is_set(value: Any) -> bool:
    return value is not None


_ALONE = "goal='reconstruction' without neighbors"
_STEP = "only schedule='step' decays so: use it, or leave {0} out"
_STOPS = "it belongs to early stopping: give a patience, or leave {0} out"
_NEIGHBORS_ALONE = (
    "hidden beside neighbors trains without the description length: leave {0} out, or use "
    "refit=False"
)
_OWN_UNITS = f"a ranking loss is trained in units of its own: use {_ALONE}, or leave {{0}} out"

#: Every option that another one can overrule.
NEEDS: tuple[Need, ...] = (
    Need("goal", _is_set, lambda a: not a.settings.neighbors,
         "neighbors decide what is trained: leave goal out, or use neighbors=0"),
    Need("kl_weight", lambda v: kl_weights(v) != KL_WEIGHT,
         lambda a: a.settings.describes or a.online, _NEIGHBORS_ALONE.format("kl_weight")),
    Need("gradient", _is_set,
         lambda a: a.settings.describes or a.settings.supervised or a.pairs or a.online,
         _NEIGHBORS_ALONE.format("gradient")),
    Need("max_rows", lambda v: v not in (None, MAX_ROWS), lambda a: a.ranked or a.online,
         f"{_ALONE} reads all vectors batch by batch: leave max_rows out, or give fewer vectors"),
    Need("pair_loss", _is_set, lambda a: a.ranked or a.settings.supervised or a.online,
         "it is for a ranking loss or supervised=True: ask for one, or leave pair_loss out"),
    Need("pair_weight", _is_set,
         lambda a: a.ranked or a.settings.supervised or a.pairs or a.online,
         "it weighs a ranking loss, labels or pairs: ask for one, or leave pair_weight out"),
    Need("n_passes", _is_set, lambda a: a.settings.n_steps is None,
         "n_steps is given as well: give one of the two"),
    Need("n_passes", _is_set, lambda a: not a.online,
         "partial_fit makes one pass over each piece: give n_steps, the steps of all pieces"),
    Need("sampling", _is_set, lambda a: not a.ranked or a.online,
         f"a ranking loss draws its batches itself: use {_ALONE}, or leave sampling out"),
    Need("decay", _is_set, lambda a: a.schedule == "step", _STEP.format("decay")),
    Need("decay_every", _is_set, lambda a: a.schedule == "step", _STEP.format("decay_every")),
    Need("patience", _is_set, lambda a: not a.online,
         "partial_fit takes every step of a piece: leave patience out"),
    Need("validation_fraction", _is_set, lambda a: a.settings.recipe.patience is not None,
         _STOPS.format("validation_fraction")),
    Need("tol", _is_set, lambda a: a.settings.recipe.patience is not None, _STOPS.format("tol")),
    Need("iterate", lambda v: v != "last", lambda a: a.settings.recipe.patience is None,
         "its step is drawn beforehand, and patience may stop earlier: leave one of them out"),
    Need("iterate", lambda v: v != "last", lambda a: not a.online,
         "partial_fit goes on from the last iterate: use iterate='last'"),
    Need("smoothness", _is_set, lambda a: a.settings.recipe.iterate == "theorem1",
         "it is the constant of Theorem 1: use iterate='theorem1', or leave smoothness out"),
    Need("decoder_scale", _is_set, lambda a: not a.ranked or a.online,
         _OWN_UNITS.format("decoder_scale")),
    Need("standardize", lambda v: not v, lambda a: not a.ranked or a.online,
         _OWN_UNITS.format("standardize")),
)  # fmt: skip


def _refuse_overruled(model: Any, settings: Settings, *, online: bool, pairs: bool) -> None:
    ranked = settings.asks_for_ranking
    schedule = settings.schedule_kind(ranked=ranked and not online)
    asked = Asked(settings, ranked, schedule, online, pairs)
    for need in NEEDS:
        value = getattr(settings.recipe if need.option in FIELDS else model, need.option)
        if need.is_given(value) and not need.holds(asked):
            raise InvalidInput(f"{need.option}={value!r} would have no effect, since {need.remedy}")
