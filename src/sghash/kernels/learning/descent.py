"""Coordinate descent over codes: one bit, or one byte, chosen anew given all others."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled

_fused = partial(compiled, error_model="numpy")


@compiled
def descend_bits(
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


@compiled
def descend_codes(
    slopes: Any, gram: Any, prior: Any, codes: Any, signed: bool, n_sweeps: int
) -> None:
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


@_fused
def descend_bytes(dots: Any, cross: Any, codes: Any, n_sweeps: int) -> None:
    """Lower |x - sum_j T_j[h_j]|² of every row, in place, until nothing changes.

    `dots` (n, 256 B) are x . T_j[v], `cross` (256 B, 256 B) the inner products of all table rows,
    `codes` (n, B) uint8. At most `n_sweeps` passes over the bytes of a code.
    """
    n, n_parts = codes.shape
    scores = np.empty(256, dtype=np.float32)
    two = np.float32(2.0)
    for i in range(n):
        for _ in range(n_sweeps):
            changed = False
            for part in range(n_parts):
                first = 256 * part
                for v in range(256):
                    scores[v] = cross[first + v, first + v] - two * dots[i, first + v]
                for other in range(n_parts):
                    if other != part:
                        row = 256 * other + codes[i, other]
                        for v in range(256):
                            scores[v] += two * cross[row, first + v]
                old = codes[i, part]
                best = scores[old]
                chosen = np.int64(old)
                for v in range(256):
                    if scores[v] < best:
                        best, chosen = scores[v], np.int64(v)
                if chosen != old:
                    codes[i, part] = chosen
                    changed = True
            if not changed:
                break
