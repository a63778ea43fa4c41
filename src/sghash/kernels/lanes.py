"""Portable vectors: LLVM IR on `<LANES x i64>`, which every CPU lowers to what it has.

Eight lanes where AVX-512 is there, four elsewhere (AVX2; a pair of NEON registers). Addresses
travel as plain integers, so kernels hand over `array.ctypes.data` and offsets into it.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from numba import types
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

I64 = ir.IntType(64)
VECTOR = ir.VectorType(I64, LANES)
ADDRESS = types.int64


def constant(value: int) -> ir.Constant:
    """A 64-bit integer."""
    return ir.Constant(I64, value)


def zeros() -> ir.Constant:
    """A vector of zero bits."""
    return ir.Constant(VECTOR, [0] * LANES)


def ones() -> ir.Constant:
    """A vector of set bits."""
    return ir.Constant(VECTOR, [-1] * LANES)


def _pointer(builder: Any, address: Any, offset: int) -> Any:
    if offset:
        address = builder.add(address, constant(offset))
    return builder.inttoptr(address, ir.PointerType())


def load(builder: Any, address: Any, offset: int = 0) -> Any:
    """The vector at `address + offset`, any alignment of eight."""
    return builder.load(_pointer(builder, address, offset), align=8, typ=VECTOR)


def store(builder: Any, value: Any, address: Any, offset: int = 0) -> None:
    """Write a vector to `address + offset`."""
    builder.store(value, _pointer(builder, address, offset), align=8)


def load_scalar(builder: Any, address: Any, offset: int, n_bits: int) -> Any:
    """The integer of `n_bits` at `address + offset`, widened to 64 bits without sign."""
    kind = ir.IntType(n_bits)
    value = builder.load(_pointer(builder, address, offset), align=n_bits // 8, typ=kind)
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
def word_at(typing_context: Any, address: Any) -> Any:
    """The 64-bit word at an address of any alignment, lowest byte first."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(builder, arguments[0], 0), align=1, typ=I64)

    return types.uint64(ADDRESS), emit
