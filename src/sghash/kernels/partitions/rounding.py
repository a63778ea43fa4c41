"""What a query adds to the score of a code, in bytes: exact for Hamming, rounded for tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import popcount
from sghash.kernels.partitions.block_lanes import MOST_HALF

# Sums of bytes end here, below the mark of a row that does not count.
_MOST_SUM = 60000


@compiled
def hamming_tables(code: NDArray[np.uint8], tables: NDArray[np.uint8]) -> None:
    """Tables (2 * n_bytes, 16) whose sums are Hamming distances to a code (n_bytes,)."""
    for byte in range(code.shape[0]):
        high, low = np.uint64(code[byte] >> 4), np.uint64(code[byte] & 15)
        for value in range(16):
            tables[2 * byte, value] = popcount(high ^ np.uint64(value))
            tables[2 * byte + 1, value] = popcount(low ^ np.uint64(value))


@compiled
def half_tables(slopes: NDArray[np.float32], tables: NDArray[np.float32]) -> None:
    """Tables (2 * n_bytes, 16) of sums of slopes (n_bits,) over the bits of halves of bytes."""
    n_bits = slopes.shape[0]
    for half in range(tables.shape[0]):
        tables[half, 0] = 0
        for i in range(4):
            # The last bit of a half is its lowest: doubling goes from it upwards.
            bit = 4 * half + 3 - i
            slope = slopes[bit] if bit < n_bits else np.float32(0)
            size = 1 << i
            for value in range(size):
                tables[half, size + value] = tables[half, value] + slope


@compiled
def round_tables(tables: NDArray[np.float32], term_step: float, out: NDArray[np.uint8]) -> Any:
    """Bytes for tables (n, size), rounded down on one scale; how many to the unit, and the factor.

    Where codes have terms of their own, a level of one is `term_step`, and factor / 256 is what it
    counts. A sum of bytes is below the scaled score, above a constant, by less than the number of
    tables, plus two and a level's worth for terms.
    """
    n, size = tables.shape
    widest = 0.0
    for i in range(n):
        low, high = tables[i, 0], tables[i, 0]
        for value in range(1, size):
            low, high = min(low, tables[i, value]), max(high, tables[i, value])
        widest = max(widest, np.float64(high) - np.float64(low))
    most = min(MOST_HALF if size == 16 else 255, _MOST_SUM // 2 // n)
    scale = most / widest if widest > 0 else 1.0
    if term_step > 0:
        scale = min(scale, _MOST_SUM / 2 / (256 * term_step))
    for i in range(n):
        low = tables[i, 0]
        for value in range(1, size):
            low = min(low, tables[i, value])
        for value in range(size):
            out[i, value] = np.uint8((np.float64(tables[i, value]) - np.float64(low)) * scale)
    return scale, np.int64(term_step * scale * 256)
