"""A tile of codes, turned so that bits become vectors, and the tables all queries share.

The tile's rows are transposed in place, 64 x 64 bits in every lane; then each group of three bits
gets a table with the number of mismatches of every code for each of the eight query patterns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import LANES, OFFSET, VECTOR_BYTES, addresses, load, ones, splat, store

TILE_ROWS = 64 * LANES
GROUP_BITS = 3
GROUPS_PER_WORD = 22  # 21 groups of three bits and one single bit
PATTERNS = 8
ENTRY_BYTES = 2 * VECTOR_BYTES
WORD_TABLE_BYTES = GROUPS_PER_WORD * PATTERNS * ENTRY_BYTES


@intrinsic
def _swap_bits(
    typing_context: Any,
    first: Any,
    first_at: Any,
    second: Any,
    second_at: Any,
    shift: Any,
    mask: Any,
) -> Any:
    """One step of a 64 x 64 bit transpose in every lane: exchange blocks of two vectors."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right = addresses(context, builder, signature, arguments)
        a, b = load(builder, left), load(builder, right)
        by, keep = (splat(builder, number) for number in arguments[4:])
        moved = builder.and_(builder.xor(builder.lshr(a, by), b), keep)
        store(builder, builder.xor(a, builder.shl(moved, by)), left)
        store(builder, builder.xor(b, moved), right)
        return context.get_dummy_value()

    return types.void(first, OFFSET, second, OFFSET, types.uint64, types.uint64), emit


@intrinsic
def _fill_group(typing_context: Any, planes: Any, planes_at: Any, table: Any, at: Any) -> Any:
    """Write a group's table: mismatches of three bit planes with each of the eight patterns."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target = addresses(context, builder, signature, arguments)
        a, b, c = (load(builder, source, i * VECTOR_BYTES) for i in range(3))
        for pattern in range(PATTERNS):
            x, y, z = (
                builder.xor(plane, ones()) if pattern >> i & 1 else plane
                for i, plane in enumerate((a, b, c))
            )
            differ = builder.xor(x, y)
            carry = builder.or_(builder.and_(differ, z), builder.and_(x, y))
            store(builder, builder.xor(differ, z), target, pattern * ENTRY_BYTES)
            store(builder, carry, target, pattern * ENTRY_BYTES + VECTOR_BYTES)
        return context.get_dummy_value()

    return types.void(planes, OFFSET, table, OFFSET), emit


@compiled
def _transpose(scratch: NDArray[np.uint64], base: int) -> None:
    """Transpose 64 vectors at byte `base` in place: vector b becomes bit b of every code."""
    width = 32
    mask = np.uint64(0x00000000FFFFFFFF)
    while width:
        k = 0
        while k < 64:
            _swap_bits(
                scratch,
                base + k * VECTOR_BYTES,
                scratch,
                base + (k + width) * VECTOR_BYTES,
                np.uint64(width),
                mask,
            )
            k = (k + width + 1) & ~width
        width >>= 1
        mask ^= mask << np.uint64(width)


@compiled
def build_tables(
    words: NDArray[np.uint64], scratch: NDArray[np.uint64], planes: int, tables: int, n_groups: int
) -> None:
    """Transpose each staged word and fill its group tables.

    `planes` and `tables` are where these lie in the scratch, in bytes.
    """
    n_words = words.shape[0]
    for word in range(n_words):
        _copy_words(words, word, scratch, planes)
        _transpose(scratch, planes)
        table = tables + word * WORD_TABLE_BYTES
        for group in range(n_groups):
            _fill_group(
                scratch,
                planes + group * GROUP_BITS * VECTOR_BYTES,
                scratch,
                table + group * PATTERNS * ENTRY_BYTES,
            )


@intrinsic
def _copy_vector(typing_context: Any, source: Any, at: Any, target: Any, to: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        here, there = addresses(context, builder, signature, arguments)
        store(builder, load(builder, here), there)
        return context.get_dummy_value()

    return types.void(source, OFFSET, target, OFFSET), emit


@compiled
def _copy_words(
    words: NDArray[np.uint64], word: int, scratch: NDArray[np.uint64], planes: int
) -> None:
    source = word * TILE_ROWS * 8
    for i in range(64):
        _copy_vector(words, source + i * VECTOR_BYTES, scratch, planes + i * VECTOR_BYTES)
