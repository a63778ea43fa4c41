"""What a training teaches a model, in the caller's units, and the way back into the trainer's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sghash.models.sgh.paper.generative import GaussianDecoder
from sghash.models.sgh.training.parameters import Parameters
from sghash.models.sgh.training.scaling import Scaling
from sghash.models.sgh.training.start import NOISE_FLOOR
from sghash.models.sgh.training.step import effective_weights
from sghash.validation import Vectors


class Learned(NamedTuple):
    """The learned attributes of `SGH`, in units of the vectors it was given."""

    encoder_weights: Vectors
    encoder_bias: Vectors
    decoder_weights: Vectors
    decoder_bias: Vectors
    noise_variance: float
    prior_logits: Vectors

    @classmethod
    def of(cls, parameters: Parameters, scaling: Scaling) -> Learned:
        """Translate parameters from the trainer's units."""
        decoder = decoder_of(parameters)
        unit, shift = scaling.unit, scaling.shift.astype(np.float64)
        weights = parameters["encoder_weights"].astype(np.float64) / unit
        return cls(
            encoder_weights=weights.astype(np.float32),
            encoder_bias=(parameters["encoder_bias"] - shift @ weights).astype(np.float32),
            decoder_weights=(decoder.weights * np.float64(unit)).astype(np.float32),
            decoder_bias=(shift + np.float64(unit) * decoder.bias).astype(np.float32),
            noise_variance=decoder.noise_variance * unit**2,
            prior_logits=parameters["prior_logits"].copy(),
        )

    def in_units(self, scaling: Scaling) -> dict[str, Any]:
        """Translate into the trainer's units: first values of its parameters, by name."""
        unit, shift = scaling.unit, scaling.shift.astype(np.float64)
        return {
            "encoder_weights": self.encoder_weights * unit,
            "encoder_bias": self.encoder_bias + shift @ self.encoder_weights,
            "decoder_weights": self.decoder_weights / unit,
            "decoder_bias": (self.decoder_bias - shift) / unit,
            "log_noise": np.log(self.noise_variance / unit**2),
            "prior_logits": self.prior_logits,
        }


def decoder_of(parameters: Parameters) -> GaussianDecoder:
    """Return the decoder that the parameters describe, in the trainer's units."""
    noise = max(float(np.exp(parameters["log_noise"])), NOISE_FLOOR)
    return GaussianDecoder(effective_weights(parameters), parameters["decoder_bias"], noise)
