"""The objective: how many nats, or bits, a vector costs through its code (equations 4 and 6).

H = E_q[-log p(x | h)] + w sum_k KL(q(h_k | x) || p(h_k)),    w = 1 in the paper.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sghash.errors import InvalidInput
from sghash.models.sgh.paper.encoder import (
    code_moments,
    divergence,
    draw_bits,
    log_encoder,
    sigmoid,
)
from sghash.models.sgh.paper.generative import Floats, code_values, log_joint, log_prior
from sghash.models.sgh.paper.gradients import FittedModel, encoder_logits, gaussian_decoder
from sghash.models.shared.seeds import generator_of

MAX_ENUMERATED_BITS = 16


class DescriptionLength(NamedTuple):
    """Bits per vector, each (n,): `total` = `code` + `residual`.

    `code` is what sending the code costs beyond what the receiver gets back (never negative);
    `residual` is minus the log density of the vector given its code, averaged over codes. A
    density depends on the units of the vectors and may exceed 1, so `residual` and `total` may be
    negative: only differences between models of the same vectors mean anything.
    """

    total: Floats
    code: Floats
    residual: Floats


def objective(model: FittedModel, X: ArrayLike, *, kl_weight: float = 1.0) -> float:
    """Mean over the rows of `X` of the exact objective in nats (equation 4), by listing all codes.

    For codes of at most 16 bits, whose 2^n_bits values can be listed; `model.description_length`
    gives the same for any length (in bits, at weight 1).
    """
    n_bits = model.encoder_weights_.shape[1]
    if n_bits > MAX_ENUMERATED_BITS:
        raise InvalidInput(
            f"objective lists all codes, so n_bits must be at most {MAX_ENUMERATED_BITS}, got "
            f"{n_bits}: use model.description_length"
        )
    vectors = model.checked_rows(X).astype(np.float64)
    decoder, logits = gaussian_decoder(model), encoder_logits(model, vectors)
    prior_logits = np.asarray(model.prior_logits_, dtype=np.float64)
    total = np.zeros(len(vectors))
    for bits in product((0.0, 1.0), repeat=n_bits):
        listed = np.array(bits)
        log_q = log_encoder(listed, logits)
        codes = np.tile(code_values(listed, model.coding, np.float64), (len(vectors), 1))
        cost = kl_weight * (log_q - log_prior(listed, prior_logits))
        total += np.exp(log_q) * (cost - decoder.log_likelihood(vectors, codes))
    return float(total.mean())


def reparametrized_objective(
    model: FittedModel,
    X: ArrayLike,
    *,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> float:
    """Mean over the rows of `X` of l(h~, x) = log q(h~ | x) - log p(x, h~) in nats (equation 6).

    Every row has one draw h~ of the stochastic neuron. The mean over draws is `objective`.
    """
    vectors = model.checked_rows(X).astype(np.float64)
    logits = encoder_logits(model, vectors)
    bits = draw_bits(sigmoid(logits), generator_of(random_state)).astype(np.float64)
    prior_logits = np.asarray(model.prior_logits_, dtype=np.float64)
    joint = log_joint(gaussian_decoder(model), vectors, bits, prior_logits, coding=model.coding)
    return float((log_encoder(bits, logits) - joint).mean())


def description_length(model: FittedModel, vectors: Floats) -> DescriptionLength:
    """Bits per vector at weight 1, in closed form (equation 4), for checked vectors (n, d)."""
    decoder, logits = gaussian_decoder(model), encoder_logits(model, vectors)
    code = divergence(logits, np.asarray(model.prior_logits_, np.float64)).sum(axis=1) / np.log(2)
    means, variances = code_moments(sigmoid(logits), model.coding)
    residual = decoder.expected_nats(vectors.astype(np.float64), means, variances) / np.log(2)
    return DescriptionLength(code + residual, code, residual)
