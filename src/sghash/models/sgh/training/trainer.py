"""Distributional SGD, the paper's Algorithm 1: draw a batch, take a step, look now and then."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from sghash.errors import Diverged
from sghash.models.sgh.paper.encoder import code_moments, divergence, sigmoid
from sghash.models.sgh.paper.generative import code_values
from sghash.models.sgh.training.batches import Batches
from sghash.models.sgh.training.encoder import encoder_of
from sghash.models.sgh.training.learned import decoder_of, refit
from sghash.models.sgh.training.optimizer import Optimizer, Parameters, Schedule
from sghash.models.sgh.training.scaling import Units
from sghash.models.sgh.training.settings import Settings
from sghash.models.sgh.training.step import Step
from sghash.validation import Vectors

logger = logging.getLogger("sghash.models.sgh")

Measure = Callable[[Parameters], dict[str, float]]
Report = Callable[[int, dict[str, float]], None]


class Patience:
    """Early stopping: no more after `patience` reports in which neither measure got better.

    Better is a reconstruction error lower by the share `tol`, or a description length lower by
    `tol` per bit of the code. Either is enough: while the divergence weighs much, the description
    length falls and the error waits; when its weight goes to zero it is the other way round.
    """

    def __init__(self, patience: int, tol: float, n_bits: int) -> None:
        self.patience, self.tol, self.n_bits = patience, tol, n_bits
        self.error = self.length = np.inf
        self.waited = 0

    def is_over(self, values: dict[str, float]) -> bool:
        """Take the newest held-out measurements; answer whether to stop."""
        error, length = values["reconstruction_error"], values["description_length"]
        self.waited += 1
        if error < self.error * (1 - self.tol):
            self.error, self.waited = error, 0
        if length < self.length - self.tol * self.n_bits:
            self.length, self.waited = length, 0
        return self.waited >= self.patience


class Trainer:
    """Parameters on their way, with the optimiser's memory and the number of steps done."""

    def __init__(
        self,
        parameters: Parameters,
        *,
        step: Step,
        optimizer: Optimizer,
        schedule: Schedule,
        scaling: Units,
        rng: np.random.Generator,
        n_done: int = 0,
        history: dict[str, list[float]] | None = None,
    ) -> None:
        self.parameters, self.step, self.optimizer = parameters, step, optimizer
        self.schedule, self.scaling, self.rng = schedule, scaling, rng
        self.n_done = n_done
        self.history: dict[str, list[float]] = {} if history is None else history
        self._gradient = parameters.zeros()

    def run(
        self,
        batches: Batches,
        n_steps: int,
        *,
        measure: Measure,
        report: Report,
        report_every: int,
        error_limit: float = np.inf,
        patience: Patience | None = None,
        keep: int | None = None,
        rate_factor: float = 1.0,
    ) -> None:
        """Take `n_steps` steps; then go back to the parameters before step `keep`, if given.

        Raises `Diverged` as soon as a report finds numbers that are not finite, or a
        reconstruction error beyond `error_limit`.
        """
        last, kept = self.n_done + n_steps, None
        with self.step.working():
            while self.n_done < last:
                if keep == self.n_done:
                    kept = self.parameters.copy()
                self.advance(batches, rate_factor)
                if self.n_done % report_every == 0 or self.n_done == last:
                    with np.errstate(all="ignore"):
                        values = measure(self.parameters)
                    self._refuse_divergence(values, error_limit)
                    report(self.n_done, values)
                    if patience is not None and patience.is_over(values):
                        logger.info("stopped early after %d steps", self.n_done)
                        break
        if kept is not None:
            self.parameters.flat[:] = kept.flat

    def advance(self, batches: Batches, rate_factor: float = 1.0) -> None:
        """Take one step, at the learning rate of the schedule times `rate_factor`."""
        batch = batches.draw(self.scaling, self.rng)
        weight = self.schedule.weight(self.n_done)
        with np.errstate(all="ignore"):  # what leaves the finite numbers is found at the report
            self.step.gradient(self.parameters, batch, weight, self.rng, self._gradient)
            rate = self.schedule.rate(self.n_done) * rate_factor
            self.optimizer.update(self.parameters.flat, self._gradient.flat, rate)
        self.n_done += 1

    def _refuse_divergence(self, values: dict[str, float], error_limit: float) -> None:
        numbers = np.concatenate([self.parameters.flat, list(values.values())])
        if np.isfinite(numbers).all() and values["reconstruction_error"] <= error_limit:
            return
        raise Diverged(
            f"training diverged after {self.n_done} steps (learning rate "
            f"{self.schedule.learning_rate:g}): use a smaller learning_rate; "
            "the model is as it was before"
        )


WATCHED_ROWS = 1000
#: Unless `report_every` says otherwise: reports of a training, and the least steps between them.
REPORTS, STEPS_PER_REPORT = 20, 50
# Worse by this factor than both the start and no code at all: that is divergence, not bad luck.
DIVERGED_FACTOR = 2.0
# Beside a ranking loss the codes move first and the decoder follows: it may be far off for a while.
RANKED_DIVERGED_FACTOR = 20.0

#: Receives a step, the number of steps in all, and named measurements.
Listener = Callable[[int, int, dict[str, float]], None]


def run(
    settings: Settings,
    trainer: Trainer,
    batches: Batches,
    watched: Vectors,
    n_steps: int,
    listener: Listener,
    *,
    keep: int | None = None,
    rate_factor: float = 1.0,
) -> None:
    """Train, with reports to the history and the listener measured on raw `watched` vectors."""
    recipe, history = settings.recipe, trainer.history
    outer, lift = trainer.scaling.outer, trainer.scaling.lift
    scaled = outer.apply(watched[:WATCHED_ROWS])
    total = trainer.n_done + n_steps

    def measured(parameters: Parameters) -> dict[str, float]:
        if not trainer.step.describes:  # nobody has looked after the decoder
            parameters = refit(settings, trainer, watched[:WATCHED_ROWS])
        return measure(lift(parameters), scaled, settings.coding, outer.unit)

    def report(step: int, values: dict[str, float]) -> None:
        for name, value in {"step": float(step), **values}.items():
            history.setdefault(name, []).append(value)
        listener(step, total, values)

    factor = DIVERGED_FACTOR if outer is trainer.scaling else RANKED_DIVERGED_FACTOR
    total_variance = float(np.square(scaled - scaled.mean(axis=0)).sum(axis=1).mean())
    first_error = measured(trainer.parameters)["reconstruction_error"]
    worst = max(total_variance * outer.unit**2, first_error)
    patience = None
    if recipe.patience is not None:
        patience = Patience(recipe.patience, recipe.chosen("tol"), settings.n_bits)
    trainer.run(
        batches,
        n_steps,
        measure=measured,
        report=report,
        report_every=recipe.report_every or max(STEPS_PER_REPORT, n_steps // REPORTS),
        error_limit=factor * worst if total_variance > 0 else np.inf,
        patience=patience,
        keep=keep,
        rate_factor=rate_factor,
    )


def measure(parameters: Parameters, scaled: Vectors, coding: str, unit: float) -> dict[str, float]:
    """Description length (bits), reconstruction error and entropy of the bits, in raw units."""
    decoder = decoder_of(parameters)
    logits = encoder_of(parameters).logits(scaled)
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
