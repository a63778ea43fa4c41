"""Sharper codes: from the encoder's guess downhill on -log p(h | x) of the generative model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.models.sgh.paper.generative import GaussianDecoder, code_values
from sghash.validation import Vectors


def sharpen(
    vectors: Vectors,
    bits: NDArray[np.bool_],
    decoder: GaussianDecoder,
    prior_logits: Vectors,
    *,
    coding: str,
    n_sweeps: int,
) -> NDArray[np.bool_]:
    """Return bits (n, n_bits) of vectors (n, d) after `n_sweeps` of coordinate descent.

    Starts from `bits`; every flip lowers |x - alpha - U h|² / (2 rho²) - beta . h.
    """
    from sghash.kernels.learning.descent import descend_codes

    weights = np.asarray(decoder.weights, dtype=np.float32)
    gram = weights @ weights.T
    codes = code_values(bits, coding)
    slopes = (vectors - decoder.bias.astype(np.float32)) @ weights.T - codes @ gram
    scale = decoder.noise_variance / (2 if coding == "signed" else 1)
    prior = (scale * prior_logits).astype(np.float32)
    descend_codes(slopes, gram, prior, codes, coding == "signed", n_sweeps)
    return codes > 0
