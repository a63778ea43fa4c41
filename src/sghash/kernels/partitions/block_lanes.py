"""Scores of a block of 64 codes as 16-bit sums of bytes from tables, a vector at a time.

A block holds its codes turned: plane b has byte b of all 64. Two kinds of tables: sixteen bytes for
each half of a byte, which a shuffle chooses from (AVX2, AVX-512), and 256 for each byte (AVX-512
VBMI); elsewhere a row at a time. Sums are exact: the tables see to it that they stay below 65535.
They are written in the order of `code_at`: first those of the even codes, then of the odd ones.
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

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import OFFSET, Address, addresses, constant, load, splat, store

#: Codes of a block.
ROWS = 64
#: What two entries of a pair of halves may be at most, so that their sum is a byte.
MOST_HALF = 127

_BYTE, _SHORT, _I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)


def _features() -> list[str]:
    # For tests of the plain way; never with a shared cache, which does not know of it.
    if os.environ.get("SGHASH_SHUFFLE") == "0":
        return []
    return list(cpu_target.target_context.codegen().magic_tuple()[2].split(","))


_FEATURES = _features()
_WIDTH = 64 if "+avx512bw" in _FEATURES else 32
HALVES_AVAILABLE = "+avx2" in _FEATURES
BYTES_AVAILABLE = "+avx512vbmi" in _FEATURES and _WIDTH == 64
_SHUFFLE = "llvm.x86.avx512.pshuf.b.512" if _WIDTH == 64 else "llvm.x86.avx2.pshuf.b"
_CHOOSE = "llvm.x86.avx512.vpermi2var.qi.512"
_BYTES = ir.VectorType(_BYTE, _WIDTH)
_SHORTS = ir.VectorType(_SHORT, _WIDTH // 2)


@compiled
def code_at(place: int) -> int:
    """Which code of a block the score at a place belongs to."""
    return 2 * place if place < ROWS // 2 else 2 * place - ROWS + 1


@compiled
def place_of(code: int) -> int:
    """Where the score of a code of a block stands."""
    return (code >> 1) + (code & 1) * (ROWS // 2)


def _constant(kind: Any, value: int) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count)


class _Sums:
    """Sums of the even and of the odd codes of a vector of bytes, 16 bits each."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.even, self.odd = (
            cgutils.alloca_once_value(builder, _constant(_SHORTS, 0)) for _ in range(2)
        )

    def add(self, found: Any, by: Any = None) -> None:
        """Add a vector of bytes, times `by` / 256 where that is given."""
        builder = self.builder
        shorts = builder.bitcast(found, _SHORTS)
        parts = [
            (self.even, builder.and_(shorts, _constant(_SHORTS, 255))),
            (self.odd, builder.lshr(shorts, _constant(_SHORTS, 8))),
        ]
        for target, part in parts:
            more = part if by is None else _times(builder, part, by)
            builder.store(builder.add(builder.load(target), more), target)

    def write(self, target: Address, which: int) -> None:
        """Store them as part `which` of the scores of a block."""
        size = _WIDTH
        store(self.builder, self.builder.load(self.even), target, which * size, align=2)
        store(self.builder, self.builder.load(self.odd), target, ROWS + which * size, align=2)


def _times(builder: Any, part: Any, by: Any) -> Any:
    """part * by / 256 of 16-bit numbers below 256: the high half of (part * 256) * by."""
    wide = ir.VectorType(_I32, part.type.count)
    lifted = builder.zext(builder.shl(part, _constant(part.type, 8)), wide)
    product = builder.mul(lifted, builder.zext(by, wide))
    return builder.trunc(builder.lshr(product, _constant(wide, 16)), part.type)


def _function(builder: Any, name: str, kind: Any, n_arguments: int) -> Any:
    shape = ir.FunctionType(kind, [kind] * n_arguments)
    return cgutils.get_or_insert_function(builder.module, shape, name)


def _half_sums(builder: Any, block: Address, table: Address, n_bytes: Any, sums: list[Any]) -> None:
    """Add what the halves of every byte choose from their tables of sixteen."""
    shuffle = _function(builder, _SHUFFLE, _BYTES, 2)
    repeated = ir.Constant(ir.VectorType(_I32, _WIDTH), [i % 16 for i in range(_WIDTH)])
    with cgutils.for_range(builder, n_bytes) as loop:
        here = table.plus(builder.mul(loop.index, constant(32)))
        plane = block.plus(builder.mul(loop.index, constant(ROWS)))
        tables = []
        for half in (0, 1):
            entries = load(builder, here, 16 * half, kind=ir.VectorType(_BYTE, 16), align=1)
            tables.append(builder.shuffle_vector(entries, entries, repeated))
        for which, total in enumerate(sums):
            found = load(builder, plane, which * _WIDTH, kind=_BYTES, align=1)
            high = builder.lshr(found, _constant(_BYTES, 4))
            low = builder.and_(found, _constant(_BYTES, 15))
            chosen = [
                builder.call(shuffle, [tables[0], high]), builder.call(shuffle, [tables[1], low])
            ]  # fmt: skip
            total.add(builder.add(*chosen))


def _byte_sums(builder: Any, block: Address, table: Address, n_bytes: Any, sums: list[Any]) -> None:
    """Add what every byte chooses from its table of 256."""
    choose = _function(builder, _CHOOSE, _BYTES, 3)
    with cgutils.for_range(builder, n_bytes) as loop:
        here = table.plus(builder.mul(loop.index, constant(256)))
        plane = block.plus(builder.mul(loop.index, constant(ROWS)))
        parts = [load(builder, here, 64 * i, kind=_BYTES, align=1) for i in range(4)]
        found = load(builder, plane, kind=_BYTES, align=1)
        low = builder.call(choose, [parts[0], found, parts[1]])
        high = builder.call(choose, [parts[2], found, parts[3]])
        upper = builder.icmp_signed("<", found, _constant(_BYTES, 0))
        sums[0].add(builder.select(upper, high, low))


def _scores(fill: Any) -> Any:
    """The intrinsic that writes the 64 scores of a block, by one kind of tables."""

    @intrinsic
    def write_scores(
        typing_context: Any,
        blocks: Any,
        block_at: Any,
        tables: Any,
        tables_at: Any,
        out: Any,
        out_at: Any,
        n_bytes: Any,
        factor: Any,
    ) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            block, table, target = addresses(context, builder, signature, arguments)
            n_bytes, factor = arguments[6:]
            sums = [_Sums(builder) for _ in range(ROWS // _WIDTH)]
            fill(builder, block, table, n_bytes, sums)
            levelled = builder.icmp_unsigned("!=", factor, constant(0))
            with builder.if_then(levelled):
                by = splat(builder, builder.trunc(factor, _SHORT), _SHORTS)
                plane = block.plus(builder.mul(n_bytes, constant(ROWS)))
                for which, total in enumerate(sums):
                    total.add(load(builder, plane, which * _WIDTH, kind=_BYTES, align=1), by)
            for which, total in enumerate(sums):
                total.write(target, which)
            return context.get_dummy_value()

        memory = (blocks, OFFSET, tables, OFFSET, out, OFFSET)
        return types.void(*memory, types.int64, types.int64), emit

    return write_scores


_write_halves, _write_bytes = _scores(_half_sums), _scores(_byte_sums)


@compiled
def entry_sum(
    blocks: NDArray[np.uint8],
    block: int,
    code: int,
    tables: NDArray[Any],
    n_bytes: int,
    total: Any,
) -> Any:
    """`total` and the entries that a code chooses, of tables (2 n_bytes, 16) or (n_bytes, 256)."""
    halves = tables.shape[1] == 16
    for byte in range(n_bytes):
        value = blocks[block, byte, code]
        if halves:
            total += tables[2 * byte, value >> 4] + tables[2 * byte + 1, value & 15]
        else:
            total += tables[byte, value]
    return total


@compiled
def _write_plainly(
    blocks: NDArray[np.uint8],
    block: int,
    tables: NDArray[np.uint8],
    out: NDArray[np.uint16],
    first: int,
    n_bytes: int,
    factor: int,
) -> None:
    """The same a code at a time, for CPUs without the instructions."""
    for code in range(ROWS):
        total = np.int64(entry_sum(blocks, block, code, tables, n_bytes, np.uint64(0)))
        if factor:
            total += int(blocks[block, n_bytes, code]) * factor >> 8
        out[first + place_of(code)] = total


@compiled
def write_scores(
    blocks: NDArray[np.uint8],
    block: int,
    tables: NDArray[np.uint8],
    out: NDArray[np.uint16],
    first: int,
    n_bytes: int,
    factor: int,
) -> None:
    """Write the scores of a block (n_planes, 64) to `out` from `first` on.

    `tables` is (2 * n_bytes, 16), at most MOST_HALF each, or (n_bytes, 256). With a `factor`, the
    plane after the codes' adds its bytes times factor / 256.
    """
    at = block * blocks.shape[1] * ROWS
    if tables.shape[1] == 16 and HALVES_AVAILABLE:
        _write_halves(blocks, at, tables, 0, out, 2 * first, n_bytes, factor)
    elif tables.shape[1] == 256 and BYTES_AVAILABLE:
        _write_bytes(blocks, at, tables, 0, out, 2 * first, n_bytes, factor)
    else:
        _write_plainly(blocks, block, tables, out, first, n_bytes, factor)
