"""One query over codes where they lie: all distances of a piece first, then the best of them.

A query alone shares nothing, so what counts is that nothing is done per row but to compare it:
distances go to a buffer that stays in the cache, and `counted` finds the k-th of them. One
compiled call does it all, and allocates nothing but that buffer and the entries it keeps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.kernels.compiling import announce, compiled
from sghash.kernels.counted import AT_ONCE, FULL, at_most, count_at_most, kth_score
from sghash.kernels.hamming.staging import word_of, words_of
from sghash.kernels.lanes import (
    I64,
    LANES,
    OFFSET,
    VECTOR,
    VECTOR_BYTES,
    addresses,
    count_ones,
    load,
    popcount,
    store,
    trailing_zeros,
)
from sghash.neighbors import Neighbors
from sghash.validation import Codes

#: Rows whose distances are in the buffer at a time: 32 KiB.
PIECE_ROWS = 1 << 14
#: More neighbours than that are left to the other way: entries are sorted at every piece.
MOST_K = PIECE_ROWS // 4
# Entries are distance << _ROW_BITS | row.
_ROW_BITS = 44
_I32 = ir.IntType(32)
_ALL = np.empty(0, dtype=np.bool_)
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def nearest_to_one(
    codes: Codes, query_code: Codes, k: int, n_bits: int, mask: NDArray[np.bool_] | None
) -> Neighbors:
    """The k nearest rows (k <= MOST_K) of a query (1, n_bytes), for arguments that agree."""
    distances = np.empty((1, k), dtype=np.int32)
    rows = np.empty((1, k), dtype=np.int64)
    n_bytes = codes.shape[1]
    words: NDArray[Any] = codes
    if n_bytes in _WORDS or not n_bytes % 8:
        kind = _WORDS.get(n_bytes, np.uint64)
        viewed = codes.view(kind)
        if viewed.flags.aligned:
            words = viewed
    announce(count_nearest, "Hamming search")
    allowed = _ALL if mask is None else mask
    count_nearest(words, words_of(query_code)[0], k, n_bits, allowed, distances[0], rows[0])
    return Neighbors(distances, rows)


@intrinsic
def _store_distances(
    typing_context: Any,
    width: Any,
    words: Any,
    at: Any,
    query: Any,
    query_at: Any,
    out: Any,
    out_at: Any,
) -> Any:
    """Distances of LANES codes from byte `at` on, of as many 64-bit words as `width` is long.

    Words are 1, 2 or 4, so that neighbouring lanes can be added up in pairs.
    """
    n_words = len(width)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, pattern_at, target = addresses(context, builder, signature, arguments)
        pattern = ir.Constant(VECTOR, ir.Undefined)
        for lane in range(LANES):
            word = load(builder, pattern_at, 8 * (lane % n_words), kind=I64)
            pattern = builder.insert_element(pattern, word, ir.Constant(_I32, lane))
        counts = []
        for i in range(n_words):
            differ = builder.xor(load(builder, source, i * VECTOR_BYTES), pattern)
            counts.append(count_ones(builder, differ))
        while len(counts) > 1:
            counts = [
                builder.add(*(_every_other(builder, a, b, start) for start in (0, 1)))
                for a, b in zip(counts[::2], counts[1::2], strict=True)
            ]
        short = builder.trunc(counts[0], ir.VectorType(ir.IntType(16), LANES))
        store(builder, short, target, align=2)
        return context.get_dummy_value()

    return types.void(width, words, OFFSET, query, OFFSET, out, OFFSET), emit


def _every_other(builder: Any, a: Any, b: Any, start: int) -> Any:
    lanes = ir.Constant(ir.VectorType(_I32, LANES), list(range(start, 2 * LANES, 2)))
    return builder.shuffle_vector(a, b, lanes)


@compiled
def code_distances(
    words: NDArray[Any], first: int, last: int, query: NDArray[np.uint64], out: NDArray[np.uint16]
) -> None:
    """Distances of rows `first` to `last` - 1; words of 8 to 64 bits, or bytes of any width."""
    width = words.shape[1]
    done = first
    if words.itemsize == 8:
        whole = last - (last - first) % LANES
        if width == 1:
            for row in range(first, whole, LANES):
                _store_distances((0,), words, row * 8, query, 0, out, (row - first) * 2)
            done = whole
        elif width == 2:
            for row in range(first, whole, LANES):
                _store_distances((0, 0), words, row * 16, query, 0, out, (row - first) * 2)
            done = whole
        elif width == 4:
            for row in range(first, whole, LANES):
                _store_distances((0, 0, 0, 0), words, row * 32, query, 0, out, (row - first) * 2)
            done = whole
    if words.itemsize == 1 and width > 1:
        for row in range(done, last):
            distance = 0
            for i in range(query.shape[0]):
                distance += popcount(query[i] ^ word_of(words, row, i))
            out[row - first] = distance
    elif width == 1:
        a = query[0]
        for row in range(done, last):
            out[row - first] = np.uint16(popcount(a ^ np.uint64(words[row, 0])))
    else:
        for row in range(done, last):
            distance = 0
            for i in range(width):
                distance += popcount(query[i] ^ np.uint64(words[row, i]))
            out[row - first] = distance


@compiled
def count_nearest(
    words: NDArray[Any],
    query: NDArray[np.uint64],
    k: int,
    n_bits: int,
    allowed: NDArray[np.bool_],
    out_distances: NDArray[np.int32],
    out_rows: NDArray[np.int64],
) -> None:
    """Write the k nearest rows of a query and their distances."""
    n = words.shape[0]
    buffer = np.empty(min(n, PIECE_ROWS) + AT_ONCE, dtype=np.uint16)
    entries = np.empty(2 * min(k, n), dtype=np.int64)
    counts = np.empty(n_bits + 2, dtype=np.int64)
    used, limit = 0, n_bits
    for first in range(0, n, PIECE_ROWS):
        last = min(first + PIECE_ROWS, n)
        code_distances(words, first, last, query, buffer)
        size = (last - first + AT_ONCE - 1) // AT_ONCE * AT_ONCE
        for i in range(last - first, size):
            buffer[i] = FULL
        if allowed.shape[0]:
            for i in range(last - first):
                if not allowed[first + i]:
                    buffer[i] = FULL
        used = _take(buffer, size, first, k, limit, entries, used)
        if used >= k:
            # Later rows lose ties: only what is nearer than the k-th matters from here on.
            limit = _keep_best(entries, used, k, counts) - 1
            used = k
            if limit < 0:
                break
    _keep_best(entries, used, k, counts)
    for i in range(k):
        found = i < used
        out_distances[i] = entries[i] >> _ROW_BITS if found else np.iinfo(np.int32).max
        out_rows[i] = entries[i] & ((1 << _ROW_BITS) - 1) if found else -1


@compiled
def _take(
    buffer: NDArray[np.uint16],
    size: int,
    first: int,
    k: int,
    limit: int,
    entries: NDArray[np.int64],
    used: int,
) -> int:
    """Add the k nearest rows of a piece to the entries, at most those within `limit`."""
    last = kth_score(buffer, size, k, 0, limit)
    ties = k - (count_at_most(buffer, size, last - 1) if last else 0)
    for start in range(0, size, AT_ONCE):
        near = at_most(buffer, 2 * start, last)
        while near:
            place = start + trailing_zeros(near)
            near &= near - np.uint64(1)
            distance = np.int64(buffer[place])
            if distance == last:
                if ties == 0:
                    continue
                ties -= 1
            entries[used] = distance << _ROW_BITS | (first + place)
            used += 1
    return used


@compiled
def _keep_best(entries: NDArray[np.int64], used: int, k: int, counts: NDArray[np.int64]) -> int:
    """Sort the entries, which come in rising order of rows, and return the k-th distance.

    A counting sort, stable in the row.
    """
    counts[:] = 0
    for i in range(used):
        counts[(entries[i] >> _ROW_BITS) + 1] += 1
    for level in range(1, len(counts)):
        counts[level] += counts[level - 1]
    ordered = np.empty(used, dtype=np.int64)
    for i in range(used):
        distance = entries[i] >> _ROW_BITS
        ordered[counts[distance]] = entries[i]
        counts[distance] += 1
    entries[:used] = ordered
    return entries[k - 1] >> _ROW_BITS if used >= k else 0
