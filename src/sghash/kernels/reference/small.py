"""Kept vectors of a small kind, step by step as the fast kernels define them.

Sums run from the first number to the last (`cumsum`), for another order rounds otherwise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.vectors.kinds import KINDS, TAIL, code_bytes, tails_of
from sghash.validation import Ids, Vectors

LEVELS = np.asarray([v * (450 + v * v) for v in range(-15, 16, 2)], dtype=np.int64)
_WORD = (1 << 64) - 1


def rotated(x: Vectors) -> Vectors:
    """Rows (n, d), each rotated."""
    for order, steps in _rounds(x.shape[1]):
        x = x[:, order]
        for signs, part in steps:
            x = x * signs
            x[:, part] = _hadamard(x[:, part])
    return x


def rotated_back(x: Vectors) -> Vectors:
    """What rows were before they were rotated."""
    for order, steps in reversed(_rounds(x.shape[1])):
        for signs, part in reversed(steps):
            x = x.copy()
            x[:, part] = _hadamard(x[:, part])
            x *= signs
        before = np.empty_like(x)
        before[:, order] = x
        x = before
    return x


def _rounds(width: int) -> list[tuple[NDArray[np.int64], list[tuple[Vectors, slice]]]]:
    """Where numbers come from; then signs, and what is transformed, once or twice."""
    stride = max(1, int(width * 0.6180339887498949))
    while math.gcd(stride, width) > 1:
        stride += 1
    order, parts = np.arange(width) * stride % width, _parts(width)
    n_rounds = 3 if len(parts) == 1 else 2
    signs = iter(_signs(width, n_rounds * len(parts)))
    return [(order, [(next(signs), part) for part in parts]) for _ in range(n_rounds)]


def _signs(width: int, count: int) -> Vectors:
    """Signs (count, width): bits of the SplitMix64 generator, 64 at a time."""
    signs = []
    for place in range(count * -(-width // 64)):
        word = (place + 1) * 0x9E3779B97F4A7C15 & _WORD
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
        word ^= word >> 31
        signs += [-1.0 if word >> bit & 1 else 1.0 for bit in range(64)]
    return np.asarray(signs, dtype=np.float32).reshape(count, -1)[:, :width]


def _parts(width: int) -> list[slice]:
    """The first 2^m numbers, and the last where those are others."""
    size = 1 << (width.bit_length() - 1)
    return [slice(0, size)] if size == width else [slice(0, size), slice(width - size, width)]


def _hadamard(x: Vectors) -> Vectors:
    n, size = x.shape
    x = x * np.float32(1 / np.sqrt(size))
    half = 1
    while half < size:
        pairs = x.reshape(n, -1, 2, half)
        a, b = pairs[:, :, 0], pairs[:, :, 1]
        x = np.stack([a + b, a - b], axis=2).reshape(n, size)
        half *= 2
    return x


def _sum(values: NDArray[Any]) -> NDArray[Any]:
    return np.cumsum(values, axis=1)[:, -1:]


class _Centred(NamedTuple):
    """Rows without their means, over their largest magnitude; both of these (n, 1)."""

    rows: Vectors
    most: NDArray[np.float64]
    mean: NDArray[np.float64]


def _centred(vectors: Vectors) -> _Centred:
    wide = vectors.astype(np.float64)
    mean = (_sum(wide) / vectors.shape[1]).astype(np.float32).astype(np.float64)
    left = wide - mean
    most = np.abs(left).max(axis=1, keepdims=True)
    return _Centred((left / np.where(most > 0, most, 1)).astype(np.float32), most, mean)


def _codes(x: Vectors, kind: str) -> NDArray[np.int64]:
    """The integer of every number: of 255, or of 16 by the best of eight scales."""
    if kind == "int8":
        largest = np.abs(x).max(axis=1, keepdims=True)
        return np.rint(x / np.where(largest > 0, largest, 1) * np.float32(127)).astype(np.int64)
    between = ((LEVELS[8:-1] + LEVELS[9:]) / 2).astype(np.float32)
    wide = x.astype(np.float64)
    usual = np.sqrt(_sum(wide * wide) / x.shape[1]) * np.float64(np.float32(2.9 / 10125))
    best, nearest = np.zeros(x.shape, dtype=np.int64), np.full((len(x), 1), -1.0)
    for share in np.linspace(0.85, 1.2, 8).astype(np.float32):
        scale = (usual * np.float64(share)).astype(np.float32)
        above = 8 + np.searchsorted(between, np.abs(x) / np.where(scale > 0, scale, 1))
        codes = np.where(x >= 0, above, 15 - above)
        levels = LEVELS[codes].astype(np.float64)
        near = _sum(levels * wide) / np.sqrt(_sum(levels * levels))
        best, nearest = np.where(near > nearest, codes, best), np.maximum(near, nearest)
    return best


def shrink(vectors: Vectors, kind: str, *, threads: int = 1) -> NDArray[Any]:
    """Rows (n, columns) of a small kind."""
    n, width = vectors.shape
    left, most, mean = _centred(vectors)
    x = rotated(left)
    codes = _codes(x, kind)
    wide = x.astype(np.float64)
    levels = (codes if kind == "int8" else LEVELS[codes]).astype(np.float64)
    square, product = _sum(wide * wide), _sum(wide * levels)
    there = most > 0
    factor = np.divide(square, product, out=np.zeros_like(square), where=there) * most
    tails = np.hstack([factor, np.sqrt(square) * most * there, mean]).astype("<f4")
    codes = np.where(there, codes, 0)
    out = np.zeros((n, code_bytes(KINDS[kind], width) + TAIL), dtype=KINDS[kind])
    if kind == "int8":
        out[:, :width] = codes
    else:
        halves = np.zeros((n, 2 * (out.shape[1] - TAIL)), dtype=np.uint8)
        halves[:, :width] = codes
        out[:, :-TAIL] = halves[:, ::2] | halves[:, 1::2] << 4
    out[:, -TAIL:] = tails.view(out.dtype)
    return out


def levels_of(kept: NDArray[Any], width: int) -> NDArray[np.int64]:
    """The levels (n, width) that rows hold."""
    codes = kept[:, :-TAIL]
    if kept.dtype == np.int8:
        return codes.astype(np.int64)
    halves = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(kept), -1)
    return LEVELS[halves[:, :width]]


def grow(kept: NDArray[Any], width: int, *, threads: int = 1) -> Vectors:
    """Vectors of the direction of the levels and the length they had."""
    levels, (_, length, mean) = levels_of(kept, width), tails_of(kept).astype(np.float64).T
    square = _sum(levels.astype(np.float64) ** 2)[:, 0]
    scale = np.divide(length, np.sqrt(square), out=np.zeros_like(length), where=square > 0)
    x = rotated_back(levels.astype(np.float32)).astype(np.float64)
    return np.asarray(x * scale[:, None] + mean[:, None], dtype=np.float32)


def small_distances(kept: NDArray[Any], rows: Ids, queries: Vectors, metric: str) -> Vectors:
    """Distances (n_queries, m) of rows of a small kind; infinite where a row is negative."""
    width = queries.shape[1]
    left, most, mean = _centred(queries)
    square = _sum(left.astype(np.float64) ** 2) * most * most
    x = rotated(left)
    largest = np.abs(x).max(axis=1, keepdims=True)
    # What a query is rounded to: no sum of 32 bits may overflow.
    level = 127 if kept.dtype == np.int8 else 10125
    top = min(32767, (2**31 - 1) // (2 * level * -(-code_bytes(kept.dtype, width) // 32)))
    scale = np.divide(np.float32(top), largest, out=np.zeros_like(largest), where=largest > 0)
    integers = np.rint(x * scale).astype(np.int64)
    step = most * largest.astype(np.float64) / top
    factor, length, own = tails_of(kept).astype(np.float64).T[:, None]
    product = (integers @ levels_of(kept, width).T) * step * factor
    if metric == "l2":
        apart = square - 2 * product + length * length + width * (mean - own) * (mean - own)
        found = np.maximum(apart, 0.0)
    else:
        product = product + width * mean * own
        found = -product
        if metric == "cosine":
            whole = np.sqrt(square + width * mean * mean)
            both = np.sqrt(length * length + width * own * own) * whole
            cosine = np.divide(product, both, out=np.zeros_like(product), where=both > 0)
            found = 1.0 - np.clip(cosine, -1.0, 1.0)
    chosen = np.take_along_axis(found.astype(np.float32), np.maximum(rows, 0), axis=1)
    return np.where(rows < 0, np.float32(np.inf), chosen)
