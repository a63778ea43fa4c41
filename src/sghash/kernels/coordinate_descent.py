"""Coordinate descent on codes: flip one bit at a time while that brings the decoder nearer."""

from __future__ import annotations

from typing import Any

import numpy as np

from sghash.kernels.compiling import compiled


@compiled
def descend(slopes: Any, gram: Any, prior: Any, codes: Any, signed: bool, n_sweeps: int) -> None:
    """Improve `codes` h (n, l) in place, `n_sweeps` times over all bits or until nothing changes.

    `slopes` (n, l) must hold U (x - alpha) - h K and is kept so; `gram` is K = U U^T (l, l);
    `prior` (l,) is what the prior adds to the evidence for a set bit.
    """
    n, n_bits = codes.shape
    high = np.float32(1.0)
    low = np.float32(-1.0) if signed else np.float32(0.0)
    middle = np.float32(0.0) if signed else np.float32(0.5)
    for i in range(n):
        for _ in range(n_sweeps):
            changed = False
            for k in range(n_bits):
                old = codes[i, k]
                evidence = slopes[i, k] + gram[k, k] * (old - middle) + prior[k]
                new = high if evidence > 0 else low
                if new != old:
                    changed = True
                    codes[i, k] = new
                    step = new - old
                    for j in range(n_bits):
                        slopes[i, j] -= step * gram[k, j]
            if not changed:
                break
