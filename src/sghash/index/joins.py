"""All pairs of codes within a radius, through tables of keys or by a scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sghash.kernels import hamming_range
from sghash.validation import Codes

if TYPE_CHECKING:
    from sghash.kernels.multi.layout import Tables

#: Nanoseconds of a scan by row and 8 bytes of code: for a query alone, and for one among many.
SCAN_ALONE, SCAN_AMONG = 0.6, 0.1
_JOIN_ROWS = 1024


def pairs_within(
    codes: Codes, radius: int, n_bits: int, tables: Tables | None, way: str, threads: int
) -> NDArray[np.int64]:
    """Pairs of rows within a radius, the way that costs less."""
    n = len(codes)
    if tables is not None:
        from sghash.kernels.multi.joining import join_cost, multi_pairs

        scan = SCAN_AMONG * n * n * -(-codes.shape[1] // 8)
        if way == "tables" or join_cost(tables, radius) < scan:
            return np.stack(multi_pairs(tables, codes, radius, threads=threads), axis=1)
    found = [np.empty((0, 3), dtype=np.int64)]
    for start in range(0, n, _JOIN_ROWS):
        some = codes[start : start + _JOIN_ROWS]
        near = hamming_range(codes[start:], some, radius, n_bits=n_bits, threads=threads)
        own = np.repeat(np.arange(len(some)), np.diff(near.limits))
        pairs = np.stack([own + start, near.ids + start, near.distances], axis=1)
        pairs = pairs[near.ids > own]
        found.append(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))])
    return np.concatenate(found)
