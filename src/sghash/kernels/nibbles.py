"""Sums of table entries for 256 codes at once: sixteen entries are one byte shuffle.

Needs a CPU with AVX2; `AVAILABLE` says whether this one has it. A tile of codes is turned so that
a vector holds the same four bits of 32 codes; it then selects from a table of sixteen bytes in one
instruction. Sums saturate at 255, which means: too far to be of interest.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from sghash.kernels.lanes import ADDRESS, constant

ROWS = 32
BLOCKS = 8
TILE_ROWS = ROWS * BLOCKS
# One group of four bits of a tile: 8 vectors of 32 bytes.
GROUP_BYTES = ROWS * BLOCKS

_BYTES = ir.VectorType(ir.IntType(8), 32)
_QUADS = ir.VectorType(ir.IntType(32), 8)
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


def _at(builder: Any, address: Any, offset: int) -> Any:
    return builder.inttoptr(builder.add(address, constant(offset)), ir.PointerType())


def _load(builder: Any, address: Any, offset: int = 0, kind: Any = _BYTES) -> Any:
    return builder.load(_at(builder, address, offset), align=1, typ=kind)


def _pick(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(places)), places))


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Eight vectors of eight 32-bit lanes: lane i of vector j becomes lane j of vector i."""
    low, high = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
    pairs = []
    for i in range(0, 8, 2):
        pairs += [
            _pick(builder, rows[i], rows[i + 1], low),
            _pick(builder, rows[i], rows[i + 1], high),
        ]
    first, second = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
    fours = []
    for i in (0, 4):
        for j in (0, 1):
            a, b = pairs[i + j], pairs[i + j + 2]
            fours += [_pick(builder, a, b, first), _pick(builder, a, b, second)]
    left, right = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
    lower = [_pick(builder, fours[i], fours[i + 4], left) for i in range(4)]
    upper = [_pick(builder, fours[i], fours[i + 4], right) for i in range(4)]
    return [*lower, *upper]


def _four_rows(builder: Any, source: Any, stride: Any, first: int) -> Any:
    """Eight bytes of each of four rows; rows of eight bytes lie side by side (`stride` None)."""
    if stride is None:
        return _load(builder, source, 8 * first)
    vector = ir.Constant(ir.VectorType(ir.IntType(64), 4), ir.Undefined)
    for row in range(4):
        offset = builder.mul(stride, constant(first + row))
        word = _load(builder, builder.add(source, offset), kind=ir.IntType(64))
        vector = builder.insert_element(vector, word, ir.Constant(_I32, row))
    return builder.bitcast(vector, _BYTES)


def _turned(builder: Any, source: Any, stride: Any) -> list[Any]:
    """The 16 vectors of nibbles of eight bytes of 32 rows, high nibble of a byte first."""
    # Byte b of row r, r < 4, from place 8 r + b to place 4 b + r.
    gather = [8 * row + byte for byte in range(8) for row in range(4)]
    quads = []
    for first in range(0, 32, 4):
        flat = _four_rows(builder, source, stride, first)
        quads.append(builder.bitcast(_pick(builder, flat, flat, gather), _QUADS))
    four, low = ir.Constant(_BYTES, [4] * 32), ir.Constant(_BYTES, [15] * 32)
    nibbles = []
    for lanes in _transpose(builder, quads):
        plane = builder.bitcast(lanes, _BYTES)
        nibbles += [builder.lshr(plane, four), builder.and_(plane, low)]
    return nibbles


@intrinsic
def block_below(typing_context: Any, source: Any, tables: Any) -> Any:
    """Like `below_saturation` for 32 codes of eight bytes where they lie: a bit per code.

    For a single query there is nothing to share, so nothing is stored on the way.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, tables = arguments
        shuffle, add = _function(builder, _SHUFFLE), _function(builder, "llvm.uadd.sat.v32i8")
        total = ir.Constant(_BYTES, [0] * 32)
        for group, nibble in enumerate(_turned(builder, source, None)):
            chosen = builder.call(shuffle, [_load(builder, tables, 32 * group), nibble])
            total = builder.call(add, [total, chosen])
        near = builder.icmp_unsigned("!=", total, ir.Constant(_BYTES, [255] * 32))
        return builder.zext(builder.bitcast(near, _I32), ir.IntType(64))

    return types.uint64(ADDRESS, ADDRESS), emit


@intrinsic
def turn_block(typing_context: Any, source: Any, stride: Any, target: Any) -> Any:
    """Turn eight bytes of 32 rows, `stride` bytes apart (None: eight), into vectors of nibbles.

    The vector of nibble g, high nibble of a byte first, goes to `target` + g * GROUP_BYTES.
    """
    side_by_side = isinstance(stride, types.NoneType)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, stride, target = arguments
        turned = _turned(builder, source, None if side_by_side else stride)
        for group, nibble in enumerate(turned):
            builder.store(nibble, _at(builder, target, group * GROUP_BYTES), align=1)
        return context.get_dummy_value()

    kind = types.none if side_by_side else ADDRESS
    return types.void(ADDRESS, kind, ADDRESS), emit


@intrinsic
def below_saturation(typing_context: Any, planes: Any, tables: Any, n_groups: Any, out: Any) -> Any:
    """Sum table entries of a tile; write a bit per code that is not saturated, return if any is.

    `tables` has 32 bytes per group (the sixteen entries twice), `out` takes BLOCKS words of 32.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        planes, tables, n_groups, out = arguments
        zero = ir.Constant(_BYTES, [0] * 32)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(BLOCKS)]
        shuffle, add = _function(builder, _SHUFFLE), _function(builder, "llvm.uadd.sat.v32i8")
        with cgutils.for_range(builder, n_groups) as loop:
            table = _load(builder, builder.add(tables, builder.mul(loop.index, constant(32))))
            plane = builder.add(planes, builder.mul(loop.index, constant(GROUP_BYTES)))
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
                builder.store(near, _at(builder, out, 4 * block), align=4)
        return found

    return types.boolean(ADDRESS, ADDRESS, types.int64, ADDRESS), emit
