"""Hamming distances of a few queries: xor, popcount and compare, codes taken where they lie.

With few queries there is nothing to share, so a scan is bound by memory and by popcount. Codes of
1, 2, 4, 8, 16 or 32 bytes are compared a vector at a time; other widths a row at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.hamming.selection import accept
from sghash.kernels.hamming.staging import word_of
from sghash.kernels.lanes import (
    LANES,
    OFFSET,
    VECTOR,
    VECTOR_BYTES,
    Address,
    addresses,
    constant,
    count_ones,
    load,
    load_scalar,
    popcount,
    splat,
)

WIDTHS = (1, 2, 4, 8, 16, 32)
STEP_BYTES = 4 * VECTOR_BYTES
BLOCK_BYTES = 1 << 14


def _query_vector(builder: Any, query: Address, width: int) -> Any:
    """The query's bytes repeated over a vector of 64-bit lanes."""
    if width <= 8:
        word = load_scalar(builder, query, 0, 64)
        for filled in (8, 16, 32):
            if filled >= 8 * width:
                word = builder.or_(word, builder.shl(word, constant(filled)))
        return splat(builder, word)
    vector = ir.Constant(VECTOR, ir.Undefined)
    for lane in range(LANES):
        word = load_scalar(builder, query, lane * 8 % width, 64)
        vector = builder.insert_element(vector, word, ir.Constant(ir.IntType(32), lane))
    return vector


def _pick(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), LANES), lanes))


def _add_neighbours(builder: Any, a: Any, b: Any, apart: int) -> Any:
    """Sums of lanes i and i + `apart` of two vectors; the results are unordered."""
    left, right = [], []
    for group in range(0, LANES, 2 * apart):
        for source in (0, LANES):
            left += [source + group + i for i in range(apart)]
            right += [source + group + i + apart for i in range(apart)]
        if apart == 1:  # interleave the sources: one unpack instruction each
            left[-2:], right[-2:] = [group, LANES + group], [group + 1, LANES + group + 1]
    return builder.add(_pick(builder, a, b, left), _pick(builder, a, b, right))


@intrinsic
def _any_below(
    typing_context: Any,
    width: Any,
    codes: Any,
    at: Any,
    query_words: Any,
    query_at: Any,
    limit: Any,
) -> Any:
    """Whether any of the STEP_BYTES / width codes from byte `at` on lies below `limit`.

    `width` is a tuple whose length is the number of bytes: a constant of the compiled code.
    """
    n_bytes = len(width)
    element = ir.IntType(8 * min(n_bytes, 8))
    kind = ir.VectorType(element, VECTOR_BYTES // (element.width // 8))

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, query = addresses(context, builder, signature, arguments)
        limit = arguments[-1]
        pattern = _query_vector(builder, query, n_bytes)
        counts = []
        for i in range(STEP_BYTES // VECTOR_BYTES):
            differ = builder.xor(load(builder, source, i * VECTOR_BYTES, align=1), pattern)
            counts.append(count_ones(builder, builder.bitcast(differ, kind)))
        apart = 1
        while apart * 8 < n_bytes:
            pairs = zip(counts[::2], counts[1::2], strict=True)
            counts = [_add_neighbours(builder, a, b, apart) for a, b in pairs]
            apart *= 2
        bound_scalar = builder.trunc(limit, element) if element.width < 64 else limit
        bound = splat(builder, bound_scalar, kind)
        below = builder.icmp_signed("<", counts[0], bound)
        for count in counts[1:]:
            below = builder.or_(below, builder.icmp_signed("<", count, bound))
        flags = builder.bitcast(below, ir.IntType(kind.count))
        return builder.icmp_unsigned("!=", flags, ir.Constant(flags.type, 0))

    return types.boolean(width, codes, OFFSET, query_words, OFFSET, types.int64), emit


@compiled
def _take_rows(
    k: int,
    limits: NDArray[np.int64],
    records: NDArray[np.int64],
    codes: NDArray[np.uint8],
    start: int,
    stop: int,
    query: int,
    query_words: NDArray[np.uint64],
    allowed: NDArray[np.bool_],
) -> None:
    """Offer rows `start` to `stop` - 1 to a query, one at a time."""
    limit = limits[query]
    n_words = query_words.shape[1]
    for row in range(start, stop):
        distance = 0
        for word in range(n_words):
            distance += popcount(query_words[query, word] ^ word_of(codes, row, word))
        if distance < limit and (not allowed.shape[0] or allowed[row]):
            accept(limits, records, k, query, row, distance)
            limit = limits[query]


@compiled
def scan_rows(
    k: int,
    limits: NDArray[np.int64],
    records: NDArray[np.int64],
    codes: NDArray[np.uint8],
    first: int,
    last: int,
    query_words: NDArray[np.uint64],
    allowed: NDArray[np.bool_],
) -> None:
    """Scan rows `first` to `last` - 1 of codes of any width for all queries."""
    n_rows = max(1, BLOCK_BYTES // codes.shape[1])
    for start in range(first, last, n_rows):
        stop = min(start + n_rows, last)
        for query in range(query_words.shape[0]):
            if limits[query]:
                _take_rows(k, limits, records, codes, start, stop, query, query_words, allowed)


@compiled
def scan_vectors(
    k: int,
    limits: NDArray[np.int64],
    records: NDArray[np.int64],
    width: Any,
    codes: NDArray[np.uint8],
    first: int,
    last: int,
    query_words: NDArray[np.uint64],
    allowed: NDArray[np.bool_],
) -> None:
    """Scan rows `first` to `last` - 1 of codes of one of `WIDTHS` bytes for all queries."""
    n_bytes = len(width)
    n_rows = BLOCK_BYTES // n_bytes
    n_step = STEP_BYTES // n_bytes
    for start in range(first, last, n_rows):
        stop = min(start + n_rows, last)
        whole = start + (stop - start) // n_step * n_step
        for query in range(query_words.shape[0]):
            limit = limits[query]
            if limit == 0:
                continue
            pattern = query * query_words.shape[1] * 8
            for row in range(start, whole, n_step):
                if _any_below(width, codes, row * n_bytes, query_words, pattern, limit):
                    _take_rows(
                        k, limits, records, codes, row, row + n_step, query, query_words, allowed
                    )
                    limit = limits[query]
                    if limit == 0:
                        break
            _take_rows(k, limits, records, codes, whole, stop, query, query_words, allowed)


@compiled
def raw_scan(
    width: Any,
    codes: NDArray[np.uint8],
    query_words: NDArray[np.uint64],
    limits: NDArray[np.int64],
) -> int:
    """Xor, popcount and compare only, nothing selected: the yardstick of the benchmark."""
    n_bytes = len(width)
    n_rows = BLOCK_BYTES // n_bytes
    n_step = STEP_BYTES // n_bytes
    found = 0
    for start in range(0, codes.shape[0] // n_rows * n_rows, n_rows):
        for query in range(query_words.shape[0]):
            pattern = query * query_words.shape[1] * 8
            for row in range(start, start + n_rows, n_step):
                at = row * n_bytes
                found += _any_below(width, codes, at, query_words, pattern, limits[query])
    return found
