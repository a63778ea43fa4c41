"""The encoder q(h | x): independent bits, P(h_k = 1 | x) = sigmoid(z_k), z_k = w_k . x + b_k.

Equation 3, and equation 5 for draws from it. (The paper's encoder has no bias b, and no hidden
layer: with one, z = x W + relu(x V + c) O + b.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.models.sgh.paper.generative import Floats, code_step, code_values

#: Hidden units are computed for so many rows at a time that they are at most this many numbers.
UNITS_AT_ONCE = 1 << 22


class HiddenLayer(NamedTuple):
    """V (d, n_hidden), c (n_hidden,) and O (n_hidden, n_bits) of relu(x V + c) O."""

    weights: Floats
    bias: Floats
    output: Floats

    def units(self, vectors: Floats) -> Floats:
        """relu(x V + c) (n, n_hidden) of vectors (n, d)."""
        return np.maximum(vectors @ self.weights + self.bias, 0)


class Encoder(NamedTuple):
    """W (d, n_bits), b (n_bits,), and a hidden layer beside them if there is one."""

    weights: Floats
    bias: Floats
    hidden: HiddenLayer | None = None

    def logits(self, vectors: Floats) -> Floats:
        """Logits z (n, n_bits) of vectors (n, d)."""
        logits: Floats = vectors @ self.weights + self.bias
        if self.hidden is not None:
            at_once = max(1, UNITS_AT_ONCE // self.hidden.bias.size)
            for start in range(0, len(vectors), at_once):
                rows = slice(start, start + at_once)
                logits[rows] += self.hidden.units(vectors[rows]) @ self.hidden.output
        return logits


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + exp(-z)), without overflow."""
    decayed = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1, decayed) / (1 + decayed)


def softplus(logits: Floats) -> Floats:
    """log(1 + exp(z)), without overflow."""
    return np.logaddexp(0, logits)


def code_moments(probabilities: Floats, coding: str) -> tuple[Floats, Floats]:
    """Mean and variance of every entry of h, both (n, n_bits)."""
    means = code_values(probabilities, coding, probabilities.dtype.type)
    variances = code_step(coding) ** 2 * probabilities * (1 - probabilities)
    return means, variances


def divergence(logits: Floats, prior_logits: Floats) -> Floats:
    """KL(q(h_k | x) || p(h_k)) of every bit in nats, (n, n_bits)."""
    return sigmoid(logits) * (logits - prior_logits) - softplus(logits) + softplus(prior_logits)


def log_encoder(bits: Floats, logits: Floats) -> Floats:
    """Log q(h | x) of every row, (n,), for `bits` 0/1 and `logits` z, both (n, n_bits).

    Equation 3: the product over bits of q(h_k = 1 | x)^h_k q(h_k = 0 | x)^(1 - h_k).
    """
    return (bits * logits - softplus(logits)).sum(axis=-1)


def stochastic_neuron(probabilities: Floats, xi: Floats) -> NDArray[np.bool_]:
    """Bits h~(p, xi) that are set where p > xi (equation 5); for uniform xi, P(h~ = 1) = p.

    The paper sets a bit at p = xi too, which has chance 0, but not for a p of 0 and numbers of
    finitely many digits.
    """
    return xi < probabilities


def draw_bits(probabilities: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw every bit by a stochastic neuron with uniform xi."""
    return stochastic_neuron(probabilities, rng.random(probabilities.shape))
