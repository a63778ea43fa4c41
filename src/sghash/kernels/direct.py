"""Hamming distances of a few queries: xor, popcount and compare, a vector of codes at a time.

With few queries a scan is bound by memory and there is nothing to share, so codes are taken as
they lie. Codes of whole 64-bit words up to `MAX_WORDS` use vectors; longer ones a scalar loop.
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
    count_ones,
    lane_flags,
    load,
    load_scalar,
    popcount,
    splat,
    trailing_zeros,
)
from sghash.kernels.selection import accept
from sghash.kernels.staging import stage_words

BLOCK_ROWS = 2048
MAX_WORDS = 4
UNROLL = 4
STEP_ROWS = UNROLL * LANES


@intrinsic
def _below(typing_context: Any, shape: Any, words: Any, stride: Any, query: Any, limit: Any) -> Any:
    """Which of `STEP_ROWS` codes lie below `limit`, as bits; word w stands at w * stride.

    `shape` is a tuple whose length is the number of words: a constant of the compiled code.
    """
    n_words = len(shape)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, words, stride, query, limit = arguments
        bound = splat(builder, limit)
        query_words = [
            splat(builder, load_scalar(builder, query, 8 * word, 64)) for word in range(n_words)
        ]
        flags = None
        for step in range(UNROLL):
            total = None
            for word, query_word in enumerate(query_words):
                address = builder.add(words, builder.mul(stride, constant(word)))
                differ = builder.xor(load(builder, address, step * VECTOR_BYTES), query_word)
                ones = count_ones(builder, differ)
                total = ones if total is None else builder.add(total, ones)
            found = lane_flags(builder, builder.icmp_unsigned("<", total, bound))
            found = builder.shl(found, constant(step * LANES))
            flags = found if flags is None else builder.or_(flags, found)
        return flags

    return types.uint64(shape, ADDRESS, types.int64, ADDRESS, types.int64), emit


@compiled
def _scan_block(
    state: Any,
    shape: Any,
    address: int,
    stride: int,
    start: int,
    stop: int,
    query: int,
    query_words: NDArray[np.uint64],
    allowed: NDArray[np.bool_],
) -> None:
    query_address = query_words.ctypes.data + query * query_words.shape[1] * 8
    n_words = query_words.shape[1]
    limit = state.limits[query]
    for first in range(start, stop, STEP_ROWS):
        step = address + (first - start) * 8
        flags = _below(shape, step, stride, query_address, limit)
        while flags:
            i = trailing_zeros(flags)
            flags &= flags - np.uint64(1)
            row = first + i
            if row >= stop or (allowed.shape[0] and not allowed[row]):
                continue
            distance = 0
            for word in range(n_words):
                code_word = _word(step + word * stride + i * 8)
                distance += popcount(query_words[query, word] ^ code_word)
            if distance < limit:
                accept(state, query, row, distance)
                limit = state.limits[query]


@intrinsic
def _word(typing_context: Any, address: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return load_scalar(builder, arguments[0], 0, 64)

    return types.uint64(ADDRESS), emit


@compiled
def scan_direct(
    state: Any,
    shape: Any,
    codes: NDArray[np.uint8],
    first: int,
    last: int,
    query_words: NDArray[np.uint64],
    allowed: NDArray[np.bool_],
) -> None:
    """Scan rows `first` to `last` - 1 of codes of at most `MAX_WORDS` words for all queries."""
    n_words = len(shape)
    words = np.empty((n_words, BLOCK_ROWS), dtype=np.uint64)
    in_place = n_words == 1 and codes.shape[1] == 8
    for start in range(first, last, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, last)
        # A step reads STEP_ROWS codes: only whole blocks may be read where they lie.
        if in_place and stop - start == BLOCK_ROWS:
            address, stride = codes.ctypes.data + start * 8, 0
        else:
            stage_words(codes, start, stop, words)
            address, stride = words.ctypes.data, BLOCK_ROWS * 8
        for query in range(query_words.shape[0]):
            if state.limits[query]:
                _scan_block(state, shape, address, stride, start, stop, query, query_words, allowed)


@compiled
def scan_long(
    state: Any,
    codes: NDArray[np.uint8],
    first: int,
    last: int,
    query_words: NDArray[np.uint64],
    allowed: NDArray[np.bool_],
) -> None:
    """Scan rows `first` to `last` - 1 of codes of any number of words for all queries."""
    n_words = query_words.shape[1]
    n_rows = 64
    words = np.empty((n_words, n_rows), dtype=np.uint64)
    distances = np.empty(n_rows, dtype=np.int64)
    for start in range(first, last, n_rows):
        stop = min(start + n_rows, last)
        stage_words(codes, start, stop, words)
        for query in range(query_words.shape[0]):
            distances[:] = 0
            for word in range(n_words):
                query_word = query_words[query, word]
                for i in range(n_rows):
                    distances[i] += popcount(query_word ^ words[word, i])
            for i in range(stop - start):
                if distances[i] < state.limits[query] and (
                    not allowed.shape[0] or allowed[start + i]
                ):
                    accept(state, query, start + i, distances[i])


@compiled
def raw_scan(
    shape: Any,
    codes: NDArray[np.uint8],
    query_words: NDArray[np.uint64],
    limits: NDArray[np.int64],
) -> int:
    """Xor, popcount and compare only, nothing selected: the yardstick of the benchmark."""
    n_words = len(shape)
    words = np.empty((n_words, BLOCK_ROWS), dtype=np.uint64)
    found = 0
    for start in range(0, codes.shape[0] // BLOCK_ROWS * BLOCK_ROWS, BLOCK_ROWS):
        if n_words == 1 and codes.shape[1] == 8:
            address, stride = codes.ctypes.data + start * 8, 0
        else:
            stage_words(codes, start, start + BLOCK_ROWS, words)
            address, stride = words.ctypes.data, BLOCK_ROWS * 8
        for query in range(query_words.shape[0]):
            query_address = query_words.ctypes.data + query * n_words * 8
            for i in range(0, BLOCK_ROWS, STEP_ROWS):
                if _below(shape, address + i * 8, stride, query_address, limits[query]):
                    found += 1
    return found
