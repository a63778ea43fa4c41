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
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.hamming.plane_sums import add_word, below, set_planes, store_inverted
from sghash.kernels.hamming.selection import accept
from sghash.kernels.hamming.staging import stage_tile
from sghash.kernels.hamming.tiles import (
    ENTRY_BYTES,
    GROUP_BITS,
    GROUPS_PER_WORD,
    PATTERNS,
    TILE_ROWS,
    WORD_TABLE_BYTES,
    build_tables,
)
from sghash.kernels.lanes import (
    BOUNDARY,
    LANES,
    VECTOR_BYTES,
    popcount,
    to_boundary,
    trailing_zeros,
)

MAX_WORDS = 4  # longer codes add up word by word
# Enough 64-bit numbers to find a boundary inside a scratch array.
_ALIGN = BOUNDARY // 8


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
    planes = to_boundary(scratch, 0)
    tables = planes + 66 * VECTOR_BYTES
    mask = np.zeros(LANES, dtype=np.uint64)
    n_groups = min(len(groups), GROUPS_PER_WORD)
    for start in range(first, last, TILE_ROWS):
        stop = min(start + TILE_ROWS, last)
        stage_tile(codes, start, stop, words)
        build_tables(words, scratch, planes, tables, n_groups)
        for query in range(query_words.shape[0]):
            limit = limits[query]
            if not limit:
                continue
            lanes = below(
                groups,
                planes_of_sum,
                scratch,
                tables,
                offsets,
                query * n_words * GROUPS_PER_WORD * 4,
                bias,
                limit * bias.shape[1] * 8,
                mask,
                0,
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
    planes = to_boundary(scratch, 0)
    sums = planes + 66 * VECTOR_BYTES
    tables = sums + n_planes * VECTOR_BYTES
    mask = np.zeros(LANES, dtype=np.uint64)
    for start in range(first, last, TILE_ROWS):
        stop = min(start + TILE_ROWS, last)
        stage_tile(codes, start, stop, words)
        build_tables(words, scratch, planes, tables, GROUPS_PER_WORD)
        for query in range(query_words.shape[0]):
            limit = limits[query]
            if not limit:
                continue
            set_planes(planes_of_sum, bias, limit * bias.shape[1] * 8, scratch, sums)
            alive = 1
            for word in range(n_words):
                alive = add_word(
                    planes_of_sum,
                    scratch,
                    tables + word * WORD_TABLE_BYTES,
                    offsets,
                    (query * n_words + word) * GROUPS_PER_WORD * 4,
                    scratch,
                    sums,
                )
                # Sums only grow: once every code has reached the limit, the rest is idle.
                if not alive:
                    break
            if alive:
                store_inverted(scratch, sums + (n_planes - 1) * VECTOR_BYTES, mask, 0)
                _take(
                    k, limits, records, query, query_words, words, alive, mask, start, stop, allowed
                )
