"""What training has learned, and its last touch: the decoder of least squared error for real codes.

Training fits the decoder to soft codes; files and searches use hard ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.blocks import blocks_of
from sghash.models.sgh.paper.encoder import HiddenLayer, code_moments, sigmoid
from sghash.models.sgh.paper.generative import GaussianDecoder, code_values
from sghash.models.sgh.training.batches import Batches, Reservoir
from sghash.models.sgh.training.encoder import WEIGHTS, encoder_of
from sghash.models.sgh.training.optimizer import Parameters
from sghash.models.sgh.training.scaling import Scaling
from sghash.models.sgh.training.settings import Settings
from sghash.models.sgh.training.start import NOISE_FLOOR
from sghash.models.sgh.training.step import effective_weights
from sghash.models.shared.least_squares import LeastSquares
from sghash.validation import Vectors

if TYPE_CHECKING:
    from sghash.models.sgh.training.trainer import Trainer


class Learned(NamedTuple):
    """The learned attributes of `SGH`, in units of the vectors it was given."""

    encoder_weights: Vectors
    encoder_bias: Vectors
    decoder_weights: Vectors
    decoder_bias: Vectors
    noise_variance: float
    prior_logits: Vectors
    hidden: HiddenLayer | None = None

    @classmethod
    def of(cls, parameters: Parameters, scaling: Scaling) -> Learned:
        """Translate parameters from the trainer's units."""
        decoder = decoder_of(parameters)
        unit, shift = scaling.unit, scaling.shift.astype(np.float64)
        encoder = encoder_of(parameters)
        weights, bias = _out_of_units(encoder.weights, encoder.bias, scaling)
        hidden = encoder.hidden
        if hidden is not None:
            moved = _out_of_units(hidden.weights, hidden.bias, scaling)
            hidden = HiddenLayer(*moved, hidden.output.copy())
        return cls(
            encoder_weights=weights,
            encoder_bias=bias,
            decoder_weights=(decoder.weights * np.float64(unit)).astype(np.float32),
            decoder_bias=(shift + np.float64(unit) * decoder.bias).astype(np.float32),
            noise_variance=decoder.noise_variance * unit**2,
            prior_logits=parameters["prior_logits"].copy(),
            hidden=hidden,
        )

    def in_units(self, scaling: Scaling) -> dict[str, Any]:
        """Translate into the trainer's units: first values of its parameters, by name."""
        unit, shift = scaling.unit, scaling.shift.astype(np.float64)
        hidden: dict[str, Any] = {}
        if self.hidden is not None:
            hidden = {
                "hidden_weights": self.hidden.weights * unit,
                "hidden_bias": self.hidden.bias + shift @ self.hidden.weights,
                "hidden_output": self.hidden.output,
            }
        return {
            "encoder_weights": self.encoder_weights * unit,
            "encoder_bias": self.encoder_bias + shift @ self.encoder_weights,
            "decoder_weights": self.decoder_weights / unit,
            "decoder_bias": (self.decoder_bias - shift) / unit,
            "log_noise": np.log(self.noise_variance / unit**2),
            "prior_logits": self.prior_logits,
            **hidden,
        }


def _out_of_units(weights: Vectors, bias: Vectors, scaling: Scaling) -> tuple[Vectors, Vectors]:
    """Weights (d, k) and bias (k,) that give for raw vectors what these give for scaled ones."""
    wide = weights.astype(np.float64) / scaling.unit
    moved = bias - scaling.shift.astype(np.float64) @ wide
    return wide.astype(np.float32), moved.astype(np.float32)


def decoder_of(parameters: Parameters) -> GaussianDecoder:
    """Return the decoder that the parameters describe, in the trainer's units."""
    noise = max(float(np.exp(parameters["log_noise"])), NOISE_FLOOR)
    return GaussianDecoder(effective_weights(parameters), parameters["decoder_bias"], noise)


# Rows for a refit, or so many per bit if that is more: their noise adds a bit's share of the error.
REFIT_ROWS, REFIT_ROWS_PER_BIT = 16_384, 64
REFIT_BYTES = 1 << 28
REFIT_BLOCK = 8192
# Online: rows kept from all pieces, and steps between refits.
REFIT_RESERVOIR = 16_384
REFIT_STEPS = 10
# Rows that the decoder before a refit counts for: pieces may be single vectors.
REFIT_PRIOR_ROWS = 1024


@dataclass
class Refitted:
    """The parameters with a refitted decoder, kept up to date while pieces come in."""

    parameters: Parameters | None = None
    reservoir: Reservoir | None = None
    next_at: int = 0

    def fit(
        self, settings: Settings, trainer: Trainer, batches: Batches, rng: np.random.Generator
    ) -> None:
        """Refit the decoder to a sample of the batches' rows."""
        width = trainer.parameters["decoder_bias"].size
        n_rows = max(REFIT_ROWS, REFIT_ROWS_PER_BIT * settings.n_bits)
        n_rows = min(n_rows, max(1, REFIT_BYTES // (4 * width)))
        self.parameters = refit(settings, trainer, batches.take(n_rows, rng))

    def update(self, settings: Settings, trainer: Trainer, batches: Batches) -> None:
        """Add a piece to a sample of all pieces, and now and then refit the decoder to it."""
        width = trainer.parameters["decoder_bias"].size
        if self.reservoir is None:
            self.reservoir = Reservoir(min(REFIT_RESERVOIR, REFIT_BYTES // (4 * width)), width)
        self.reservoir.add(batches, trainer.rng)
        if self.parameters is None or trainer.n_done >= self.next_at:
            before = self.parameters or trainer.parameters
            self.parameters = refit(settings, trainer, self.reservoir.rows, near=before)
            self.next_at = trainer.n_done + REFIT_STEPS
        else:
            # Few steps hardly change what the decoder should be.
            for name in ("encoder_bias", *WEIGHTS):
                if name in trainer.parameters:
                    self.parameters[name][...] = trainer.parameters[name]


def refit(
    settings: Settings, trainer: Trainer, rows: Vectors, *, near: Parameters | None = None
) -> Parameters:
    """Fit the decoder to the codes of raw `rows` by least squares; noise and prior follow.

    `near` is a decoder to stay close to where rows are few. Returns a copy: training goes on from
    the decoder of the soft codes that it knows.
    """
    parameters = trainer.parameters.copy()
    encoder = encoder_of(parameters)
    squares = LeastSquares(settings.n_bits, parameters["decoder_bias"].size)
    for first, block in blocks_of(rows, REFIT_BLOCK):
        scaled = trainer.scaling.apply(block)
        logits = encoder.logits(scaled)
        squares.add(code_values(logits > 0, settings.coding), scaled)
        if first == 0:  # enough for noise and prior
            watched, probabilities = scaled, sigmoid(logits)
    if near is None:
        weights, bias = squares.solve()
    else:
        weights, bias = squares.solve_near(
            effective_weights(near),
            near["decoder_bias"],
            n_rows=REFIT_PRIOR_ROWS,
            coding=settings.coding,
        )
    if "decoder_scale" in parameters:
        parameters["decoder_scale"][...] = 1
    parameters["decoder_weights"][...], parameters["decoder_bias"][...] = weights, bias
    old = 0.0 if near is None else REFIT_PRIOR_ROWS / (REFIT_PRIOR_ROWS + len(rows))
    _follow(settings, parameters, watched, probabilities, near, old)
    return parameters


def _follow(
    settings: Settings,
    parameters: Parameters,
    watched: Vectors,
    probabilities: Vectors,
    near: Parameters | None,
    old: float,
) -> None:
    """Set noise and prior to what `watched` vectors say; those of `near` count with share `old`."""
    shares: NDArray[np.float64] = probabilities.mean(axis=0, dtype=np.float64).clip(1e-6, 1 - 1e-6)
    moments = code_moments(probabilities, settings.coding)
    errors = decoder_of(parameters).expected_squares(watched, *moments)
    noise = float(errors.mean(dtype=np.float64)) / watched.shape[1]
    if near is not None:
        shares = (1 - old) * shares + old * sigmoid(near["prior_logits"])
        noise = (1 - old) * noise + old * float(np.exp(near["log_noise"]))
    if settings.recipe.noise == "learned":
        parameters["log_noise"][...] = np.log(max(noise, NOISE_FLOOR))
    parameters["prior_logits"][...] = np.log(shares / (1 - shares))
