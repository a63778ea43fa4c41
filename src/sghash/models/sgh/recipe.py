"""The options of `SGH`: what is legal, said once, and what training makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sghash.errors import InvalidInput
from sghash.models.sgh.losses.ranking import (
    BATCH_WEIGHT_BITS,
    BATCH_WEIGHTS,
    PAIR_LOSSES,
    PAIR_WEIGHT_BITS,
)
from sghash.models.sgh.losses.terms import TERMS, Term
from sghash.models.sgh.paper.generative import CODINGS
from sghash.models.sgh.paper.gradients import ESTIMATORS
from sghash.models.sgh.training.batches import SAMPLING
from sghash.models.sgh.training.optimizer import ITERATES, OPTIMIZERS, SCHEDULES, Schedule
from sghash.models.sgh.training.start import STARTS
from sghash.validation import METRICS, check_choice, check_count, check_n_bits, check_number

#: Most steps that are taken unasked.
MAX_STEPS = 4000
#: Steps beside a ranking loss: at most with the nearest vectors of the batch; with neighbours.
MAX_RANKED_STEPS, NEIGHBOR_STEPS = 2000, 1500
GOALS = tuple(BATCH_WEIGHT_BITS)

#: The paper's Algorithm 1 with the constants it states; the number of steps is the script's.
PAPER: dict[str, Any] = {
    "goal": "reconstruction",
    "gradient": "approximate",
    "coding": "binary",
    "kl_weight": 1.0,
    "init": "random",
    "optimizer": "adam",
    "schedule": "step",
    "learning_rate": 0.01,
    "batch_size": 500,
    "n_steps": 5000,
    "sampling": "uniform",
    "refit": False,
}
#: What the authors' released script does; its loss is a sum over the batch, ours a mean.
AUTHORS_SCRIPT: dict[str, Any] = {
    "goal": "reconstruction",
    "gradient": "straight-through",
    "coding": "binary",
    "kl_weight": 0.0,
    "noise": 1.0,
    "init": "script",
    "optimizer": "adam",
    "schedule": "constant",
    "learning_rate": 0.01,
    "batch_size": 500,
    "n_steps": 5000,
    "sampling": "uniform",
    "refit": False,
    "terms": {"confidence": 1e-3, "weight_decay": 1e-3 / 500},
    "decoder_scale": "variance",
    "standardize": False,
}
#: What a caller may choose beside a preset without changing what it stands for.
FREE_OPTIONS = (
    "metric",
    "n_steps",
    "n_passes",
    "report_every",
    "patience",
    "validation_fraction",
    "tol",
    "random_state",
    "callback",
)

_CHOICES = {
    "coding": CODINGS,
    "metric": METRICS,
    "goal": GOALS,
    "pair_loss": tuple(PAIR_LOSSES),
    "init": STARTS,
    "optimizer": OPTIMIZERS,
    "sampling": SAMPLING,
    "iterate": ITERATES,
}
_COUNTS = ("batch_size",)
_OPTIONAL_COUNTS = ("n_steps", "decay_every", "report_every", "patience")
_POSITIVE = ("learning_rate", "decay", "smoothness")


def check_options(model: Any) -> None:
    """Refuse, in one sentence, the first option of `model` that cannot be used."""
    check_n_bits(model.n_bits)
    for name, choices in _CHOICES.items():
        check_choice(getattr(model, name), choices, name=name)
    for name in _COUNTS:
        check_count(getattr(model, name), name=name)
    for name in _OPTIONAL_COUNTS:
        check_count(getattr(model, name), name=name, or_none=True)
    for name in _POSITIVE:
        check_number(getattr(model, name), name=name, above=0)
    if model.n_passes is not None:
        check_number(model.n_passes, name="n_passes", above=0)
    if model.pair_weight is not None:
        check_number(model.pair_weight, name="pair_weight", above=0)
    if model.neighbors:
        check_count(model.neighbors, name="neighbors")
    if model.gradient is not None:
        check_choice(model.gradient, ESTIMATORS, name="gradient")
    if model.schedule is not None:
        check_choice(model.schedule, SCHEDULES, name="schedule")
    if model.noise != "learned":
        check_number(model.noise, name="noise", above=0)
    if model.decoder_scale not in (None, "variance"):
        raise InvalidInput(f"decoder_scale must be None or 'variance', got {model.decoder_scale!r}")
    if model.decoder_scale is not None and is_ranked(model):
        raise InvalidInput("decoder_scale is for goal='reconstruction' without neighbors")
    for name in ("validation_fraction", "tol"):
        check_number(getattr(model, name), name=name, least=0)
    if model.patience is not None and not 0 < model.validation_fraction < 1:
        raise InvalidInput(
            f"validation_fraction must lie between 0 and 1, got {model.validation_fraction!r}"
        )
    kl_weights(model.kl_weight)
    make_terms(model.terms)


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


def make_terms(option: Mapping[str, float] | Sequence[Term]) -> list[Term]:
    """Return extra loss terms: as given, or by name and weight from `TERMS`."""
    if not isinstance(option, Mapping):
        if not isinstance(option, Sequence) or not all(hasattr(t, "gradient") for t in option):
            raise InvalidInput(
                f"terms must map names to weights, or be a sequence of terms, got {option!r}"
            )
        return list(option)
    for name, weight in option.items():
        check_choice(name, tuple(TERMS), name="a name in terms")
        check_number(weight, name=f"the weight of {name} in terms")
    return [TERMS[name](weight) for name, weight in option.items()]


def is_ranked(model: Any) -> bool:
    """Whether a ranking loss stands beside the description length."""
    return bool(model.neighbors) or model.goal != "reconstruction"


def gradient_of(model: Any, *, ranked: bool) -> str:
    """Return the estimator: the exact one beside a ranking loss, which needs no draws."""
    return model.gradient or ("exact" if ranked else "approximate")


def pair_weight(model: Any) -> float:
    """Return the weight of the ranking loss."""
    if model.pair_weight is not None:
        return float(model.pair_weight)
    if model.neighbors:
        return PAIR_WEIGHT_BITS / float(model.n_bits)
    return float(np.clip(BATCH_WEIGHT_BITS[model.goal] / model.n_bits, *BATCH_WEIGHTS))


def budget_of(model: Any, steps_per_pass: float | None = None, *, ranked: bool = False) -> int:
    """Return the number of steps that the options ask for; longer codes need more of them."""
    if model.n_passes is not None and steps_per_pass is not None:
        return max(1, round(model.n_passes * steps_per_pass))
    if model.n_steps is not None:
        return int(model.n_steps)
    n_bits = int(model.n_bits)
    if not ranked:
        return min(MAX_STEPS, 500 + 45 * n_bits)
    return NEIGHBOR_STEPS if model.neighbors else min(MAX_RANKED_STEPS, 500 + 25 * n_bits)


def make_schedule(model: Any, n_steps: int, *, ranked: bool) -> Schedule:
    """Return the learning rates and divergence weights of a training of `n_steps`."""
    falling = "cosine" if ranked else "step"
    kind = model.schedule or ("sqrt" if model.optimizer == "sgd" else falling)
    every = model.decay_every or max(1, -(-n_steps // 2))
    weight = kl_weights(model.kl_weight)
    return Schedule(n_steps, kind, model.learning_rate, model.decay, every, weight)
