"""Sums of table entries chosen by whole bytes, of many queries or of many rows at once.

`near_queries`: the tables of a group of queries lie side by side, so that the entries which a byte
of a code chooses for all of them are one vector. Every CPU can do that. `near_rows`: 64 codes of
one query, where the CPU can choose from 256 bytes in a register (`ROWS_AVAILABLE`). Entries are
bytes and sums saturate at 255, which means: too far to be of interest.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from sghash.kernels.lanes import (
    I64,
    OFFSET,
    VECTOR_BYTES,
    Address,
    addresses,
    constant,
    load,
    load_scalar,
    store,
)

#: Queries whose tables lie side by side.
GROUP = VECTOR_BYTES
#: Rows that `near_rows` looks at.
ROWS = 64
#: Rows whose least score is computed at a time.
ROWS_AT_ONCE = 4

_BYTE, _I32, _FLOAT = ir.IntType(8), ir.IntType(32), ir.FloatType()
_GROUP = ir.VectorType(_BYTE, GROUP)
_ROWS = ir.VectorType(_BYTE, ROWS)
_WORDS = ir.VectorType(I64, 8)
_CHOOSE = "llvm.x86.avx512.vpermi2var.qi.512"


def _can_choose() -> bool:
    # For tests of the other ways; never with a shared cache, which does not know of it.
    if os.environ.get("SGHASH_SHUFFLE") == "0":
        return False
    features = cpu_target.target_context.codegen().magic_tuple()[2]
    return "+avx512vbmi" in features.split(",")


ROWS_AVAILABLE = _can_choose()


def _function(builder: Any, name: str, kind: Any, n_arguments: int = 2) -> Any:
    shape = ir.FunctionType(kind, [kind] * n_arguments)
    return cgutils.get_or_insert_function(builder.module, shape, name)


def _add(builder: Any, a: Any, b: Any) -> Any:
    return builder.call(_function(builder, f"llvm.uadd.sat.v{a.type.count}i8", a.type), [a, b])


def _below(builder: Any, total: Any) -> Any:
    """A bit for each byte that is not saturated, as a 64-bit word."""
    near = builder.icmp_unsigned("!=", total, ir.Constant(total.type, [255] * total.type.count))
    bits = builder.bitcast(near, ir.IntType(total.type.count))
    return bits if total.type.count == 64 else builder.zext(bits, I64)


def _for_entries(
    builder: Any, codes: list[Address], n_bytes: Any, table: Address, size: int, use: Any
) -> None:
    """Emit `use(i, place)` for every byte of every code i: where the entry lies that it chooses.

    `table` has 256 entries of `size` bytes for each byte of a code. Eight bytes are written out at
    a time; to load them one by one is cheaper than to shift them out of a word.
    """

    def emit_bytes(first: Any, count: int) -> None:
        here = table.plus(builder.mul(first, constant(256 * size)))
        starts = [code.plus(first) for code in codes]
        for byte in range(count):
            for i, start in enumerate(starts):
                value = load_scalar(builder, start, byte, 8)
                entry = builder.mul(value, constant(size))
                use(i, here.plus(entry).plus(256 * size * byte))

    n_words = builder.lshr(n_bytes, constant(3))
    with cgutils.for_range(builder, n_words) as loop:
        emit_bytes(builder.shl(loop.index, constant(3)), 8)
    done = builder.shl(n_words, constant(3))
    with cgutils.for_range(builder, builder.sub(n_bytes, done)) as loop:
        emit_bytes(builder.add(done, loop.index), 1)


@intrinsic
def near_queries(
    typing_context: Any, codes: Any, code_at: Any, tables: Any, tables_at: Any, n_bytes: Any
) -> Any:
    """Bit q is set if the sum of the code at byte `code_at` is below saturation for query q.

    `tables` (n_bytes, 256, GROUP) uint8 begin at a boundary.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code, table = addresses(context, builder, signature, arguments)
        total = cgutils.alloca_once_value(builder, ir.Constant(_GROUP, [0] * GROUP))

        def use(i: int, place: Address) -> None:
            chosen = load(builder, place, kind=_GROUP, align=GROUP)
            builder.store(_add(builder, builder.load(total), chosen), total)

        _for_entries(builder, [code], arguments[4], table, GROUP, use)
        return _below(builder, builder.load(total))

    return types.uint64(codes, OFFSET, tables, OFFSET, types.int64), emit


@intrinsic
def least_score(
    typing_context: Any, codes: Any, code_at: Any, tables: Any, table_at: Any, n_bytes: Any
) -> Any:
    """The least float32 score of ROWS_AT_ONCE codes that lie one after the other.

    The table (n_bytes, 256) float32 of the query begins at byte `table_at`.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code, table = addresses(context, builder, signature, arguments)
        n_bytes, rows = arguments[4], range(ROWS_AT_ONCE)
        zero = ir.Constant(_FLOAT, 0.0)
        totals = [cgutils.alloca_once_value(builder, zero) for _ in rows]

        def use(row: int, place: Address) -> None:
            chosen = load(builder, place, kind=_FLOAT, align=4)
            builder.store(builder.fadd(builder.load(totals[row]), chosen), totals[row])

        starts = [code.plus(builder.mul(n_bytes, constant(row))) for row in rows]
        _for_entries(builder, starts, n_bytes, table, 4, use)
        least = builder.load(totals[0])
        for total in totals[1:]:
            other = builder.load(total)
            least = builder.select(builder.fcmp_ordered("<", other, least), other, least)
        return least

    return types.float32(codes, OFFSET, tables, OFFSET, types.int64), emit


def _pick(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(places)), places))


def _eight_rows(builder: Any, source: Address, stride: Any) -> Any:
    """Eight bytes of eight rows, `stride` bytes apart (None: eight), turned: byte by byte."""
    if stride is None:
        rows = load(builder, source, kind=_ROWS, align=1)
    else:
        words = ir.Constant(_WORDS, ir.Undefined)
        for row in range(8):
            place = source.plus(builder.mul(stride, constant(row)))
            word = load(builder, place, kind=I64, align=1)
            words = builder.insert_element(words, word, ir.Constant(_I32, row))
        rows = builder.bitcast(words, _ROWS)
    turned = _pick(builder, rows, rows, [8 * row + byte for byte in range(8) for row in range(8)])
    return builder.bitcast(turned, _WORDS)


@intrinsic
def turn_rows(
    typing_context: Any, source: Any, source_at: Any, stride: Any, target: Any, target_at: Any
) -> Any:
    """Turn eight bytes of 64 rows, `stride` bytes apart (None: eight), into eight vectors.

    Vector b, byte b of all rows, goes to `target_at` + 64 * b, which is at a boundary.
    """
    side_by_side = isinstance(stride, types.NoneType)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        here, there = addresses(context, builder, signature, arguments)
        apart = None if side_by_side else arguments[2]
        step = constant(64) if side_by_side else builder.mul(apart, constant(8))
        vectors = [
            _eight_rows(builder, here.plus(builder.mul(step, constant(i))), apart) for i in range(8)
        ]
        # Turn eight vectors of eight words: swap blocks of one, of two, of four words.
        for size in (1, 2, 4):
            low = [i if not i & size else i - size + 8 for i in range(8)]
            high = [i + size if not i & size else i + 8 for i in range(8)]
            for i in range(8):
                if not i & size:
                    a, b = vectors[i], vectors[i + size]
                    vectors[i] = _pick(builder, a, b, low)
                    vectors[i + size] = _pick(builder, a, b, high)
        for byte, vector in enumerate(vectors):
            store(builder, vector, there, 64 * byte, align=64)
        return context.get_dummy_value()

    kind = types.none if side_by_side else types.int64
    return types.void(source, OFFSET, kind, target, OFFSET), emit


@intrinsic
def near_rows(
    typing_context: Any, planes: Any, planes_at: Any, tables: Any, table_at: Any, n_bytes: Any
) -> Any:
    """Bit r is set if the sum of row r of the turned `planes` is below saturation.

    The table (n_bytes, 256) uint8 of a query begins at byte `table_at`, at a boundary as `planes`.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        plane, table = addresses(context, builder, signature, arguments)
        total = cgutils.alloca_once_value(builder, ir.Constant(_ROWS, [0] * ROWS))
        choose = _function(builder, _CHOOSE, _ROWS, 3)
        with cgutils.for_range(builder, arguments[4]) as loop:
            values = load(
                builder, plane.plus(builder.shl(loop.index, constant(6))), kind=_ROWS, align=64
            )
            here = table.plus(builder.shl(loop.index, constant(8)))
            quarters = [load(builder, here, 64 * i, kind=_ROWS, align=64) for i in range(4)]
            low = builder.call(choose, [quarters[0], values, quarters[1]])
            high = builder.call(choose, [quarters[2], values, quarters[3]])
            upper = builder.icmp_signed("<", values, ir.Constant(_ROWS, [0] * ROWS))
            chosen = builder.select(upper, high, low)
            builder.store(_add(builder, builder.load(total), chosen), total)
        return _below(builder, builder.load(total))

    return types.uint64(planes, OFFSET, tables, OFFSET, types.int64), emit
