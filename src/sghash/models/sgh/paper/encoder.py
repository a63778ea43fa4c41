"""The encoder q(h | x): independent bits, P(h_k = 1 | x) = sigmoid(w_k . x + b_k) (equation 3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.models.sgh.paper.generative import Floats, code_step, code_values


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


def draw_bits(probabilities: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw every bit: the stochastic neuron h = [p >= xi], xi uniform (the paper's section 2.4)."""
    return rng.random(probabilities.shape) < probabilities
