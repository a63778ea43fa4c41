"""Coordinate descent over the bits of many codes at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled


@compiled
def descend(
    gram: NDArray[np.float32], targets: NDArray[np.float32], codes: NDArray[np.float32], sweeps: int
) -> Any:
    """Lower z K z - 2 a z over z in {0, 1}, bit by bit, for each row a of `targets` (n, l).

    `gram` is K (l, l); `codes` (n, l) holds the start, which may be any numbers (the first sweep
    rounds them, each given the others), and receives the result. A row is left when a whole sweep
    changes nothing, or after `sweeps`. Returns z K z - 2 a z (n,).
    """
    n_bits = gram.shape[0]
    rest = np.empty(n_bits, dtype=np.float32)
    scores = np.empty(codes.shape[0], dtype=np.float64)
    for row in range(codes.shape[0]):
        code, target = codes[row], targets[row]
        for k in range(n_bits):
            rest[k] = target[k]
        for j in range(n_bits):
            if code[j] != 0:
                for k in range(n_bits):
                    rest[k] -= gram[j, k] * code[j]
        for _ in range(sweeps):
            changed = False
            for j in range(n_bits):
                # Half of what a set bit would save, given all others.
                gain = rest[j] + gram[j, j] * code[j] - np.float32(0.5) * gram[j, j]
                best = np.float32(1.0) if gain > 0 else np.float32(0.0)
                step = best - code[j]
                if step != 0:
                    changed = True
                    code[j] = best
                    for k in range(n_bits):
                        rest[k] -= gram[j, k] * step
            if not changed:
                break
        # z K z - 2 a z = -z (a + rest), since rest = a - K z.
        score = 0.0
        for k in range(n_bits):
            score -= np.float64(code[k]) * (np.float64(target[k]) + np.float64(rest[k]))
        scores[row] = score
    return scores
