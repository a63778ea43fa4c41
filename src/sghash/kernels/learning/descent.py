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
def _lowest(first: Any, second: Any, third: Any, old: Any, scores: Any, lanes: Any) -> Any:
    """Where first - second - third (256,) is lowest; `old` if nothing is lower, else the first."""
    for v in range(256):
        scores[v] = first[v] - second[v] - third[v]
    # The lowest of every sixteenth number, side by side: one after the other is not vectorised.
    for lane in range(16):
        lanes[lane] = scores[lane]
    for chunk in range(1, 16):
        for lane in range(16):
            score = scores[16 * chunk + lane]
            lanes[lane] = score if score < lanes[lane] else lanes[lane]
    best = scores[old]
    for lane in range(16):
        best = lanes[lane] if lanes[lane] < best else best
    if not best < scores[old]:
        return old
    chosen = 0
    # Bounded, for sums that overflowed may equal nothing.
    while chosen < 255 and scores[chosen] != best:
        chosen += 1
    return chosen


@_fused
def descend_bytes(slopes: Any, before: Any, cross: Any, codes: Any, n_sweeps: int) -> Any:
    """Lower |x - sum_j T_j[h_j]|² of every row, byte by byte, until no byte could be better.

    `codes` h (n, B) uint8 are improved in place, in at most `n_sweeps` passes over the bytes.
    `slopes` (n, 256 B) must hold r . T_j[v] for r = x minus the codes' sum; those of byte j may be
    older, of the time when bytes j and later still were as in `before` (n, B). They are brought up
    to date byte by byte when these are looked at, from `cross` (256 B, 256 B), the inner products
    of all table rows: only changes cost more than a look. Returns how many bytes were changed.
    """
    n, n_parts = codes.shape
    scores, lanes = np.empty(256, dtype=np.float32), np.empty(16, dtype=np.float32)
    halves = np.empty(256 * n_parts, dtype=np.float32)
    for k in range(256 * n_parts):
        halves[k] = np.float32(0.5) * cross[k, k]
    # Table rows that went and came, in turn; each byte's slopes know of the first `known`.
    gone = np.empty(n_parts * (n_sweeps + 1), dtype=np.int64)
    come = np.empty(n_parts * (n_sweeps + 1), dtype=np.int64)
    known = np.empty(n_parts, dtype=np.int64)
    n_changes = 0
    for i in range(n):
        slope, n_known = slopes[i], 0
        for part in range(n_parts):
            known[part] = n_known
            if before[i, part] != codes[i, part]:
                gone[n_known] = 256 * part + np.int64(before[i, part])
                come[n_known] = 256 * part + np.int64(codes[i, part])
                n_known += 1
        # So many bytes have to be looked at without a change until nothing can change any more.
        left, part = n_parts, 0
        for _ in range(n_sweeps * n_parts):
            first = 256 * part
            own = slope[first : first + 256]
            for change in range(known[part], n_known):
                old_row = cross[gone[change], first : first + 256]
                new_row = cross[come[change], first : first + 256]
                for v in range(256):
                    own[v] += old_row[v] - new_row[v]
            known[part] = n_known
            old = np.int64(codes[i, part])
            here = cross[first + old, first : first + 256]
            new = _lowest(halves[first : first + 256], own, here, old, scores, lanes)
            left -= 1
            if new != old:
                codes[i, part] = new
                gone[n_known], come[n_known] = first + old, first + new
                n_known += 1
                n_changes += 1
                left = n_parts
            if left == 0:
                break
            part = part + 1 if part + 1 < n_parts else 0
    return n_changes


@_fused
def choose_bytes(
    products: Any, part: int, own: Any, table: Any, residuals: Any, values: Any
) -> Any:
    """Choose byte `part` of every row anew, given all others: one step for a whole block.

    `residuals` r (n, d) = x - sum_j T_j[h_j] are kept so; `products` (n, B, 256) must hold r . T[v]
    at `part` for the rows T[v] (256, d) of this byte's `table`, `own` (256, 256) must be
    |T[v]|² / 2 - T[u] . T[v]; `values` (n,) uint8 are the byte's. Returns how many were changed.
    """
    scores, lanes = np.empty(256, dtype=np.float32), np.empty(16, dtype=np.float32)
    nothing = np.zeros(256, dtype=np.float32)
    n_changes = 0
    for i in range(len(values)):
        old = np.int64(values[i])
        new = _lowest(own[old], products[i, part], nothing, old, scores, lanes)
        if new != old:
            values[i] = new
            n_changes += 1
            residual, gone, come = residuals[i], table[old], table[new]
            for k in range(len(residual)):
                residual[k] += gone[k] - come[k]
    return n_changes
