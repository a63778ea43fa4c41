"""Kept vectors of eight or four bits a number: made, and turned back.

A vector loses its mean, is rotated (`rotation`), and each number takes the nearest of 255 even
levels, or of 16 levels v (450 + v^2), v odd, which lie about as a normal distribution wants them.
The scale is the one that leaves the smallest angle. What is kept of the rest makes inner products
unbiased and exact in the vector's own direction, as in RaBitQ (Gao and others, 2025).
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.errors import InvalidDtype, InvalidInput
from sghash.kernels.checks import FLOAT32, check_array
from sghash.kernels.compiling import announce, compiled
from sghash.kernels.lanes import OFFSET, addresses, load
from sghash.kernels.threads import cut, run
from sghash.kernels.vectors.kinds import KINDS, SMALL, TAIL, is_small, row_columns
from sghash.kernels.vectors.rotation import rotate, rotate_back
from sghash.validation import Vectors, check_choice

#: Level of the odd number v of a code: v * (BEND + v * v); and the largest.
BEND = 450
MOST_LEVEL = 15 * (BEND + 225)

# Scales that are tried for levels of four bits, as shares of what is usual.
_SCALES = np.linspace(0.85, 1.2, 8).astype(np.float32)
# The usual one: that of a normal distribution with a deviation of one.
_USUAL = np.float32(2.9 / MOST_LEVEL)
# Between the magnitudes of two levels each.
_BETWEEN = np.asarray([
    (v * (BEND + v * v) + (v + 2) * (BEND + (v + 2) ** 2)) / 2 for v in range(1, 14, 2)
], dtype=np.float32)  # fmt: skip
# Vectors that are made at a time, so that Ctrl-C is heard.
_PIECE = 4096


def shrink(vectors: Vectors, kind: str, *, threads: int = 1) -> NDArray[Any]:
    """Rows (n, columns) of a small `kind` for vectors (n, d) float32, which must be finite."""
    check_choice(kind, SMALL, name="kind")
    check_array(vectors, FLOAT32, 2, "vectors")
    announce(_shrink, "shrinking")
    n, width = vectors.shape
    out = np.empty((n, row_columns(KINDS[kind], width)), dtype=KINDS[kind])
    tails = np.empty((n, 3), dtype=np.float32)

    def work(start: int, stop: int, stopped: threading.Event) -> None:
        for first in range(start, stop, _PIECE):
            if not stopped.is_set():
                part = slice(first, min(first + _PIECE, stop))
                _shrink(vectors[part], out[part], kind == "int4", tails[part])

    run([(work, part) for part in cut(n, threads)])
    if not np.isfinite(tails).all():
        raise InvalidInput(
            f"the vectors hold values too large for {kind}: rescale them, or create the "
            'collection with keep_vectors="float32"'
        )
    out[:, -TAIL:] = tails.astype("<f4").view(out.dtype)
    return out


def grow(kept: NDArray[Any], width: int, *, threads: int = 1) -> Vectors:
    """Vectors (n, `width`) float32 for rows of a small kind: of the length they had."""
    check_small(kept, width)
    announce(_grow, "growing")
    out = np.empty((len(kept), width), dtype=np.float32)

    def work(start: int, stop: int, stopped: threading.Event) -> None:
        for first in range(start, stop, _PIECE):
            if not stopped.is_set():
                part = slice(first, min(first + _PIECE, stop))
                _grow(kept[part], kept.dtype != np.int8, out[part])

    run([(work, part) for part in cut(len(kept), threads)])
    return out


def check_small(kept: NDArray[Any], width: int) -> None:
    """Refuse rows that are not of vectors of `width` numbers."""
    if not isinstance(kept, np.ndarray) or not is_small(kept):
        came = kept.dtype if isinstance(kept, np.ndarray) else type(kept).__name__
        raise InvalidDtype(f"kept must be an array of int8 or uint8, got {came}: use shrink")
    check_array(kept, kept.dtype, 2, "kept")
    columns = row_columns(kept.dtype, width)
    if kept.shape[1] != columns:
        raise InvalidInput(
            f"rows for vectors of {width} numbers have {columns} bytes, these have "
            f"{kept.shape[1]}: use vectors of the same kind"
        )


@compiled
def level_of(code: Any) -> Any:
    """The level that four bits stand for."""
    odd = 2 * np.int64(code) - 15
    return odd * (BEND + odd * odd)


@compiled
def level_at(kept: NDArray[Any], row: int, i: int, four: bool) -> Any:
    """The level of one number of a row."""
    if four:
        return level_of((np.int64(kept[row, i >> 1]) >> (4 * (i & 1))) & 15)
    return np.int64(kept[row, i])


@compiled
def centred(x: NDArray[np.float32], out: NDArray[np.float32]) -> Any:
    """What is left without the mean, divided by its largest magnitude; that, and the mean."""
    width = x.shape[0]
    total, most = 0.0, 0.0
    for i in range(width):
        total += np.float64(x[i])
    mean = np.float64(np.float32(total / width))
    for i in range(width):
        most = max(most, abs(np.float64(x[i]) - mean))
    if most == 0:
        out[:] = 0
        return 0.0, mean
    for i in range(width):
        out[i] = np.float32((np.float64(x[i]) - mean) / most)
    return most, mean


@compiled
def _nearest(x: NDArray[np.float32], scale: float, codes: NDArray[np.uint8]) -> float:
    """Codes of the levels nearest to x / scale; how near they are to its direction."""
    for i in range(x.shape[0]):
        size = abs(x[i]) / np.float32(scale)
        above = np.uint8(8)
        for j in range(7):
            above += np.uint8(1) if size > _BETWEEN[j] else np.uint8(0)
        codes[i] = above if x[i] >= 0 else np.uint8(15) - above
    product, square = 0.0, 0.0
    for i in range(x.shape[0]):
        level = np.float64(level_of(codes[i]))
        product += level * np.float64(x[i])
        square += level * level
    return product / np.sqrt(square)


@compiled
def _shrink(
    vectors: NDArray[np.float32], out: NDArray[Any], four: bool, tails: NDArray[np.float32]
) -> None:
    width = vectors.shape[1]
    x, spare = np.empty(width, dtype=np.float32), np.empty(width, dtype=np.float32)
    codes, best = np.empty(width, dtype=np.uint8), np.empty(width, dtype=np.uint8)
    for row in range(vectors.shape[0]):
        most, mean = centred(vectors[row], x)
        out[row, :] = 0
        tails[row, 0], tails[row, 1], tails[row, 2] = 0, 0, mean
        if most == 0:
            continue
        rotate(x, spare)
        square, product, largest = 0.0, 0.0, np.float32(0)
        for i in range(width):
            square += np.float64(x[i]) * np.float64(x[i])
            largest = max(largest, abs(x[i]))
        if four:
            usual, nearest = np.sqrt(square / width) * _USUAL, -1.0
            for share in _SCALES:
                near = _nearest(x, usual * share, codes)
                if near > nearest:
                    nearest = near
                    best[:] = codes
            for i in range(width):
                product += np.float64(x[i]) * np.float64(level_of(best[i]))
                out[row, i >> 1] |= best[i] << np.uint8(4 * (i & 1))
        else:
            for i in range(width):
                code = np.int64(np.rint(x[i] / largest * np.float32(127)))
                product += np.float64(x[i]) * np.float64(code)
                out[row, i] = code
        tails[row, 0], tails[row, 1] = square / product * most, np.sqrt(square) * most


@compiled
def _grow(kept: NDArray[Any], four: bool, out: NDArray[np.float32]) -> None:
    width, n_bytes = out.shape[1], kept.shape[1] - TAIL
    x, spare = np.empty(width, dtype=np.float32), np.empty(width, dtype=np.float32)
    for row in range(kept.shape[0]):
        length = np.float64(float_at(kept, row * kept.shape[1] + n_bytes + 4))
        mean = np.float64(float_at(kept, row * kept.shape[1] + n_bytes + 8))
        square = 0.0
        for i in range(width):
            level = np.float64(level_at(kept, row, i, four))
            x[i] = level
            square += level * level
        rotate_back(x, spare)
        scale = length / np.sqrt(square) if square > 0 else 0.0
        for i in range(width):
            out[row, i] = np.float32(np.float64(x[i]) * scale + mean)


@intrinsic
def float_at(typing_context: Any, array: Any, offset: Any) -> Any:
    """The float32 so many bytes into an array, at any place."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (address,) = addresses(context, builder, signature, arguments)
        return load(builder, address, kind=ir.FloatType(), align=1)

    return types.float32(array, OFFSET), emit
