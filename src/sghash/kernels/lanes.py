"""Portable vectors: LLVM IR on `<LANES x i64>`, which every CPU lowers to what it has.

Eight lanes where AVX-512 is there, four elsewhere (AVX2; a pair of NEON registers).

Numba frees an array after the last statement that names it, and an address does not name it. So
no address ever leaves an intrinsic: intrinsics take arrays, each followed by an offset in bytes,
and `addresses` gives their emitters the place, while the call itself keeps the arrays alive.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic


def _host_lanes() -> int:
    # For tests of the other width; never with a shared cache, which does not know of it.
    if forced := os.environ.get("SGHASH_LANES"):
        return int(forced)
    # The features Numba compiles for, so that NUMBA_CPU_NAME and NUMBA_CPU_FEATURES count.
    features = cpu_target.target_context.codegen().magic_tuple()[2]
    return 8 if "+avx512f" in features.split(",") else 4


LANES = _host_lanes()
VECTOR_BYTES = 8 * LANES
# A cache line, and the widest vector.
BOUNDARY = 64

I64 = ir.IntType(64)
VECTOR = ir.VectorType(I64, LANES)
# What follows an array among the arguments of an intrinsic.
OFFSET = types.int64


def constant(value: int) -> ir.Constant:
    """A 64-bit integer."""
    return ir.Constant(I64, value)


def zeros() -> ir.Constant:
    """A vector of zero bits."""
    return ir.Constant(VECTOR, [0] * LANES)


def ones() -> ir.Constant:
    """A vector of set bits."""
    return ir.Constant(VECTOR, [-1] * LANES)


class Address:
    """A place in memory that a call keeps alive; only `addresses` makes one from arguments."""

    def __init__(self, builder: Any, number: Any) -> None:
        self.builder, self.number = builder, number

    def plus(self, offset: Any) -> Address:
        """So many bytes further; a number, or an i64 of the compiled code."""
        more = constant(offset) if isinstance(offset, int) else offset
        return Address(self.builder, self.builder.add(self.number, more))

    def pointer(self) -> Any:
        """What LLVM loads from and stores to."""
        return self.builder.inttoptr(self.number, ir.PointerType())


def addresses(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Address]:
    """For the emitter of an intrinsic: an address for each array among its arguments.

    The argument after an array says how many bytes from its start. Any dtype, also read-only;
    an array must be contiguous, for an address knows nothing of strides.
    """
    found = []
    kinds = [*signature.args, None]
    for i, kind in enumerate(signature.args):
        if isinstance(kind, types.Array):
            if kind.layout != "C" or kinds[i + 1] != OFFSET:
                raise TypeError(f"expected a contiguous array and an offset in bytes, got {kinds}")
            # An integer, for LLVM makes cheaper loops of sums than of steps of pointers.
            start = context.make_array(kind)(context, builder, arguments[i]).data
            found.append(Address(builder, builder.ptrtoint(start, I64)).plus(arguments[i + 1]))
    return found


def load(
    builder: Any, address: Address, offset: int = 0, *, kind: Any = VECTOR, align: int = 8
) -> Any:
    """What lies at `address + offset`, a vector of lanes by default."""
    return builder.load(address.plus(offset).pointer(), align=align, typ=kind)


def store(builder: Any, value: Any, address: Address, offset: int = 0, *, align: int = 8) -> None:
    """Write a value to `address + offset`."""
    builder.store(value, address.plus(offset).pointer(), align=align)


def load_scalar(builder: Any, address: Address, offset: int, n_bits: int) -> Any:
    """The integer of `n_bits` at `address + offset`, widened to 64 bits without sign."""
    value = load(builder, address, offset, kind=ir.IntType(n_bits), align=n_bits // 8)
    return value if n_bits == 64 else builder.zext(value, I64)


def splat(builder: Any, scalar: Any, kind: Any = VECTOR) -> Any:
    """A vector with `scalar` in every lane."""
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    index = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, undefined, index)


def lane_flags(builder: Any, condition: Any) -> Any:
    """A `<LANES x i1>` as an integer: bit i is lane i."""
    return builder.zext(builder.bitcast(condition, ir.IntType(LANES)), I64)


def count_ones(builder: Any, value: Any) -> Any:
    """Number of set bits of an i64, or of each lane of a vector."""
    kind = value.type
    suffix = f"v{kind.count}{kind.element}" if isinstance(kind, ir.VectorType) else "i64"
    name = f"llvm.ctpop.{suffix}"
    module = builder.module
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(kind, [kind]), name=name)
    return builder.call(function, [value])


@intrinsic
def popcount(typing_context: Any, word: Any) -> Any:
    """Set bits of a 64-bit word."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return count_ones(builder, arguments[0])

    return types.int64(types.uint64), emit


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Position of the lowest set bit of a 64-bit word; 64 for zero."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), emit


@intrinsic
def word_at(typing_context: Any, array: Any, offset: Any) -> Any:
    """The 64-bit word `offset` bytes into an array, any alignment, lowest byte first."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (address,) = addresses(context, builder, signature, arguments)
        return load(builder, address, kind=I64, align=1)

    return types.uint64(array, OFFSET), emit


@intrinsic
def to_boundary(typing_context: Any, array: Any, offset: Any) -> Any:
    """Bytes from `offset` in an array to the next multiple of BOUNDARY in memory."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (address,) = addresses(context, builder, signature, arguments)
        return builder.and_(builder.neg(address.number), constant(BOUNDARY - 1))

    return types.int64(array, OFFSET), emit


@intrinsic
def prefetch(typing_context: Any, array: Any, offset: Any) -> Any:
    """Ask for the cache line around a byte of an array that will be read soon."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        (address,) = addresses(context, builder, signature, arguments)
        # For reading, to be kept, data.
        how = (ir.Constant(word, value) for value in (0, 3, 1))
        builder.call(function, [address.pointer(), *how])
        return context.get_dummy_value()

    return types.void(array, OFFSET), emit
