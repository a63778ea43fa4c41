"""Distributional SGD, the paper's Algorithm 1: draw a batch, take a step, look now and then."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from sghash.errors import Diverged
from sghash.models.sgh.training.batches import Batches
from sghash.models.sgh.training.optimizer import Optimizer, Schedule
from sghash.models.sgh.training.parameters import Parameters
from sghash.models.sgh.training.scaling import Units
from sghash.models.sgh.training.step import Step

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
