"""Hamming distances of many queries by bit slices: no popcount at all.

A tile of 64 * LANES codes is transposed, so that one vector holds one bit of every code. For each
group of three bits a table holds, for all eight query patterns, the number of mismatches of every
code as two bit planes; it is built once per tile and shared by all queries. A query adds up the
planes its patterns select with carry-save adders, on top of a bias of 2^P - limit, so that the
carry out of plane P - 1 says, for every code at once, whether its distance reaches the limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import (
    ADDRESS,
    LANES,
    VECTOR_BYTES,
    constant,
    lane_flags,
    load,
    load_scalar,
    ones,
    popcount,
    splat,
    store,
    trailing_zeros,
    zeros,
)
from sghash.kernels.selection import accept
from sghash.kernels.staging import stage_tile
from sghash.kernels.tiles import (
    ENTRY_BYTES,
    GROUP_BITS,
    GROUPS_PER_WORD,
    PATTERNS,
    TILE_ROWS,
    WORD_TABLE_BYTES,
    build_tables,
)

MAX_WORDS = 4  # longer codes add up word by word
# Enough 64-bit numbers to find a 64-byte boundary inside a scratch array.
_ALIGN = 8


class _Adder:
    """Carry-save addition of bit planes: at most two planes wait at each weight."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.waiting: dict[int, list[Any]] = {}

    def add(self, plane: Any, weight: int) -> None:
        planes = self.waiting.setdefault(weight, [])
        planes.append(plane)
        if len(planes) == 3:
            total, carry = self._full(*planes)
            self.waiting[weight] = [total]
            self.add(carry, weight + 1)

    def _full(self, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
        build = self.builder
        differ = build.xor(a, b)
        # Written as a selection: one instruction where there is one (vpternlog, bsl).
        carry = build.or_(build.and_(differ, c), build.and_(build.xor(differ, ones()), a))
        return build.xor(differ, c), carry

    def planes(self, n: int) -> list[Any]:
        """The sum as `n` planes, lowest weight first."""
        build = self.builder
        for weight in range(n):
            planes = self.waiting.get(weight, [])
            if len(planes) == 2:
                self.waiting[weight] = [build.xor(*planes)]
                self.add(build.and_(*planes), weight + 1)
        return [(self.waiting.get(weight) or [zeros()])[0] for weight in range(n)]


def _add_groups(adder: _Adder, table: Any, offsets: Any, n_groups: int) -> None:
    builder = adder.builder
    for group in range(n_groups):
        entry = builder.add(table, load_scalar(builder, offsets, 4 * group, 32))
        adder.add(load(builder, entry), 0)
        if group < GROUPS_PER_WORD - 1:  # the last group of a word is a single bit
            adder.add(load(builder, entry, VECTOR_BYTES), 1)


@intrinsic
def _below(
    typing_context: Any, groups: Any, planes: Any, table: Any, offsets: Any, bias: Any, out: Any
) -> Any:
    """Codes below the limit: writes their mask to `out`, returns which lanes have any.

    `groups` and `planes` are tuples: their lengths are constants of the compiled code.
    """
    n_words = -(-len(groups) // GROUPS_PER_WORD)
    n_planes = len(planes)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, _, table, offsets, bias, out = arguments
        adder = _Adder(builder)
        for weight in range(n_planes):
            adder.add(splat(builder, load_scalar(builder, bias, 8 * weight, 64)), weight)
        for word in range(n_words):
            _add_groups(
                adder,
                builder.add(table, constant(word * WORD_TABLE_BYTES)),
                builder.add(offsets, constant(word * GROUPS_PER_WORD * 4)),
                min(len(groups), GROUPS_PER_WORD),
            )
        mask = builder.xor(adder.planes(n_planes + 1)[n_planes], ones())
        store(builder, mask, out)
        return lane_flags(builder, builder.icmp_unsigned("!=", mask, zeros()))

    return types.int64(groups, planes, ADDRESS, ADDRESS, ADDRESS, ADDRESS), emit


@intrinsic
def _add_word(typing_context: Any, planes: Any, table: Any, offsets: Any, sums: Any) -> Any:
    """Add one word's mismatches to the planes at `sums`; the last plane is the carry out.

    Returns which lanes still have a code below the limit.
    """
    n_planes = len(planes)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, table, offsets, sums = arguments
        adder = _Adder(builder)
        for weight in range(n_planes):
            adder.add(load(builder, sums, weight * VECTOR_BYTES), weight)
        _add_groups(adder, table, offsets, GROUPS_PER_WORD)
        total = adder.planes(n_planes)
        for weight, plane in enumerate(total):
            store(builder, plane, sums, weight * VECTOR_BYTES)
        return lane_flags(builder, builder.icmp_unsigned("!=", total[-1], ones()))

    return types.int64(planes, ADDRESS, ADDRESS, ADDRESS), emit


@intrinsic
def _set_planes(typing_context: Any, planes: Any, bias: Any, sums: Any) -> Any:
    """Start the planes at `sums` with the bias; the last plane, the carry, with zero."""
    n_planes = len(planes)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, bias, sums = arguments
        for weight in range(n_planes - 1):
            value = splat(builder, load_scalar(builder, bias, 8 * weight, 64))
            store(builder, value, sums, weight * VECTOR_BYTES)
        store(builder, zeros(), sums, (n_planes - 1) * VECTOR_BYTES)
        return context.get_dummy_value()

    return types.void(planes, ADDRESS, ADDRESS), emit


@intrinsic
def _store_inverted(typing_context: Any, source: Any, out: Any) -> Any:
    """Write the complement of the vector at `source` to `out`."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        store(builder, builder.xor(load(builder, arguments[0]), ones()), arguments[1])
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS), emit


@compiled
def _take(
    k: int,
    limits: NDArray[np.int64],
    records: NDArray[np.int64],
    query: int,
    query_words: NDArray[np.uint64],
    words: NDArray[np.uint64],
    lanes: int,
    mask: NDArray[np.uint64],
    start: int,
    stop: int,
    allowed: NDArray[np.bool_],
) -> None:
    """Accept the codes marked in `mask`, in rising order of rows; `lanes` has a bit per lane."""
    n_words = words.shape[0]
    while lanes:
        lane = trailing_zeros(np.uint64(lanes))
        lanes &= lanes - 1
        flags = mask[lane]
        while flags:
            place = trailing_zeros(flags)
            flags &= flags - np.uint64(1)
            row = start + lane * 64 + place
            distance = 0
            for word in range(n_words):
                distance += popcount(query_words[query, word] ^ words[word, place * LANES + lane])
            inside = row < stop and (allowed.shape[0] == 0 or allowed[row])
            if inside and distance < limits[query]:
                accept(limits, records, k, query, row, distance)


def pattern_offsets(query_words: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Byte offset into a word's tables of the entry that each group of each query selects."""
    offsets = np.empty((*query_words.shape, GROUPS_PER_WORD), dtype=np.uint32)
    for group in range(GROUPS_PER_WORD):
        pattern = query_words >> np.uint64(group * GROUP_BITS) & np.uint64(PATTERNS - 1)
        offsets[:, :, group] = (group * PATTERNS + pattern) * ENTRY_BYTES
    return offsets


def bias_planes(n_bits: int, n_planes: int) -> NDArray[np.uint64]:
    """Row `limit`: the bits of 2^n_planes - limit, each spread over a word."""
    bias = (1 << n_planes) - np.arange(n_bits + 2, dtype=np.int64)
    bits = bias[:, None] >> np.arange(n_planes) & 1
    return np.ascontiguousarray(np.where(bits, ~np.uint64(0), np.uint64(0)))


@compiled
def scan_short(
    k: int,
    limits: NDArray[np.int64],
    records: NDArray[np.int64],
    groups: Any,
    planes_of_sum: Any,
    codes: NDArray[np.uint8],
    first: int,
    last: int,
    query_words: NDArray[np.uint64],
    offsets: NDArray[np.uint32],
    bias: NDArray[np.uint64],
    allowed: NDArray[np.bool_],
) -> None:
    """Scan rows `first` to `last` - 1 of codes of at most MAX_WORDS words for all queries."""
    n_words = query_words.shape[1]
    words = np.empty((n_words, TILE_ROWS), dtype=np.uint64)
    size = 66 * LANES + n_words * (WORD_TABLE_BYTES // 8) + _ALIGN
    scratch = np.zeros(size, dtype=np.uint64)
    planes = (scratch.ctypes.data + 63) & ~63
    tables = planes + 66 * VECTOR_BYTES
    mask = np.zeros(LANES, dtype=np.uint64)
    n_groups = min(len(groups), GROUPS_PER_WORD)
    for start in range(first, last, TILE_ROWS):
        stop = min(start + TILE_ROWS, last)
        stage_tile(codes, start, stop, words)
        build_tables(words, planes, tables, n_groups)
        for query in range(query_words.shape[0]):
            limit = limits[query]
            if not limit:
                continue
            lanes = _below(
                groups,
                planes_of_sum,
                tables,
                offsets.ctypes.data + query * n_words * GROUPS_PER_WORD * 4,
                bias.ctypes.data + limit * bias.shape[1] * 8,
                mask.ctypes.data,
            )
            if lanes:
                _take(
                    k, limits, records, query, query_words, words, lanes, mask, start, stop, allowed
                )


@compiled
def scan_long(
    k: int,
    limits: NDArray[np.int64],
    records: NDArray[np.int64],
    planes_of_sum: Any,
    codes: NDArray[np.uint8],
    first: int,
    last: int,
    query_words: NDArray[np.uint64],
    offsets: NDArray[np.uint32],
    bias: NDArray[np.uint64],
    allowed: NDArray[np.bool_],
) -> None:
    """Scan rows `first` to `last` - 1 of codes of any number of words for all queries."""
    n_words = query_words.shape[1]
    words = np.empty((n_words, TILE_ROWS), dtype=np.uint64)
    n_planes = len(planes_of_sum)
    size = (66 + n_planes) * LANES + n_words * (WORD_TABLE_BYTES // 8) + _ALIGN
    scratch = np.zeros(size, dtype=np.uint64)
    planes = (scratch.ctypes.data + 63) & ~63
    sums = planes + 66 * VECTOR_BYTES
    tables = sums + n_planes * VECTOR_BYTES
    mask = np.zeros(LANES, dtype=np.uint64)
    for start in range(first, last, TILE_ROWS):
        stop = min(start + TILE_ROWS, last)
        stage_tile(codes, start, stop, words)
        build_tables(words, planes, tables, GROUPS_PER_WORD)
        for query in range(query_words.shape[0]):
            limit = limits[query]
            if not limit:
                continue
            _set_planes(planes_of_sum, bias.ctypes.data + limit * bias.shape[1] * 8, sums)
            alive = 1
            for word in range(n_words):
                alive = _add_word(
                    planes_of_sum,
                    tables + word * WORD_TABLE_BYTES,
                    offsets.ctypes.data + (query * n_words + word) * GROUPS_PER_WORD * 4,
                    sums,
                )
                # Sums only grow: once every code has reached the limit, the rest is idle.
                if not alive:
                    break
            if alive:
                _store_inverted(sums + (n_planes - 1) * VECTOR_BYTES, mask.ctypes.data)
                _take(
                    k, limits, records, query, query_words, words, alive, mask, start, stop, allowed
                )
