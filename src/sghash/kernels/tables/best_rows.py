"""The rows with the best k scores, for any kind of tables: every row is looked at.

A kind of tables brings a `Scan`, which knows how to look at rows quickly; here stands what all
kinds share: threads, queries in groups, masks, and where to begin. The best few of a sample of the
rows tell which score a row must beat; a query that then finds too few is searched again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.tables.selection import Selection, new_selection, write_sorted
from sghash.kernels.threads import cut, run, useful
from sghash.neighbors import PADDING_ID, Neighbors, empty_neighbors, merge_neighbors
from sghash.validation import Ids, check_k

# Scores per call of a scan: some tens of milliseconds.
PIECE = 1 << 27
# Queries whose tables and buffers stay in the cache together.
QUERY_ROWS = 64
# Up to so many queries are few: they share little, so a sample must be smaller to pay.
FEW = 2
# A sample of the rows is looked at first from so many neighbours in all on, and where there are so
# many rows per neighbour and per row of the sample.
WORTH_A_SAMPLE = 64
ENOUGH = 1 << 10
# Below this share of allowed rows it is cheaper to gather them than to skip the others.
GATHER_BELOW = 0.125
# Scores that pay for the start of a thread.
WORTH_A_THREAD = 1 << 17
# From this many queries per thread on, threads share the queries; below, the rows.
_SHARE_QUERIES = 4

#: Look at rows first to last - 1 of those allowed: (selection, k, allowed, first, last).
Look = Callable[[Selection, int, NDArray[np.bool_], int, int], None]


class Scan(Protocol):
    """Codes, and tables of queries that score them."""

    @property
    def n_rows(self) -> int:
        """Number of codes."""

    @property
    def n_queries(self) -> int:
        """Number of queries."""

    def of_queries(self, chosen: slice | Ids) -> Self:
        """The same codes for some of the queries."""

    def of_rows(self, chosen: slice | Ids) -> Self:
        """A copy of some of the codes, for the same queries."""

    def begin(self, bars: NDArray[np.float32]) -> Look:
        """Prepare to look for rows that score below these `bars` (n_queries,)."""


def best_rows(
    scan: Scan, k: int, *, mask: NDArray[np.bool_] | None = None, threads: int | None = 1
) -> Neighbors:
    """The k rows with the least score of each query, by (score, row); scores float32."""
    k, threads = check_k(k), useful(threads)
    n, n_queries = scan.n_rows, scan.n_queries
    if mask is not None and np.count_nonzero(mask) < GATHER_BELOW * n:
        rows = np.flatnonzero(mask)
        found = best_rows(scan.of_rows(rows), k, threads=threads)
        known = found.ids != PADDING_ID
        found.ids[known] = rows[found.ids[known]]
        return found
    result = empty_neighbors(n_queries, k, np.float32)
    if n == 0 or n_queries == 0:
        return result
    allowed = np.empty(0, dtype=np.bool_) if mask is None else mask
    k_here = min(k, n)
    threads = max(1, min(threads, n * n_queries // WORTH_A_THREAD))
    if threads > 1 and n_queries < threads * _SHARE_QUERIES:
        return merge_neighbors(_by_rows(scan, k_here, allowed, threads), k)

    def search(start: int, stop: int, stopped: threading.Event) -> None:
        here = Neighbors(result.distances[start:stop], result.ids[start:stop])
        _search(scan.of_queries(slice(start, stop)), k_here, allowed, (0, n), stopped, here)

    run([(search, part) for part in cut(n_queries, threads)])
    return result


def _by_rows(scan: Scan, k: int, allowed: NDArray[np.bool_], threads: int) -> list[Neighbors]:
    """An answer per thread, each of some of the rows: for queries too few to share."""
    parts = cut(scan.n_rows, threads)
    shards = {part: empty_neighbors(scan.n_queries, k, np.float32) for part in parts}

    def search(start: int, stop: int, stopped: threading.Event) -> None:
        _search(scan, k, allowed, (start, stop), stopped, shards[start, stop])

    run([(search, part) for part in parts])
    return list(shards.values())


def _search(
    scan: Scan,
    k: int,
    allowed: NDArray[np.bool_],
    rows: tuple[int, int],
    stopped: threading.Event,
    out: Neighbors,
) -> None:
    """The k best of some rows for all queries, as many at a time as stay in the cache."""
    for first in range(0, scan.n_queries, QUERY_ROWS):
        part = slice(first, first + QUERY_ROWS)
        here = Neighbors(out.distances[part], out.ids[part])
        search_group(scan.of_queries(part), k, allowed, rows, stopped, here)


def search_group(
    scan: Scan,
    k: int,
    allowed: NDArray[np.bool_],
    rows: tuple[int, int],
    stopped: threading.Event,
    out: Neighbors,
    *,
    sampling: bool = True,
) -> None:
    """Fill `out` with the best k of some rows for a few queries; no `allowed` means all of them."""
    state = new_selection(scan.n_queries, k)
    stride = _stride(scan.n_queries, k, rows, allowed) if sampling else 0
    if stride:
        state.bars[:] = _sampled_bars(scan, k, allowed, rows, stopped, stride)
    look = scan.begin(state.bars)
    piece = max(1 << 12, PIECE // scan.n_queries // 4096 * 4096)
    for first in range(*rows, piece):
        if stopped.is_set():
            return
        look(state, k, allowed, first, min(first + piece, rows[1]))
    write_sorted(*state, k, out.distances, out.ids)
    short = np.flatnonzero(state.used < k)
    if stride and len(short) and not stopped.is_set():
        # The sample was not like the rest: search for these without it.
        again = empty_neighbors(len(short), out.ids.shape[1], np.float32)
        search_group(scan.of_queries(short), k, allowed, rows, stopped, again, sampling=False)
        out.distances[short], out.ids[short] = again


def _stride(n_queries: int, k: int, rows: tuple[int, int], allowed: NDArray[np.bool_]) -> int:
    """One row in how many is looked at first; 0 if that is not worth while."""
    stride = 64 if n_queries > FEW else 256
    n = rows[1] - rows[0]
    if n_queries * k < WORTH_A_SAMPLE or n < ENOUGH * max(stride, k):
        return 0
    if len(allowed) and np.count_nonzero(allowed[rows[0] : rows[1]]) < n // 2:
        return 0
    return stride


def _sampled_bars(
    scan: Scan,
    k: int,
    allowed: NDArray[np.bool_],
    rows: tuple[int, int],
    stopped: threading.Event,
    stride: int,
) -> NDArray[np.float32]:
    """What a row must score below to have a chance, by the best few of a sample of the rows."""
    part = slice(*rows, stride)
    sample = scan.of_rows(part)
    expected = k / stride
    # Enough to be right nearly always: who finds too few is searched again.
    n_seen = int(np.ceil(expected + 2 * np.sqrt(expected))) + 1
    best = empty_neighbors(scan.n_queries, n_seen, np.float32)
    whole = (0, sample.n_rows)
    search_group(sample, n_seen, allowed[part].copy(), whole, stopped, best, sampling=False)
    # Rows that tie with the last of them must pass.
    return np.nextafter(best.distances[:, -1], np.float32(np.inf))


def chosen_codes(codes: NDArray[np.uint8], chosen: slice | Ids) -> NDArray[np.uint8]:
    """A copy of some rows of codes, taken as whole rows: byte by byte takes four times as long."""
    n_bytes = codes.shape[1]
    whole = np.ascontiguousarray(codes.view(f"V{n_bytes}")[chosen])
    return whole.view(np.uint8).reshape(-1, n_bytes)
