"""Distances of queries to kept vectors of a small kind, by sums of integers.

A query loses its mean, is rotated as the rows were, and rounded to 16 bits. Its products with the
levels of a row are then sums of integers: exact, and the same on every CPU. They are computed 32
bytes of a row at a time, as pairs of bytes: a level is made of four bits of each pair by arithmetic
alone, so nothing is looked up.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.kernels.compiling import announce, compiled
from sghash.kernels.lanes import OFFSET, Address, addresses, constant, load, prefetch
from sghash.kernels.vectors.kinds import TAIL
from sghash.kernels.vectors.rotation import rotate
from sghash.kernels.vectors.small import BEND, MOST_LEVEL, centred, float_at, level_at
from sghash.validation import METRICS

#: Bytes of a row that are compared at a time.
PIECE = 32
#: Numbers of a prepared query: what its integers are to be multiplied with, its square, its mean.
STEP, SQUARE, MEAN = range(3)
L2, IP, COSINE = range(3)

# Rows that are asked of the memory ahead of their use.
_AHEAD = 6
_SHORTS = ir.VectorType(ir.IntType(16), PIECE // 2)
_SUMS = ir.VectorType(ir.IntType(32), PIECE // 4)


def _pairs_known() -> bool:
    # For tests of the plain way; never with a shared cache, which does not know of it.
    if os.environ.get("SGHASH_SHUFFLE") == "0":
        return False
    return "+avx2" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")


# Whether one instruction multiplies and adds pairs.
_PAIRS = _pairs_known()


def small_distances(
    kept: NDArray[Any],
    rows: NDArray[np.int64],
    queries: NDArray[np.float32],
    metric: str,
    out: NDArray[np.float32],
) -> None:
    """Distances of queries to some rows each; checked by whoever calls."""
    announce(_all_distances, "rescoring")
    _all_distances(kept, rows, queries, kept.dtype != np.int8, METRICS.index(metric), out)


@compiled
def prepared_size(n_bytes: int, four: bool) -> int:
    """Integers of a prepared query: for pieces of a row, or one per number where it has none."""
    each = 4 if four else 2
    if n_bytes < PIECE:
        return n_bytes * each // 2
    return -(-n_bytes // PIECE) * each * (PIECE // 2)


@compiled
def prepare(
    query: NDArray[np.float32],
    four: bool,
    n_bytes: int,
    integers: NDArray[np.int16],
    numbers: NDArray[np.float64],
) -> None:
    """Rotate a query and round it, in the order in which `row_product` reads a row."""
    width = query.shape[0]
    x, spare = np.empty(width, dtype=np.float32), np.empty(width, dtype=np.float32)
    most, mean = centred(query, x)
    square, largest = 0.0, np.float32(0)
    for i in range(width):
        square += np.float64(x[i]) * np.float64(x[i])
    rotate(x, spare)
    for i in range(width):
        largest = max(largest, abs(x[i]))
    numbers[STEP], numbers[SQUARE], numbers[MEAN] = 0, square * most * most, mean
    integers[:] = 0
    if largest == 0:
        return
    # No sum of 32 bits may overflow: so many products of a pair go into one.
    n_pairs = -(-n_bytes // PIECE)
    level = MOST_LEVEL if four else 127
    top = min(32767, (2**31 - 1) // (2 * level * n_pairs))
    scale = np.float32(top) / largest
    numbers[STEP] = np.float64(most) * np.float64(largest) / np.float64(top)
    per_byte = 2 if four else 1
    if n_bytes < PIECE:
        for i in range(width):
            integers[i] = np.int16(np.rint(x[i] * scale))
        return
    groups = 2 * per_byte
    for piece in range(n_pairs):
        first = min(piece * PIECE, n_bytes - PIECE)
        for byte in range(piece * PIECE - first, PIECE):
            for half in range(per_byte):
                i = (first + byte) * per_byte + half
                if i < width:
                    group = (byte & 1) * per_byte + half
                    place = (piece * groups + group) * (PIECE // 2) + (byte >> 1)
                    integers[place] = np.int16(np.rint(x[i] * scale))


def _times_pairs(builder: Any, a: Any, b: Any) -> Any:
    """Products of 16-bit integers, two neighbours added each."""
    if _PAIRS:
        kind = ir.FunctionType(_SUMS, [_SHORTS, _SHORTS])
        name = "llvm.x86.avx2.pmadd.wd"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [a, b])
    parts = []
    for which in (0, 1):
        index = [2 * i + which for i in range(_SUMS.count)]
        places = ir.Constant(ir.VectorType(ir.IntType(32), _SUMS.count), index)
        x, y = (builder.sext(builder.shuffle_vector(v, v, places), _SUMS) for v in (a, b))
        parts.append(builder.mul(x, y))
    return builder.add(*parts)


def _same(kind: Any, value: int) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count)


def _groups(builder: Any, found: Any, four: bool) -> list[Any]:
    """The levels of 16 pairs of bytes: group by group, one of each pair."""
    if not four:
        low = builder.ashr(builder.shl(found, _same(_SHORTS, 8)), _same(_SHORTS, 8))
        return [low, builder.ashr(found, _same(_SHORTS, 8))]
    levels = []
    for group in range(4):
        # Twice the four bits, less 15.
        moved = builder.shl(found, _same(_SHORTS, 1))
        if group:
            moved = builder.lshr(found, _same(_SHORTS, 4 * group - 1))
        odd = builder.sub(builder.and_(moved, _same(_SHORTS, 30)), _same(_SHORTS, 15))
        bent = builder.add(builder.mul(odd, odd), _same(_SHORTS, BEND))
        levels.append(builder.mul(odd, bent))
    return levels


@intrinsic
def _pieces_product(
    typing_context: Any, kept: Any, at: Any, integers: Any, start: Any, n_bytes: Any
) -> Any:
    """Sum of the products of a row's levels and a prepared query, of 32 bytes or more."""
    four = kept.dtype == types.uint8
    n_groups = 4 if four else 2

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, query = addresses(context, builder, signature, arguments)
        n_bytes = arguments[4]
        sums = [cgutils.alloca_once_value(builder, _same(_SUMS, 0)) for _ in range(n_groups)]

        def add(place: Any, asked: Address) -> None:
            found = load(builder, row.plus(place), kind=_SHORTS, align=1)
            for group, levels in enumerate(_groups(builder, found, four)):
                wanted = load(builder, asked, PIECE * group, kind=_SHORTS, align=2)
                total = builder.load(sums[group])
                more = _times_pairs(builder, levels, wanted)
                builder.store(builder.add(total, more), sums[group])

        whole = builder.udiv(n_bytes, constant(PIECE))
        size = constant(PIECE * n_groups)
        with cgutils.for_range(builder, whole) as loop:
            add(builder.mul(loop.index, constant(PIECE)), query.plus(builder.mul(loop.index, size)))
        rest = builder.urem(n_bytes, constant(PIECE))
        with builder.if_then(builder.icmp_unsigned("!=", rest, constant(0))):
            # The last 32 bytes, some of them for the second time: the query is zero there.
            last = builder.sub(n_bytes, constant(PIECE))
            add(last, query.plus(builder.mul(whole, size)))
        wide = ir.VectorType(ir.IntType(64), _SUMS.count)
        total = _same(wide, 0)
        for part in sums:
            total = builder.add(total, builder.sext(builder.load(part), wide))
        return _across(builder, total)

    return types.int64(kept, OFFSET, integers, OFFSET, types.int64), emit


def _across(builder: Any, total: Any) -> Any:
    """The sum of all lanes."""
    count = total.type.count
    width = count // 2
    while width:
        places = [i + width if i < width else i for i in range(count)]
        index = ir.Constant(ir.VectorType(ir.IntType(32), count), places)
        total = builder.add(total, builder.shuffle_vector(total, total, index))
        width //= 2
    return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))


@compiled
def row_product(
    kept: NDArray[Any], row: int, integers: NDArray[np.int16], four: bool, n_bytes: int
) -> Any:
    """Sum of the products of a row's levels and a prepared query."""
    if n_bytes >= PIECE:
        return _pieces_product(kept, row * kept.shape[1], integers, 0, n_bytes)
    total = 0
    for i in range(integers.shape[0]):
        total += level_at(kept, row, i, four) * np.int64(integers[i])
    return total


@compiled
def distances_to_small(
    kept: NDArray[Any],
    rows: NDArray[np.int64],
    query: NDArray[np.float32],
    four: bool,
    metric: int,
    out: NDArray[np.float32],
) -> None:
    """Distances of a query to some rows; infinite to a row below 0."""
    n, width, n_bytes = rows.shape[0], query.shape[0], kept.shape[1] - TAIL
    integers = np.empty(prepared_size(n_bytes, four), dtype=np.int16)
    numbers = np.empty(3, dtype=np.float64)
    prepare(query, four, n_bytes, integers, numbers)
    step, square, mean = numbers[STEP], numbers[SQUARE], numbers[MEAN]
    whole = np.sqrt(square + width * mean * mean)
    row_bytes = kept.shape[1]
    for i in range(-_AHEAD, n):
        ahead = rows[i + _AHEAD] if i + _AHEAD < n else np.int64(-1)
        if ahead >= 0:
            for offset in range(0, row_bytes, 64):
                prefetch(kept, ahead * row_bytes + offset)
        if i < 0:
            continue
        row = rows[i]
        if row < 0:
            out[i] = np.inf
            continue
        tail = row * row_bytes + n_bytes
        factor, length = np.float64(float_at(kept, tail)), np.float64(float_at(kept, tail + 4))
        own = np.float64(float_at(kept, tail + 8))
        product = np.float64(row_product(kept, row, integers, four, n_bytes)) * step * factor
        if metric == L2:
            apart = square - 2 * product + length * length + width * (mean - own) * (mean - own)
            out[i] = np.float32(max(apart, 0.0))
            continue
        product += width * mean * own
        if metric == IP:
            out[i] = np.float32(-product)
            continue
        both = np.sqrt(length * length + width * own * own) * whole
        # A vector of no length has no direction: it is as far as a right angle.
        cosine = min(max(product / both, -1.0), 1.0) if both > 0 else 0.0
        out[i] = np.float32(1.0 - cosine)


@compiled
def _all_distances(
    kept: NDArray[Any],
    rows: NDArray[np.int64],
    queries: NDArray[np.float32],
    four: bool,
    metric: int,
    out: NDArray[np.float32],
) -> None:
    for query in range(rows.shape[0]):
        distances_to_small(kept, rows[query], queries[query], four, metric, out[query])
