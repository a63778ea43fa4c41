"""From options and vectors to learned attributes."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sghash.blocks import blocks_of
from sghash.models.sgh.losses.ranking import PairBatches, Ranking, find_neighbors
from sghash.models.sgh.losses.terms import Term, Terms
from sghash.models.sgh.paper.encoder import code_moments, divergence, sigmoid
from sghash.models.sgh.paper.generative import GaussianDecoder, code_values
from sghash.models.sgh.recipe import (
    budget_of,
    gradient_of,
    is_ranked,
    make_schedule,
    make_terms,
    pair_weight,
)
from sghash.models.sgh.training.batches import Batches, Reservoir, make_batches
from sghash.models.sgh.training.optimizer import iterate_probabilities, make_optimizer
from sghash.models.sgh.training.parameters import Parameters
from sghash.models.sgh.training.principal import SPREAD, PrincipalScaling
from sghash.models.sgh.training.scaling import Scaling, Units
from sghash.models.sgh.training.start import NOISE_FLOOR, START_ROWS, Start, make_start
from sghash.models.sgh.training.step import GaussianStep, effective_weights
from sghash.models.sgh.training.trainer import Patience, Trainer
from sghash.models.shared.least_squares import LeastSquares
from sghash.models.shared.seeds import generator_of
from sghash.validation import Vectors

if TYPE_CHECKING:
    from sghash.models.sgh.estimator import SGH

WATCHED_ROWS = 1000
# Beside a ranking loss: rows that are trained on, of which the first are searched for neighbours.
RANKED_ROWS = 100_000
RANKED_BYTES = 1 << 28
AXES_ROWS = 50_000
ANCHORS = 30_000
REFIT_ROWS = 65_536
REFIT_BYTES = 1 << 28
REFIT_BLOCK = 8192
# Online: rows kept from all pieces, and steps between refits.
REFIT_RESERVOIR = 16_384
REFIT_STEPS = 10
# Rows that the decoder before a refit counts for: pieces may be single vectors.
REFIT_PRIOR_ROWS = 1024
# Worse by this factor than both the start and no code at all: that is divergence, not bad luck.
DIVERGED_FACTOR = 2.0
# Beside a ranking loss the codes move first and the decoder follows: it may be far off for a while.
RANKED_DIVERGED_FACTOR = 20.0


def fit(model: SGH, vectors: Any, known: Sequence[Term] = ()) -> Trainer:
    """Train from the start on vectors (an array or a source) and set the learned attributes.

    `known` are the terms of what the caller knows of pairs and labels.
    """
    rng = generator_of(model.random_state)
    held_out = model.validation_fraction if model.patience else 0.0
    batches, apart = make_batches(
        vectors, batch_size=model.batch_size, sampling=model.sampling, held_out=held_out, rng=rng
    )
    ranked = is_ranked(model) and batches.n_rows > 1
    n_steps = budget_of(model, batches.n_rows / batches.batch_size, ranked=ranked)
    trainer = (train_ranked if ranked else train)(model, batches, apart, n_steps, rng, known)
    final = trainer.parameters
    if model.refit:
        width = final["decoder_bias"].size
        n_rows = min(REFIT_ROWS, max(1, REFIT_BYTES // (4 * width)))
        final = trainer.refitted = refit(model, trainer, batches.take(n_rows, rng))
    publish(model, trainer, final)
    return trainer


def train(
    model: SGH,
    batches: Batches,
    apart: Batches | None,
    n_steps: int,
    rng: np.random.Generator,
    known: Sequence[Term] = (),
) -> Trainer:
    """Take `n_steps` steps from the chosen start; reports are measured on `apart`, if given."""
    sample = batches.take(START_ROWS, rng)
    trainer = begin(model, sample, n_steps, rng, known)
    watched = sample if apart is None else apart.take(WATCHED_ROWS, rng)
    run(model, trainer, batches, watched, n_steps, keep=kept_step(model, trainer, n_steps, rng))
    return _settled(model, trainer, trainer.parameters, n_steps, rng) if known else trainer


def kept_step(model: SGH, trainer: Trainer, n_steps: int, rng: np.random.Generator) -> int | None:
    """Return the step whose parameters are the result, if not the last."""
    if model.iterate == "last":
        return None
    chances = iterate_probabilities(trainer.schedule.rates(), model.iterate, model.smoothness)
    return int(rng.choice(n_steps, p=chances))


def train_ranked(
    model: SGH,
    batches: Batches,
    apart: Batches | None,
    n_steps: int,
    rng: np.random.Generator,
    known: Sequence[Term] = (),
) -> Trainer:
    """Train beside a ranking loss, in principal coordinates of a sample; return it lifted."""
    n_rows = min(RANKED_ROWS, max(START_ROWS, RANKED_BYTES // (4 * model.n_features_in_)))
    rows = batches.take(n_rows, rng)
    rows = rows[rng.permutation(len(rows))]
    watched = rows if apart is None else apart.take(WATCHED_ROWS, rng)
    outer = Scaling.of(
        rows[:START_ROWS], cosine=model.metric == "cosine", standardize=model.standardize
    )
    units = PrincipalScaling.of(rows[:AXES_ROWS], outer, model.n_bits, rng)
    vectors = units.apply(rows)
    pairs = make_pairs(model, vectors, units.mean)
    ranking = Ranking(
        n_bits=model.n_bits,
        weight=pair_weight(model),
        pair_loss=model.pair_loss,
        n_pairs=pairs.n_pairs,
        metric=model.metric,
        mean=units.mean,
    )
    start = make_start(
        model.init, vectors[:START_ROWS], model.n_bits, coding=model.coding, rng=rng,
        logit_spread=SPREAD,
    )  # fmt: skip
    inner = _trainer(model, start._asdict(), units, n_steps, rng, [ranking, *known])
    run(model, inner, pairs, watched, n_steps, keep=kept_step(model, inner, n_steps, rng))
    return _settled(model, inner, units.lift(inner.parameters), n_steps, rng)


def _settled(
    model: SGH,
    trained: Trainer,
    parameters: Parameters,
    n_steps: int,
    rng: np.random.Generator,
) -> Trainer:
    """Return a trainer that goes on from `parameters` by the description length alone.

    It holds nothing of the vectors that pairs and labels were known of.
    """
    names = (*Start._fields, "decoder_scale")
    arrays = {name: value for name, value in parameters.items() if name in names}
    trainer = _trainer(model, arrays, trained.scaling.outer, n_steps, rng)
    trainer.history, trainer.n_done = trained.history, trained.n_done
    return trainer


def make_pairs(model: SGH, vectors: Vectors, mean: Vectors) -> PairBatches:
    """Return batches with pairs of neighbours, or without where the batch itself shall tell."""
    size = min(model.batch_size, len(vectors))
    if not model.neighbors:
        return PairBatches(vectors, np.empty((0, 1), np.int64), n_plain=size, n_pairs=0)
    found = find_neighbors(vectors[:ANCHORS], model.neighbors, model.metric, mean)
    return PairBatches(vectors, found, n_plain=size // 2, n_pairs=size)


def partial_fit(model: SGH, vectors: Any, *, is_first: bool) -> Trainer:
    """Take one pass over a piece of vectors, going on from what `model` learned before."""
    # A copy, so that a failure leaves the model's own as it was.
    trainer = None if is_first else copy.deepcopy(getattr(model, "_trainer", None))
    rng = generator_of(model.random_state) if trainer is None else trainer.rng
    batches, _ = make_batches(
        vectors, batch_size=model.batch_size, sampling=model.sampling, held_out=0.0, rng=rng
    )
    sample = batches.take(START_ROWS if trainer is None else WATCHED_ROWS, rng)
    if is_first:
        trainer = begin(model, sample, budget_of(model), rng)
    elif trainer is None:
        trainer = resume(model, sample, rng)
    # Adam moves as far for one vector as for a batch: small pieces take smaller steps, so that
    # what noise adds up to does not depend on the size of the pieces.
    trainer.rate_factor = float(np.sqrt(batches.batch_size / model.batch_size))
    run(model, trainer, batches, sample, -(-batches.n_rows // batches.batch_size))
    if model.refit:
        refit_online(model, trainer, batches)
    publish(model, trainer, trainer.refitted or trainer.parameters)
    return trainer


def refit_online(model: SGH, trainer: Trainer, batches: Batches) -> None:
    """Keep a sample of all pieces, and now and then refit the decoder on it."""
    width = trainer.parameters["decoder_bias"].size
    if trainer.reservoir is None:
        trainer.reservoir = Reservoir(min(REFIT_RESERVOIR, REFIT_BYTES // (4 * width)), width)
    trainer.reservoir.add(batches, trainer.rng)
    if trainer.refitted is None or trainer.n_done >= trainer.refit_at:
        before = trainer.refitted or trainer.parameters
        trainer.refitted = refit(model, trainer, trainer.reservoir.rows, near=before)
        trainer.refit_at = trainer.n_done + REFIT_STEPS
    else:
        # Few steps hardly change what the decoder should be.
        for name in ("encoder_weights", "encoder_bias"):
            trainer.refitted[name][...] = trainer.parameters[name]


def begin(
    model: SGH,
    sample: Vectors,
    n_steps: int,
    rng: np.random.Generator,
    known: Sequence[Term] = (),
) -> Trainer:
    """Return a trainer at the chosen start."""
    scaling = Scaling.of(sample, cosine=model.metric == "cosine", standardize=model.standardize)
    scaled = scaling.apply(sample)
    start = make_start(model.init, scaled, model.n_bits, coding=model.coding, rng=rng)
    arrays: dict[str, Any] = start._asdict()
    if model.decoder_scale == "variance":
        arrays["decoder_scale"] = scaled.var(axis=0, dtype=np.float64).clip(min=1e-7)
    return _trainer(model, arrays, scaling, n_steps, rng, known)


def resume(model: SGH, sample: Vectors, rng: np.random.Generator) -> Trainer:
    """Return a trainer at the learned attributes of a model that was loaded from a file."""
    scaling = Scaling.of(sample, cosine=model.metric == "cosine", standardize=model.standardize)
    unit, shift = scaling.unit, scaling.shift.astype(np.float64)
    arrays = {
        "encoder_weights": model.encoder_weights_ * unit,
        "encoder_bias": model.encoder_bias_ + shift @ model.encoder_weights_,
        "decoder_weights": model.decoder_weights_ / unit,
        "decoder_bias": (model.decoder_bias_ - shift) / unit,
        "log_noise": np.log(model.noise_variance_ / unit**2),
        "prior_logits": model.prior_logits_,
    }
    trainer = _trainer(model, arrays, scaling, budget_of(model), rng)
    trainer.n_done = model.steps_done_
    return trainer


def _trainer(
    model: SGH,
    start: Mapping[str, Any],
    scaling: Units,
    n_steps: int,
    rng: np.random.Generator,
    more: Sequence[Term] = (),
) -> Trainer:
    arrays = dict(start)
    ranked = any(isinstance(term, Ranking) for term in more)
    terms = Terms([*make_terms(model.terms), *more], scaling)
    learn_noise = model.noise == "learned"
    if not learn_noise:
        arrays["log_noise"] = np.log(float(model.noise) / scaling.unit**2)
    parameters = Parameters({**arrays, **terms.start_parameters()})
    return Trainer(
        parameters,
        step=GaussianStep(
            estimator=gradient_of(model, ranked=ranked),
            coding=model.coding,
            learn_noise=learn_noise,
            terms=terms,
        ),
        optimizer=make_optimizer(model.optimizer, parameters.flat.size),
        schedule=make_schedule(model, n_steps, ranked=ranked),
        scaling=scaling,
        rng=rng,
    )


def run(
    model: SGH,
    trainer: Trainer,
    batches: Batches,
    watched: Vectors,
    n_steps: int,
    *,
    keep: int | None = None,
) -> None:
    """Train, with reports to the history and the callback measured on `watched` vectors."""
    history: dict[str, list[float]] = trainer.history
    outer, lift = trainer.scaling.outer, trainer.scaling.lift
    scaled = outer.apply(watched[:WATCHED_ROWS])
    total = trainer.n_done + n_steps

    def measured(parameters: Parameters) -> dict[str, float]:
        return measure(lift(parameters), scaled, model.coding, outer.unit)

    def report(step: int, values: dict[str, float]) -> None:
        for name, value in {"step": float(step), **values}.items():
            history.setdefault(name, []).append(value)
        model._report(step, total, **values)

    factor = DIVERGED_FACTOR if outer is trainer.scaling else RANKED_DIVERGED_FACTOR
    nothing = float(np.square(scaled - scaled.mean(axis=0)).sum(axis=1).mean())
    worst = max(nothing * outer.unit**2, measured(trainer.parameters)["reconstruction_error"])
    trainer.run(
        batches,
        n_steps,
        measure=measured,
        report=report,
        report_every=model.report_every or max(1, n_steps // 20),
        error_limit=factor * worst if nothing > 0 else np.inf,
        patience=Patience(model.patience, model.tol, model.n_bits) if model.patience else None,
        keep=keep,
    )
    if trainer.kept is not None:
        trainer.parameters.flat[:] = trainer.kept.flat


def measure(parameters: Parameters, scaled: Vectors, coding: str, unit: float) -> dict[str, float]:
    """Description length (bits), reconstruction error and entropy of the bits, in raw units."""
    decoder = decoder_of(parameters)
    logits = scaled @ parameters["encoder_weights"] + parameters["encoder_bias"]
    bits = logits > 0
    back = decoder.mean(code_values(bits, coding))
    error = float(np.square(scaled - back, dtype=np.float64).sum(axis=1).mean())
    means, variances = code_moments(sigmoid(logits), coding)
    nats = decoder.expected_nats(scaled, means, variances).mean(dtype=np.float64)
    nats += divergence(logits, parameters["prior_logits"]).sum(axis=1).mean(dtype=np.float64)
    nats += scaled.shape[1] * np.log(unit)
    shares = np.clip(bits.mean(axis=0), 1e-12, 1 - 1e-12)
    entropy = -(shares * np.log2(shares) + (1 - shares) * np.log2(1 - shares)).sum()
    return {
        "description_length": float(nats / np.log(2)),
        "reconstruction_error": error * unit**2,
        "bits_in_use": float(entropy),
    }


def decoder_of(parameters: Parameters) -> GaussianDecoder:
    """Return the decoder that the parameters describe, in the trainer's units."""
    noise = max(float(np.exp(parameters["log_noise"])), NOISE_FLOOR)
    return GaussianDecoder(effective_weights(parameters), parameters["decoder_bias"], noise)


def refit(
    model: SGH, trainer: Trainer, rows: Vectors, *, near: Parameters | None = None
) -> Parameters:
    """Fit the decoder to the codes of raw `rows` by least squares; noise and prior follow.

    `near` is a decoder to stay close to where rows are few. Returns a copy: training goes on from
    the decoder of the soft codes that it knows.
    """
    parameters = trainer.parameters.copy()
    width = parameters["decoder_bias"].size
    squares = LeastSquares(model.n_bits, width)
    for first, block in blocks_of(rows, REFIT_BLOCK):
        scaled = trainer.scaling.apply(block)
        logits = scaled @ parameters["encoder_weights"] + parameters["encoder_bias"]
        squares.add(code_values(logits > 0, model.coding), scaled)
        if first == 0:  # enough for the averages below
            watched, probabilities = scaled, sigmoid(logits)
    old = 0.0 if near is None else REFIT_PRIOR_ROWS / (REFIT_PRIOR_ROWS + len(rows))
    if near is None:
        weights, bias = squares.solve()
    else:
        weights, bias = squares.solve_near(
            effective_weights(near),
            near["decoder_bias"],
            n_rows=REFIT_PRIOR_ROWS,
            coding=model.coding,
        )
    if "decoder_scale" in parameters:
        parameters["decoder_scale"][...] = 1
    parameters["decoder_weights"][...], parameters["decoder_bias"][...] = weights, bias
    shares: NDArray[np.float64] = probabilities.mean(axis=0, dtype=np.float64).clip(1e-6, 1 - 1e-6)
    moments = code_moments(probabilities, model.coding)
    errors = decoder_of(parameters).expected_squares(watched, *moments)
    noise = float(errors.mean(dtype=np.float64)) / width
    if near is not None:
        shares = (1 - old) * shares + old * sigmoid(near["prior_logits"])
        noise = (1 - old) * noise + old * float(np.exp(near["log_noise"]))
    if model.noise == "learned":
        parameters["log_noise"][...] = np.log(max(noise, NOISE_FLOOR))
    parameters["prior_logits"][...] = np.log(shares / (1 - shares))
    return parameters


def publish(model: SGH, trainer: Trainer, parameters: Parameters) -> None:
    """Set the learned attributes, in units of the caller's vectors."""
    scaling = trainer.scaling.outer
    decoder = decoder_of(parameters)
    unit, shift = scaling.unit, scaling.shift.astype(np.float64)
    weights = parameters["encoder_weights"].astype(np.float64) / unit
    model.encoder_weights_ = weights.astype(np.float32)
    model.encoder_bias_ = (parameters["encoder_bias"] - shift @ weights).astype(np.float32)
    model.decoder_weights_ = (decoder.weights * np.float64(unit)).astype(np.float32)
    model.decoder_bias_ = (shift + np.float64(unit) * decoder.bias).astype(np.float32)
    model.noise_variance_ = decoder.noise_variance * unit**2
    model.prior_logits_ = parameters["prior_logits"].copy()
    model.history_ = trainer.history
    model.steps_done_ = trainer.n_done
