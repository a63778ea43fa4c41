"""Training under observation: measurements now and then, divergence, early stopping."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sghash.models.sgh.paper.encoder import code_moments, divergence, sigmoid
from sghash.models.sgh.paper.generative import code_values
from sghash.models.sgh.training.batches import Batches
from sghash.models.sgh.training.learned import decoder_of
from sghash.models.sgh.training.parameters import Parameters
from sghash.models.sgh.training.settings import Settings
from sghash.models.sgh.training.trainer import Patience, Trainer
from sghash.validation import Vectors

WATCHED_ROWS = 1000
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
        report_every=recipe.report_every or max(1, n_steps // 20),
        error_limit=factor * worst if total_variance > 0 else np.inf,
        patience=patience,
        keep=keep,
        rate_factor=rate_factor,
    )


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
