"""Exact Hamming search: cuts the work into pieces, hands each to the kernel that suits it.

Queries in a batch share bit-sliced tables, a few queries are scanned directly; several threads
split the queries, or the rows where queries are few. Pieces are short, so that Ctrl-C is heard.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.checks import check_codes_agree
from sghash.kernels.compiling import announce
from sghash.kernels.hamming import direct, sliced, tiles
from sghash.kernels.hamming.selection import (
    USED,
    Selection,
    new_selection,
    range_selection,
    write_sorted,
)
from sghash.kernels.hamming.single import MOST_K, nearest_to_one
from sghash.kernels.hamming.staging import words_of
from sghash.kernels.threads import cut, run, useful
from sghash.neighbors import Neighbors, RangeNeighbors, empty_neighbors, merge_neighbors
from sghash.validation import Codes, check_k, check_radius

# From this many queries on, sharing the tables of a tile pays for building them.
SLICED_FROM = 8
# Up to so many rows, or rows per neighbour, a query alone is answered by counting, in one thread:
# beyond, few rows are near enough to be looked at twice, and threads pay for their start.
FEW_ROWS, FEW_EACH = 1 << 15, 2000
# Comparisons per kernel call: some tens of milliseconds.
PIECE = 1 << 28
# Bytes of buffers per thread.
BUFFER_BYTES = 1 << 26
RANGE_ROWS = 1 << 16
# Below this share of allowed rows it is cheaper to gather them than to skip the others.
GATHER_BELOW = 0.125

Scan = Callable[[Selection, int, int], None]


def hamming_neighbors(
    codes: Codes,
    query_codes: Codes,
    k: int,
    *,
    n_bits: int,
    mask: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> Neighbors:
    """The k nearest rows of each query by (distance, row), the same for every thread count."""
    check_codes_agree(codes, query_codes, n_bits, mask)
    k, threads = check_k(k), useful(threads)
    if mask is not None and np.count_nonzero(mask) < GATHER_BELOW * len(codes):
        rows = np.flatnonzero(mask)
        found = hamming_neighbors(codes[rows], query_codes, k, n_bits=n_bits, threads=threads)
        ids = np.where(found.ids < 0, -1, rows[found.ids]) if len(rows) else found.ids
        return Neighbors(found.distances, ids)
    n, n_queries = len(codes), len(query_codes)
    if n_queries == 1 and 0 < n <= max(FEW_ROWS, FEW_EACH * k) and k <= MOST_K:
        return nearest_to_one(codes, query_codes, k, n_bits, mask)
    result = empty_neighbors(n_queries, k, np.int32)
    if n == 0 or n_queries == 0:
        return result
    if n_queries < threads * SLICED_FROM and threads > 1:
        return _by_rows(codes, query_codes, k, n_bits, mask, threads)

    def search(start: int, stop: int, stopped: threading.Event) -> None:
        _search_part(
            codes, query_codes[start:stop], k, n_bits, mask, (0, n), stopped,
            Neighbors(result.distances[start:stop], result.ids[start:stop]),
        )  # fmt: skip

    run([(search, part) for part in cut(n_queries, threads)])
    return result


def _by_rows(
    codes: Codes,
    query_codes: Codes,
    k: int,
    n_bits: int,
    mask: NDArray[np.bool_] | None,
    threads: int,
) -> Neighbors:
    """The same where queries are few: each thread searches some of the rows for all of them."""
    parts = cut(len(codes), threads)
    shards = {part: empty_neighbors(len(query_codes), k, np.int32) for part in parts}

    def search(start: int, stop: int, stopped: threading.Event) -> None:
        rows = start, stop
        _search_part(codes, query_codes, k, n_bits, mask, rows, stopped, shards[rows])

    run([(search, part) for part in parts])
    return merge_neighbors(list(shards.values()), k)


def hamming_range(
    codes: Codes,
    query_codes: Codes,
    radius: int,
    *,
    n_bits: int,
    mask: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> RangeNeighbors:
    """All rows with distance <= radius, of each query by (distance, row)."""
    check_codes_agree(codes, query_codes, n_bits, mask)
    radius = check_radius(radius)
    found: list[tuple[NDArray[np.int32], NDArray[np.int64]]] = [
        (np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)) for _ in query_codes
    ]

    def search(start: int, stop: int, stopped: threading.Event) -> None:
        group = max(1, BUFFER_BYTES // (8 * min(RANGE_ROWS, max(1, len(codes)))))
        for first in range(start, stop, group):
            last = min(first + group, stop)
            answers = _range_part(codes, query_codes[first:last], radius, n_bits, mask, stopped)
            found[first:last] = answers

    run([(search, part) for part in cut(len(query_codes), threads)])
    limits = np.zeros(len(found) + 1, dtype=np.int64)
    np.cumsum([len(rows) for _, rows in found], out=limits[1:])
    return RangeNeighbors(
        limits,
        np.concatenate([np.empty(0, dtype=np.int32), *(distances for distances, _ in found)]),
        np.concatenate([np.empty(0, dtype=np.int64), *(rows for _, rows in found)]),
    )


def scanner(codes: Codes, query_codes: Codes, n_bits: int, mask: NDArray[np.bool_] | None) -> Scan:
    """The kernel that suits these codes and this number of queries, as scan(state, first, last)."""
    query_words = words_of(query_codes)
    allowed = np.empty(0, dtype=np.bool_) if mask is None else mask
    n_bytes, n_words = codes.shape[1], query_words.shape[1]
    if len(query_codes) < SLICED_FROM:
        if n_bytes in direct.WIDTHS:
            width = (0,) * n_bytes
            announce(direct.scan_vectors, "Hamming search")
            return lambda state, first, last: direct.scan_vectors(
                *state, width, codes, first, last, query_words, allowed
            )
        announce(direct.scan_rows, "Hamming search")
        return lambda state, first, last: direct.scan_rows(
            *state, codes, first, last, query_words, allowed
        )
    offsets = sliced.pattern_offsets(query_words)
    n_planes = n_bits.bit_length()
    bias = sliced.bias_planes(n_bits, n_planes)
    planes = (0,) * n_planes
    if n_words <= sliced.MAX_WORDS:
        n_groups = -(-8 * n_bytes // tiles.GROUP_BITS) if n_words == 1 else 0
        shape = (0,) * (n_groups or tiles.GROUPS_PER_WORD * n_words)
        announce(sliced.scan_short, "Hamming search")
        return lambda state, first, last: sliced.scan_short(
            *state, shape, planes, codes, first, last, query_words, offsets, bias, allowed
        )
    announce(sliced.scan_long, "Hamming search")
    return lambda state, first, last: sliced.scan_long(
        *state, (*planes, 0), codes, first, last, query_words, offsets, bias, allowed
    )


def _search_part(
    codes: Codes,
    query_codes: Codes,
    k: int,
    n_bits: int,
    mask: NDArray[np.bool_] | None,
    rows: tuple[int, int],
    stopped: threading.Event,
    out: Neighbors,
) -> None:
    """Top k of some queries over some rows, in groups whose buffers fit, in short pieces."""
    start, stop = rows
    k_here = min(k, stop - start)
    group = max(1, min(len(query_codes), BUFFER_BYTES // (8 * (3 * k_here + 64))))
    for first in range(0, len(query_codes), group):
        queries = query_codes[first : first + group]
        state = new_selection(len(queries), k_here, n_bits, stop - start)
        scan_all(scanner(codes, queries, n_bits, mask), state, len(queries), rows, stopped)
        part = slice(first, first + group)
        write_sorted(state.records, k, out.distances[part], out.ids[part])


def _range_part(
    codes: Codes,
    query_codes: Codes,
    radius: int,
    n_bits: int,
    mask: NDArray[np.bool_] | None,
    stopped: threading.Event,
) -> list[tuple[NDArray[np.int32], NDArray[np.int64]]]:
    n = len(codes)
    pieces: list[list[tuple[NDArray[Any], NDArray[Any]]]] = [[] for _ in query_codes]
    scan = scanner(codes, query_codes, n_bits, mask)
    n_rows = min(RANGE_ROWS, max(1, n))
    state = range_selection(len(query_codes), radius, n_bits, n_rows)
    for start in range(0, n, n_rows):
        state.records[:, USED] = 0
        scan_all(scan, state, len(query_codes), (start, min(start + n_rows, n)), stopped)
        for i, piece in enumerate(pieces):
            piece.append(state.entries(i))
    answers = []
    for piece in pieces:
        distances = np.concatenate([np.empty(0, np.int32), *(d for d, _ in piece)])
        rows = np.concatenate([np.empty(0, np.int64), *(r for _, r in piece)])
        order = np.argsort(distances, kind="stable")
        answers.append((distances[order], rows[order]))
    return answers


def scan_all(
    scan: Scan, state: Selection, n_queries: int, rows: tuple[int, int], stopped: threading.Event
) -> None:
    """Scan some rows in short pieces, until `stopped`."""
    start, stop = rows
    piece = max(1 << 12, PIECE // n_queries // 4096 * 4096)
    for first in range(start, stop, piece):
        if stopped.is_set():
            return
        scan(state, first, min(first + piece, stop))
