"""Trainers at their first step: at the chosen start, or at what a model has learned before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sghash.models.sgh.losses.ranking import Ranking
from sghash.models.sgh.losses.terms import Term, Terms, make_terms
from sghash.models.sgh.training.learned import Learned
from sghash.models.sgh.training.optimizer import make_optimizer
from sghash.models.sgh.training.parameters import Parameters
from sghash.models.sgh.training.scaling import Scaling, Units
from sghash.models.sgh.training.settings import Settings
from sghash.models.sgh.training.start import Start, make_start
from sghash.models.sgh.training.step import GaussianStep
from sghash.models.sgh.training.trainer import Trainer
from sghash.validation import Vectors


def scaling_of(settings: Settings, sample: Vectors) -> Scaling:
    """Return the trainer's units for raw vectors like `sample` (n, d)."""
    return Scaling.of(
        sample, cosine=settings.metric == "cosine", standardize=settings.recipe.standardize
    )


def begin(
    settings: Settings,
    sample: Vectors,
    n_steps: int,
    rng: np.random.Generator,
    supervision: Sequence[Term] = (),
) -> Trainer:
    """Return a trainer at the chosen start for raw vectors like `sample` (n, d)."""
    scaling = scaling_of(settings, sample)
    scaled = scaling.apply(sample)
    start = make_start(
        settings.recipe.init, scaled, settings.n_bits, coding=settings.coding, rng=rng
    )
    arrays: dict[str, Any] = start._asdict()
    if settings.recipe.decoder_scale == "variance":
        arrays["decoder_scale"] = scaled.var(axis=0, dtype=np.float64).clip(min=1e-7)
    return make_trainer(settings, arrays, scaling, n_steps, rng, supervision)


def resume(
    settings: Settings, learned: Learned, n_done: int, sample: Vectors, rng: np.random.Generator
) -> Trainer:
    """Return a trainer at what a model loaded from a file has learned in `n_done` steps."""
    scaling = scaling_of(settings, sample)
    arrays = learned.in_units(scaling)
    if settings.recipe.decoder_scale == "variance":
        arrays["decoder_scale"] = np.ones_like(learned.decoder_bias)  # as after a refit
    n_steps = settings.budget(ranked=False)
    return make_trainer(settings, arrays, scaling, n_steps, rng, n_done=n_done)


def settle(
    settings: Settings,
    trained: Trainer,
    parameters: Parameters,
    n_steps: int,
    rng: np.random.Generator,
) -> Trainer:
    """Return a trainer that goes on from `parameters` by the description length alone.

    It holds nothing of the vectors that pairs and labels were about.
    """
    names = (*Start._fields, "decoder_scale")
    arrays = {name: value for name, value in parameters.items() if name in names}
    return make_trainer(
        settings, arrays, trained.scaling.outer, n_steps, rng,
        n_done=trained.n_done, history=trained.history,
    )  # fmt: skip


def make_trainer(
    settings: Settings,
    start: Mapping[str, Any],
    scaling: Units,
    n_steps: int,
    rng: np.random.Generator,
    more_terms: Sequence[Term] = (),
    *,
    n_done: int = 0,
    history: dict[str, list[float]] | None = None,
) -> Trainer:
    """Return a trainer with parameters at `start`, for a budget of `n_steps`."""
    arrays, recipe = dict(start), settings.recipe
    ranked = any(isinstance(term, Ranking) for term in more_terms)
    terms = Terms([*make_terms(recipe.terms), *more_terms], scaling)
    learn_noise = recipe.noise == "learned"
    if not learn_noise:
        arrays["log_noise"] = np.log(float(recipe.noise) / scaling.unit**2)
    parameters = Parameters({**arrays, **terms.start_parameters()})
    return Trainer(
        parameters,
        step=GaussianStep(
            estimator=settings.estimator(ranked=ranked),
            coding=settings.coding,
            learn_noise=learn_noise,
            terms=terms,
        ),
        optimizer=make_optimizer(recipe.optimizer, parameters.flat.size),
        schedule=settings.schedule(n_steps, ranked=ranked),
        scaling=scaling,
        rng=rng,
        n_done=n_done,
        history=history,
    )
