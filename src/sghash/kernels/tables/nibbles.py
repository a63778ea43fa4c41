"""Sums of table entries for 256 codes at once: sixteen entries are one byte shuffle.

Needs a CPU with AVX2; `AVAILABLE` says whether this one has it. A tile of codes is turned so that
a vector holds the same four bits of 32 codes; it then selects from a table of sixteen bytes in one
instruction. Sums saturate at 255, which means: too far to be of interest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import OFFSET, Address, addresses, constant, load, store

ROWS = 32
BLOCKS = 8
TILE_ROWS = ROWS * BLOCKS
# One group of four bits of a tile: 8 vectors of 32 bytes.
GROUP_BYTES = ROWS * BLOCKS

_BYTES = ir.VectorType(ir.IntType(8), 32)
_LANE = ir.VectorType(ir.IntType(8), 16)
_WORDS = ir.VectorType(ir.IntType(16), 16)
_I32 = ir.IntType(32)
_SHUFFLE = "llvm.x86.avx2.pshuf.b"


def _has_shuffle() -> bool:
    # For tests of the plain way; never with a shared cache, which does not know of it.
    if os.environ.get("SGHASH_SHUFFLE") == "0":
        return False
    features = cpu_target.target_context.codegen().magic_tuple()[2]
    return "+avx2" in features.split(",")


AVAILABLE = _has_shuffle()


def _function(builder: Any, name: str) -> Any:
    found = builder.module.globals.get(name)
    if found is None:
        found = ir.Function(builder.module, ir.FunctionType(_BYTES, [_BYTES, _BYTES]), name=name)
    return found


def _load(builder: Any, address: Address, offset: int = 0, kind: Any = _BYTES) -> Any:
    return load(builder, address, offset, kind=kind, align=1)


def _pick(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(places)), places))


def _unpack(builder: Any, a: Any, b: Any, bits: int) -> tuple[Any, Any]:
    """Units of so many bits of two vectors in turn: those of the lower half of lanes, the upper.

    Everything stays in its lane of 128 bits, as in the instructions: to cross lanes costs more.
    """
    n = 128 // bits
    kind = ir.VectorType(ir.IntType(bits), 2 * n)
    a, b = builder.bitcast(a, kind), builder.bitcast(b, kind)
    low, high = (
        [vector + lane + unit for lane in (0, n) for unit in half for vector in (0, 2 * n)]
        for half in (range(n // 2), range(n // 2, n))
    )
    return _pick(builder, a, b, low), _pick(builder, a, b, high)


def _planes(builder: Any, pairs: list[Any]) -> list[Any]:
    """Eight vectors with two rows of eight bytes per lane, turned: vector b holds byte b of all.

    The rows of a lane stay in order: first those of the first vector.
    """
    together = [lane + byte + row for lane in (0, 16) for byte in range(8) for row in (0, 8)]
    groups: list[Any] = [[_pick(builder, pair, pair, together) for pair in pairs]]
    for bits in (16, 32, 64):
        halves: list[Any] = []
        for group in groups:
            couples = zip(group[::2], group[1::2], strict=True)
            halves += zip(*(_unpack(builder, a, b, bits) for a, b in couples), strict=True)
        groups = halves
    return [builder.bitcast(group[0], _BYTES) for group in groups]


def _nibbles(builder: Any, plane: Any) -> tuple[Any, Any]:
    """The high and the low nibble of each byte."""
    four, low = ir.Constant(_BYTES, [4] * 32), ir.Constant(_BYTES, [15] * 32)
    return builder.lshr(plane, four), builder.and_(plane, low)


def _row_pairs(builder: Any, source: Address, stride: Any) -> list[Any]:
    """Eight bytes of 32 rows as `_planes` wants them; lane 0 holds rows 0 to 15, in order.

    Rows of eight bytes lie side by side (`stride` None).
    """
    vectors = []
    for first in range(0, 16, 2):
        if stride is None:
            lower, upper = (_load(builder, source, 8 * row, _LANE) for row in (first, first + 16))
            vectors.append(_pick(builder, lower, upper, list(range(32))))
            continue
        vector = ir.Constant(ir.VectorType(ir.IntType(64), 4), ir.Undefined)
        for place, row in enumerate((first, first + 1, first + 16, first + 17)):
            offset = builder.mul(stride, constant(row))
            word = _load(builder, source.plus(offset), kind=ir.IntType(64))
            vector = builder.insert_element(vector, word, ir.Constant(_I32, place))
        vectors.append(builder.bitcast(vector, _BYTES))
    return vectors


def _cheap_pairs(builder: Any, source: Address, n_words: int) -> Iterator[list[Any]]:
    """For each word of 32 codes, vectors as `_planes` wants them, rows as the loads bring them."""
    if n_words == 1:
        yield [_load(builder, source, 32 * i) for i in range(8)]
        return
    for half in (0, 1):
        loads = [_load(builder, source, 32 * i) for i in range(16)]
        couples = zip(loads[::2], loads[1::2], strict=True)
        words = [_unpack(builder, a, b, 64)[half] for a, b in couples]
        yield [builder.bitcast(word, _BYTES) for word in words]


@intrinsic
def block_below(
    typing_context: Any,
    codes: Any,
    codes_at: Any,
    tables: Any,
    tables_at: Any,
    levels: Any,
    levels_at: Any,
    wide: Any,
) -> Any:
    """Like `below_saturation` for 32 codes where they lie: a bit per code.

    Codes have eight bytes, or sixteen where `wide` is not None. For a single query there is
    nothing to share, so nothing is stored on the way, and codes are loaded as it is cheapest:
    `rows_in_order` puts the bits in order, which is rarely needed. `levels` is None, or has
    a byte per code whose two nibbles select from the last two tables.
    """
    levelled = not isinstance(levels, types.NoneType)
    n_words = 1 if isinstance(wide, types.NoneType) else 2

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, table_place, *level_place = addresses(context, builder, signature, arguments)
        shuffle, add = _function(builder, _SHUFFLE), _function(builder, "llvm.uadd.sat.v32i8")
        # Two sums, so that one need not wait for the other.
        sums = [ir.Constant(_BYTES, [0] * 32)] * 2

        def select(plane: Any, first: int) -> None:
            for i, nibble in enumerate(_nibbles(builder, plane)):
                table = _load(builder, table_place, 32 * (first + i))
                chosen = builder.call(shuffle, [table, nibble])
                sums[i] = builder.call(add, [sums[i], chosen])

        for word, pairs in enumerate(_cheap_pairs(builder, source, n_words)):
            for byte, plane in enumerate(_planes(builder, pairs)):
                select(plane, 16 * word + 2 * byte)
        if levelled:
            # In the order of the rows: units of one row or two to the lower lane and the upper.
            kind = _WORDS if n_words == 1 else _BYTES
            units = builder.bitcast(_load(builder, level_place[0]), kind)
            order = [*range(0, kind.count, 2), *range(1, kind.count, 2)]
            select(builder.bitcast(_pick(builder, units, units, order), _BYTES), 16 * n_words)
        total = builder.call(add, sums)
        near = builder.icmp_unsigned("!=", total, ir.Constant(_BYTES, [255] * 32))
        return builder.zext(builder.bitcast(near, _I32), ir.IntType(64))

    last = types.none if n_words == 1 else types.boolean
    memory = (codes, OFFSET, tables, OFFSET, levels, OFFSET)
    return types.uint64(*memory, last), emit


@compiled
def rows_in_order(marks: np.uint64, wide: bool) -> np.uint64:
    """Bits of `block_below` so that bit i is code i.

    The lower 16 of them and the upper belong to codes in turn: two and two, or, of codes that
    are `wide`, one and one.
    """
    units = (marks & np.uint64(0xFFFF)) | (marks & np.uint64(0xFFFF0000)) << np.uint64(16)
    units = (units | units << np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    units = (units | units << np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    units = (units | units << np.uint64(2)) & np.uint64(0x3333333333333333)
    if not wide:
        return (units | units >> np.uint64(30)) & np.uint64(0xFFFFFFFF)
    units = (units | units << np.uint64(1)) & np.uint64(0x5555555555555555)
    return (units | units >> np.uint64(31)) & np.uint64(0xFFFFFFFF)


@intrinsic
def turn_block(
    typing_context: Any, source: Any, source_at: Any, stride: Any, target: Any, target_at: Any
) -> Any:
    """Turn eight bytes of 32 rows, `stride` bytes apart (None: eight), into vectors of nibbles.

    The vector of nibble g, high nibble of a byte first, goes to `target_at` + g * GROUP_BYTES.
    """
    side_by_side = isinstance(stride, types.NoneType)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        here, there = addresses(context, builder, signature, arguments)
        pairs = _row_pairs(builder, here, None if side_by_side else arguments[2])
        for byte, plane in enumerate(_planes(builder, pairs)):
            for half, nibble in enumerate(_nibbles(builder, plane)):
                store(builder, nibble, there, (2 * byte + half) * GROUP_BYTES, align=1)
        return context.get_dummy_value()

    kind = types.none if side_by_side else types.int64
    return types.void(source, OFFSET, kind, target, OFFSET), emit


@intrinsic
def below_saturation(
    typing_context: Any,
    planes: Any,
    planes_at: Any,
    tables: Any,
    tables_at: Any,
    n_groups: Any,
    out: Any,
    out_at: Any,
) -> Any:
    """Sum table entries of a tile; write a bit per code that is not saturated, return if any is.

    `tables` has 32 bytes per group (the sixteen entries twice), `out` takes BLOCKS words of 32.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first_plane, first_table, target = addresses(context, builder, signature, arguments)
        zero = ir.Constant(_BYTES, [0] * 32)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(BLOCKS)]
        shuffle, add = _function(builder, _SHUFFLE), _function(builder, "llvm.uadd.sat.v32i8")
        with cgutils.for_range(builder, arguments[4]) as loop:
            group = loop.index
            table = _load(builder, first_table.plus(builder.mul(group, constant(32))))
            plane = first_plane.plus(builder.mul(group, constant(GROUP_BYTES)))
            for block, place in enumerate(sums):
                chosen = builder.call(shuffle, [table, _load(builder, plane, block * ROWS)])
                builder.store(builder.call(add, [builder.load(place), chosen]), place)
        full = ir.Constant(_BYTES, [255] * 32)
        totals = [builder.load(place) for place in sums]
        together = totals[0]
        for total in totals[1:]:
            together = builder.and_(together, total)
        some = builder.icmp_unsigned("!=", together, full)
        found = builder.icmp_unsigned("!=", builder.bitcast(some, _I32), ir.Constant(_I32, 0))
        with builder.if_then(found, likely=False):
            for block, total in enumerate(totals):
                near = builder.bitcast(builder.icmp_unsigned("!=", total, full), _I32)
                store(builder, near, target, 4 * block, align=4)
        return found

    memory = (planes, OFFSET, tables, OFFSET)
    return types.boolean(*memory, types.int64, out, OFFSET), emit
