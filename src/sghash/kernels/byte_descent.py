"""Codes whose bytes name rows of tables: choose each byte anew, given the others."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sghash.kernels.compiling import compiled

_fused = partial(compiled, error_model="numpy")


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
