"""From settings and vectors to what a model learns: in one go, or piece by piece."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sghash.models.sgh.losses.ranking import PairBatches, Ranking, find_neighbors
from sghash.models.sgh.losses.terms import Term, Terms, make_terms
from sghash.models.sgh.training.batches import Batches, make_batches
from sghash.models.sgh.training.encoder import HIDDEN
from sghash.models.sgh.training.learned import Learned, Refitted, refit
from sghash.models.sgh.training.optimizer import Parameters, iterate_probabilities, make_optimizer
from sghash.models.sgh.training.scaling import SPREAD, PrincipalScaling, Scaling, Units
from sghash.models.sgh.training.settings import Plan, Settings
from sghash.models.sgh.training.start import START_ROWS, Start, hidden_start, make_start
from sghash.models.sgh.training.step import GaussianStep
from sghash.models.sgh.training.trainer import WATCHED_ROWS, Listener, Trainer, run
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
    arrays |= hidden_start(scaled, settings.hidden, settings.n_bits, rng)
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
    names = (*Start._fields, *HIDDEN, "decoder_scale")
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
            describes=settings.describes or not ranked,
        ),
        optimizer=make_optimizer(recipe.optimizer, parameters.flat.size),
        schedule=settings.schedule(n_steps, ranked=ranked),
        scaling=scaling,
        rng=rng,
        n_done=n_done,
        history=history,
    )


# Beside a ranking loss: the most bytes of rows that are held, of which the first are searched for
# axes and for neighbours.
RANKED_BYTES = 1 << 28


@dataclass
class Session:
    """A training that may go on with further pieces of vectors."""

    trainer: Trainer
    refitted: Refitted

    @property
    def learned(self) -> Learned:
        """What the model has learned so far."""
        parameters = self.refitted.parameters or self.trainer.parameters
        return Learned.of(parameters, self.trainer.scaling.outer)


class Data(NamedTuple):
    """Batches to learn from, others to measure on if any are held out, and the steps to take."""

    batches: Batches
    held_out: Batches | None
    n_steps: int


def fit(
    settings: Settings,
    vectors: Any,
    rng: np.random.Generator,
    listener: Listener,
    supervision: Sequence[Term] = (),
) -> Session:
    """Train from the start on vectors (an array or a source).

    `supervision` are the terms of labels and pairs.
    """
    recipe = settings.recipe
    batches, held_out = make_batches(
        vectors,
        batch_size=settings.batch_size,
        sampling=recipe.chosen("sampling"),
        held_out=recipe.chosen("validation_fraction") if recipe.patience else 0.0,
        rng=rng,
    )
    ranked = settings.asks_for_ranking and batches.n_rows > 1
    n_steps = settings.budget(batches.n_rows / batches.batch_size, ranked=ranked)
    data = Data(batches, held_out, n_steps)
    if ranked:
        trainer = train_ranked(settings, data, vectors.shape[1], rng, listener, supervision)
    else:
        trainer = train(settings, data, rng, listener, supervision)
    refitted = Refitted()
    if recipe.refit:
        refitted.fit(settings, trainer, batches, rng)
    return Session(trainer, refitted)


def train(
    settings: Settings,
    data: Data,
    rng: np.random.Generator,
    listener: Listener,
    supervision: Sequence[Term] = (),
) -> Trainer:
    """Take all steps from the chosen start, by the description length and what is supervised."""
    sample = data.batches.take(START_ROWS, rng)
    trainer = begin(settings, sample, data.n_steps, rng, supervision)
    watched = sample if data.held_out is None else data.held_out.take(WATCHED_ROWS, rng)
    keep = kept_step(settings, trainer, data.n_steps, rng)
    run(settings, trainer, data.batches, watched, data.n_steps, listener, keep=keep)
    if supervision:
        return settle(settings, trainer, trainer.parameters, data.n_steps, rng)
    return trainer


def kept_step(
    settings: Settings, trainer: Trainer, n_steps: int, rng: np.random.Generator
) -> int | None:
    """Return the step whose parameters are the result, if not the last."""
    recipe = settings.recipe
    if recipe.iterate == "last":
        return None
    rates = trainer.schedule.rates()
    chances = iterate_probabilities(rates, recipe.iterate, recipe.chosen("smoothness"))
    return int(rng.choice(n_steps, p=chances))


def ranked_rows(settings: Settings, n: int, width: int) -> int:
    """Return how many of `n` rows are looked at beside a ranking loss."""
    if settings.max_rows is None:
        return n
    return min(n, settings.max_rows, max(START_ROWS, RANKED_BYTES // (4 * width)))


def train_ranked(
    settings: Settings,
    data: Data,
    width: int,
    rng: np.random.Generator,
    listener: Listener,
    supervision: Sequence[Term] = (),
) -> Trainer:
    """Train beside a ranking loss, in principal coordinates of a sample; return it lifted."""
    n_rows = ranked_rows(settings, data.batches.n_rows, width)
    plan = settings.plan(n_rows, width, data.n_steps)
    rows = data.batches.take(plan.n_rows, rng)
    order = rng.permutation(len(rows))
    sample = rows[order[: plan.n_sample]]
    watched = sample if data.held_out is None else data.held_out.take(WATCHED_ROWS, rng)
    outer = scaling_of(settings, sample)
    units = PrincipalScaling.of(sample, outer, settings.n_bits, plan.n_axes, rng)
    vectors = units.apply(rows)[order]
    pairs = make_pairs(settings, plan, vectors, units.mean, rng)
    ranking = Ranking(
        n_bits=settings.n_bits,
        weight=settings.ranking_weight,
        pair_loss=settings.recipe.chosen("pair_loss"),
        n_pairs=plan.n_pairs,
    )
    start = make_start(
        settings.recipe.init, vectors[: plan.n_start], settings.n_bits, coding=settings.coding,
        rng=rng, logit_spread=SPREAD,
    )  # fmt: skip
    hidden = hidden_start(vectors[: plan.n_sample], settings.hidden, settings.n_bits, rng)
    arrays, n_steps = {**start._asdict(), **hidden}, plan.n_steps
    inner = make_trainer(settings, arrays, units, n_steps, rng, [ranking, *supervision])
    keep = kept_step(settings, inner, n_steps, rng)
    run(settings, inner, pairs, watched, n_steps, listener, keep=keep)
    trained = inner.parameters
    if not inner.step.describes:
        trained = refit(settings, inner, sample)
    return settle(settings, inner, units.lift(trained), n_steps, rng)


def make_pairs(
    settings: Settings, plan: Plan, vectors: Vectors, mean: Vectors, rng: np.random.Generator
) -> PairBatches:
    """Return batches with pairs of neighbours."""
    found = find_neighbors(
        vectors, plan.n_neighbors, settings.metric, mean,
        n_rows=plan.n_anchors, again=plan.again, rng=rng,
    )  # fmt: skip
    return PairBatches(vectors, found, n_pairs=plan.n_pairs)


class Past(NamedTuple):
    """What came before a piece: a session, or what a file says was learned in `n_done` steps."""

    session: Session | None
    learned: Learned
    n_done: int


def fit_piece(
    settings: Settings,
    vectors: Any,
    past: Past | None,
    listener: Listener,
    random_state: np.random.Generator,
) -> Session:
    """Take one pass over a piece of vectors, from the start if there is no `past`."""
    # A copy, so that a failure leaves the caller's as it was.
    session = None if past is None else copy.deepcopy(past.session)
    rng = random_state if session is None else session.trainer.rng
    batches, _ = make_batches(
        vectors,
        batch_size=settings.batch_size,
        sampling=settings.recipe.chosen("sampling"),
        held_out=0.0,
        rng=rng,
    )
    sample = batches.take(START_ROWS if session is None else WATCHED_ROWS, rng)
    if past is None:
        session = Session(begin(settings, sample, settings.budget(ranked=False), rng), Refitted())
    elif session is None:
        trainer = resume(settings, past.learned, past.n_done, sample, rng)
        session = Session(trainer, Refitted())
    # Adam moves as far for one vector as for a batch: small pieces take smaller steps, so that
    # what noise adds up to does not depend on the size of the pieces.
    factor = float(np.sqrt(batches.batch_size / settings.batch_size))
    n_steps = -(-batches.n_rows // batches.batch_size)
    run(settings, session.trainer, batches, sample, n_steps, listener, rate_factor=factor)
    if settings.recipe.refit:
        session.refitted.update(settings, session.trainer, batches)
        return session
    return Session(session.trainer, Refitted())
