"""Other generative models than the linear Gaussian one, for the general path (finite differences).

| decoder     | p(x given h)                                                    | vectors          |
|-------------|-----------------------------------------------------------------|------------------|
| "gaussian"  | N(h U + alpha, rho² I): the paper's, here by the general path   | any              |
| "bernoulli" | each x_j is 1 with chance sigmoid(h U + alpha)_j                | between 0 and 1  |
| "two-layer" | N(tanh(h A + c) U + alpha, rho² I)                              | any              |

Each is a `MeanDecoder`, and a `TrainableDecoder` that starts at the linear decoder of least
squares: "two-layer" with hidden units that copy the bits, "bernoulli" with its log odds. Another
one, for counts, stands in `multinomial`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sghash.errors import InvalidInput
from sghash.models.sgh.paper.encoder import sigmoid, softplus
from sghash.models.sgh.paper.generative import Floats, GaussianDecoder
from sghash.models.sgh.training.start import NOISE_FLOOR, Start
from sghash.models.sgh.training.trainable import TrainableDecoder
from sghash.models.sgh.variants.multinomial import MultinomialDecoder
from sghash.validation import Vectors

#: tanh of the first weights: hidden units that copy a bit hardly saturate.
COPIED = float(np.tanh(0.5))


@dataclass(frozen=True)
class BernoulliDecoder:
    """Independent 0/1 entries with log odds h @ `weights` + `bias`.

    For entries between 0 and 1 the likelihood is that of drawing each with that chance: a cross
    entropy, no density.
    """

    weights: Floats
    bias: Floats

    def mean(self, codes: Floats) -> Floats:
        """Chances (n, d) of ones."""
        return sigmoid(codes @ self.weights + self.bias)

    def log_likelihood(self, vectors: Floats, codes: Floats) -> Floats:
        """Log p(x | h) of every row, (n,)."""
        odds = codes @ self.weights + self.bias
        return (vectors * odds - softplus(odds)).sum(axis=1)

    def code_gradient(self, vectors: Floats, codes: Floats) -> Floats:
        """Derivative of `log_likelihood` by every entry of h, (n, n_bits)."""
        return (vectors - self.mean(codes)) @ self.weights.T


@dataclass(frozen=True)
class TwoLayerDecoder:
    """N(tanh(h @ `hidden_weights` + `hidden_bias`) @ `weights` + `bias`, `noise_variance` I)."""

    hidden_weights: Floats
    hidden_bias: Floats
    weights: Floats
    bias: Floats
    noise_variance: float

    def hidden(self, codes: Floats) -> Floats:
        """Hidden units (n, n_hidden) of the codes h."""
        return np.tanh(codes @ self.hidden_weights + self.hidden_bias)

    def mean(self, codes: Floats) -> Floats:
        """Mean vectors (n, d) of the codes h."""
        return self.hidden(codes) @ self.weights + self.bias

    def log_likelihood(self, vectors: Floats, codes: Floats) -> Floats:
        """Log p(x | h) of every row, (n,)."""
        squares = np.square(vectors - self.mean(codes)).sum(axis=1)
        constant = 0.5 * vectors.shape[1] * np.log(2 * np.pi * self.noise_variance)
        return -squares / (2 * self.noise_variance) - constant

    def code_gradient(self, vectors: Floats, codes: Floats) -> Floats:
        """Derivative of `log_likelihood` by every entry of h, (n, n_bits)."""
        hidden = self.hidden(codes)
        by_hidden = (vectors - hidden @ self.weights - self.bias) @ self.weights.T
        by_hidden = by_hidden * (1 - hidden**2) / self.noise_variance
        return by_hidden @ self.hidden_weights.T


class TrainableGaussian:
    """The linear Gaussian decoder: U, alpha and the logarithm of the noise."""

    standardize = True

    def refuse(self, vectors: Vectors) -> None:
        """Refuse nothing."""

    def start_parameters(
        self, sample: Vectors, start: Start, rng: np.random.Generator
    ) -> Mapping[str, Floats]:
        """The least-squares decoder of the first codes."""
        return {
            "decoder_weights": start.decoder_weights,
            "decoder_bias": start.decoder_bias,
            "log_noise": np.asarray(start.log_noise),
        }

    def at(self, parameters: Mapping[str, Floats]) -> GaussianDecoder:
        """Return the decoder that these parameters describe."""
        return GaussianDecoder(
            parameters["decoder_weights"], parameters["decoder_bias"], _noise(parameters)
        )

    def parameter_gradients(
        self, parameters: Mapping[str, Floats], vectors: Vectors, codes: Floats
    ) -> Mapping[str, Floats]:
        """Gradients of the mean of -log p(x | h), by every name."""
        residual = self.at(parameters).mean(codes) - vectors
        return _gaussian_gradients(residual, codes, _noise(parameters))

    def in_units(
        self, parameters: Mapping[str, Floats], unit: float, shift: Vectors
    ) -> Mapping[str, Floats]:
        """Parameters for raw vectors."""
        return _gaussian_in_units(parameters, unit, shift)


class TrainableBernoulli:
    """The Bernoulli decoder: log odds, linear in the code."""

    standardize = False

    def refuse(self, vectors: Vectors) -> None:
        """Refuse numbers that are no chances."""
        if vectors.size and (vectors.min() < 0 or vectors.max() > 1):
            raise InvalidInput(
                f"the Bernoulli decoder takes vectors of numbers between 0 and 1, these reach from "
                f"{vectors.min():g} to {vectors.max():g}: rescale them, or use another decoder"
            )

    def start_parameters(
        self, sample: Vectors, start: Start, rng: np.random.Generator
    ) -> Mapping[str, Floats]:
        """Log odds that are linear in the first codes: the tangent at the mean of each column."""
        means = sample.mean(axis=0, dtype=np.float64)
        chances = np.clip(means, 0.01, 0.99)
        slopes = 1 / (chances * (1 - chances)).clip(min=0.05)
        # Codes 0/1 are half a bit above their origin on average, which the bias has to make up for.
        away = start.decoder_bias - means
        return {
            "decoder_weights": start.decoder_weights * slopes,
            "decoder_bias": np.log(chances / (1 - chances)) + away * slopes,
        }

    def at(self, parameters: Mapping[str, Floats]) -> BernoulliDecoder:
        """Return the decoder that these parameters describe."""
        return BernoulliDecoder(parameters["decoder_weights"], parameters["decoder_bias"])

    def parameter_gradients(
        self, parameters: Mapping[str, Floats], vectors: Vectors, codes: Floats
    ) -> Mapping[str, Floats]:
        """Gradients of the mean of -log p(x | h), by every name."""
        residual = (self.at(parameters).mean(codes) - vectors) / len(vectors)
        return {"decoder_weights": codes.T @ residual, "decoder_bias": residual.sum(axis=0)}

    def in_units(
        self, parameters: Mapping[str, Floats], unit: float, shift: Vectors
    ) -> Mapping[str, Floats]:
        """Return the parameters as they are: chances have a scale of their own."""
        return parameters


@dataclass(frozen=True)
class TrainableTwoLayer:
    """The two-layer decoder, of `n_hidden` hidden units, or n_bits if that is more."""

    n_hidden: int = 128
    standardize: ClassVar[bool] = True

    def refuse(self, vectors: Vectors) -> None:
        """Refuse nothing."""

    def start_parameters(
        self, sample: Vectors, start: Start, rng: np.random.Generator
    ) -> Mapping[str, Floats]:
        """Hidden units that copy a bit and decode it linearly; the rest mix bits, at weight 0."""
        n_bits, width = start.decoder_weights.shape
        n_hidden = max(self.n_hidden, n_bits)
        mixing = rng.standard_normal((n_bits, n_hidden)) / np.sqrt(n_bits)
        mixing[:, :n_bits] = 0.5 * np.eye(n_bits)
        weights = np.zeros((n_hidden, width))
        weights[:n_bits] = start.decoder_weights / COPIED
        return {
            "hidden_weights": mixing,
            "hidden_bias": np.zeros(n_hidden),
            "decoder_weights": weights,
            "decoder_bias": start.decoder_bias,
            "log_noise": np.asarray(start.log_noise),
        }

    def at(self, parameters: Mapping[str, Floats]) -> TwoLayerDecoder:
        """Return the decoder that these parameters describe."""
        return TwoLayerDecoder(
            parameters["hidden_weights"], parameters["hidden_bias"],
            parameters["decoder_weights"], parameters["decoder_bias"], _noise(parameters),
        )  # fmt: skip

    def parameter_gradients(
        self, parameters: Mapping[str, Floats], vectors: Vectors, codes: Floats
    ) -> Mapping[str, Floats]:
        """Gradients of the mean of -log p(x | h), by every name."""
        decoder, noise = self.at(parameters), _noise(parameters)
        hidden = decoder.hidden(codes)
        residual = hidden @ decoder.weights + decoder.bias - vectors
        by_hidden = residual @ decoder.weights.T * (1 - hidden**2) / (len(vectors) * noise)
        return {
            "hidden_weights": codes.T @ by_hidden,
            "hidden_bias": by_hidden.sum(axis=0),
            **_gaussian_gradients(residual, hidden, noise),
        }

    def in_units(
        self, parameters: Mapping[str, Floats], unit: float, shift: Vectors
    ) -> Mapping[str, Floats]:
        """Parameters for raw vectors; hidden units have none."""
        return {
            "hidden_weights": parameters["hidden_weights"],
            "hidden_bias": parameters["hidden_bias"],
            **_gaussian_in_units(parameters, unit, shift),
        }


#: Decoders by name. A class of one's own may be added under a name, here and where the model is
#: loaded: only named decoders can be saved, since a file holds numbers and never code.
DECODERS: dict[str, TrainableDecoder] = {
    "two-layer": TrainableTwoLayer(),
    "bernoulli": TrainableBernoulli(),
    "gaussian": TrainableGaussian(),
    "multinomial": MultinomialDecoder(),
}


def _noise(parameters: Mapping[str, Floats]) -> float:
    """In the trainer's units kept above the floor; in raw units as `_gaussian_in_units` says."""
    if "noise_variance" in parameters:
        return float(parameters["noise_variance"])
    return max(float(np.exp(parameters["log_noise"])), NOISE_FLOOR)


def _gaussian_in_units(
    parameters: Mapping[str, Floats], unit: float, shift: Vectors
) -> dict[str, Floats]:
    # In double precision: the square of a small unit would be zero in float32.
    return {
        "decoder_weights": parameters["decoder_weights"] * unit,
        "decoder_bias": parameters["decoder_bias"] * unit + shift,
        "noise_variance": np.asarray(_noise(parameters) * unit**2),
    }


def _gaussian_gradients(residual: Floats, inputs: Floats, noise: float) -> dict[str, Floats]:
    """Of a Gaussian whose mean is inputs @ weights + bias."""
    n, width = residual.shape
    squares = float(np.square(residual, dtype=np.float64).sum()) / n
    return {
        "decoder_weights": inputs.T @ residual / (n * noise),
        "decoder_bias": residual.sum(axis=0) / (n * noise),
        "log_noise": np.asarray(0.5 * (width - squares / noise)),
    }
