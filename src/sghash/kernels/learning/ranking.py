"""The softmax of a ranking loss over codes, turned into its gradient within the products."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sghash.kernels.compiling import compiled
from sghash.kernels.learning.training import exponential

# Sums along a row in vectors: their order of additions is the compiler's, the same for every run.
_summing = partial(compiled, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "nnan"})

#: Exponents above minus this leave float32 enough to add up.
_NARROW = 60.0


@_summing
def softmax_gradient(
    products: Any, anchors: Any, positives: Any, scale: float, n_bits: int, weight: float
) -> Any:
    """Turn products s_i . s_k (n, m) into the gradient of `weight` * summed loss by them, in place.

    Row i is the anchor, itself candidate `anchors[i]`, which does not count; its positive is
    candidate `positives[i]`; its loss is -log softmax_k(scale * products[i, k])[positives[i]].
    Returns `weight` * the summed loss, and the gradient by `scale`.
    """
    n, m = products.shape
    loss, by_scale = 0.0, 0.0
    sharpness, outer = np.float32(scale), np.float32(weight * scale)
    low, high = np.float32(-n_bits), np.float32(n_bits)
    # Where even the farthest keeps a share, no maximum is looked for.
    is_short = 2 * n_bits * scale < _NARROW
    for i in range(n):
        # The anchor would be its own nearest candidate: put it farthest, and take it out again.
        products[i, anchors[i]] = low
        nearest = high
        if not is_short:
            nearest = low
            for k in range(m):
                nearest = max(nearest, products[i, k])
        positive = products[i, positives[i]]
        total, mean = np.float32(0.0), np.float32(0.0)
        for k in range(m):
            product = products[i, k]
            # Relative to the largest, nothing overflows.
            share = exponential(sharpness * (product - nearest))
            total += share
            mean += share * product
            products[i, k] = share
        own = products[i, anchors[i]]
        total = max(total - own, np.float32(1e-37))
        mean -= own * low
        loss += np.log(np.float64(total)) - scale * np.float64(positive - nearest)
        by_scale += np.float64(mean) / np.float64(total) - np.float64(positive)
        factor = outer / total
        for k in range(m):
            products[i, k] *= factor
        products[i, anchors[i]] = np.float32(0.0)
        products[i, positives[i]] -= outer
    return weight * loss, weight * by_scale


@_summing
def signs_of(logits: Any, codes: Any) -> None:
    """Fill `codes` (m, l) with +1 where `logits` are positive, else -1."""
    n_rows, n_bits = logits.shape
    for i in range(n_rows):
        for k in range(n_bits):
            codes[i, k] = np.float32(1.0) if logits[i, k] > np.float32(0.0) else np.float32(-1.0)


@_summing
def through_signs(by_codes: Any, probabilities: Any) -> None:
    """Turn a gradient by codes (m, l) into one by logits, as if a code were its mean 2p - 1."""
    n_rows, n_bits = by_codes.shape
    for i in range(n_rows):
        for k in range(n_bits):
            p = probabilities[i, k]
            by_codes[i, k] *= np.float32(2.0) * p * (np.float32(1.0) - p)
