"""The softmax of a ranking loss over codes: they are signs, so only l + 1 exponentials exist."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sghash.kernels.compiling import compiled

_fused = partial(compiled, error_model="numpy")


@_fused
def softmax_gradient(
    products: Any, anchors: Any, positives: Any, scale: float, n_bits: int, weight: float
) -> Any:
    """Turn products s_i . s_k (n, m) into the gradient of `weight` * summed loss by them, in place.

    Row i is the anchor, itself candidate `anchors[i]`, which does not count; its positive is
    candidate `positives[i]`; its loss is -log softmax_k(scale * products[i, k])[positives[i]].
    Returns `weight` * the summed loss, and the gradient by `scale`.
    """
    n, m = products.shape
    table = np.empty(n_bits + 1, dtype=np.float32)
    for v in range(n_bits + 1):
        # Products run from -l to l in steps of two; relative to the largest, nothing overflows.
        table[v] = np.exp(-2.0 * scale * v)
    loss, by_scale = 0.0, 0.0
    half, low = np.float32(0.5), np.float32(-n_bits)
    for i in range(n):
        # The anchor would be its own nearest candidate: put it farthest, and take it out again.
        products[i, anchors[i]] = low
        nearest = low
        for k in range(m):
            nearest = max(nearest, products[i, k])
        total = np.float32(0.0)
        for k in range(m):
            total += table[np.int32((nearest - products[i, k]) * half)]
        own = table[np.int32((nearest - low) * half)]
        total = max(total - own, np.float32(1e-35))
        positive = products[i, positives[i]]
        loss += np.log(np.float64(total)) - scale * np.float64(positive - nearest)
        inverse, mean = np.float32(1.0) / total, np.float32(0.0)
        for k in range(m):
            product = products[i, k]
            share = table[np.int32((nearest - product) * half)] * inverse
            mean += share * product
            products[i, k] = share * np.float32(weight * scale)
        by_scale += np.float64(mean - low * own * inverse - positive)
        products[i, anchors[i]] = np.float32(0.0)
        products[i, positives[i]] -= np.float32(weight * scale)
    return weight * loss, weight * by_scale
