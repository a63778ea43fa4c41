"""The k best codes by score for real queries, no shortlist: every code is looked at.

A score is a sum over groups of four bits of one table entry each (and the code's own term in L2).
Entries are rounded down to bytes on a scale on which the query's current k-th best score is 254,
so a sum of bytes never exceeds the scaled score: what saturates cannot be among the best k. The
few codes that do not saturate are scored in float32, and only that decides. So the answer is exact
whatever the rounding, and the scale gets finer while the k-th best gets nearer.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.kernels import nibbles
from sghash.kernels.asymmetric_scans import scan_blocks, scan_rows, scan_tiles, write_sorted
from sghash.kernels.compiling import announce
from sghash.kernels.pieces import cut, run
from sghash.neighbors import Neighbors, empty_neighbors, merge_neighbors
from sghash.validation import Codes, Vectors

PIECE = 1 << 27
# Up to so many queries turn codes of eight bytes for themselves.
FEW = 2
# Queries whose tables and buffers stay in the cache together.
QUERY_ROWS = 64
# Share of a query's range of scores by which float32 sums may err; far more than they do.
_SLACK = 1e-5
# From this many queries per thread on, threads share the queries; below, the rows.
_SHARE_QUERIES = 4


class Terms(NamedTuple):
    """What codes add to scores by themselves: the matrix K of exact terms, and a byte per code.

    The term of a code is at least `least` + its level * `step`; `levels` (n,) uint8.
    """

    gram: Vectors
    levels: NDArray[np.uint8]
    least: float
    step: float


class _State(NamedTuple):
    """Per query: rows in the buffer, the bar to pass, its bounds, byte tables, the buffers.

    `bounds` (n_queries, 2): the least score any code could have, and what rounding may add.
    """

    used: NDArray[np.int64]
    bars: NDArray[np.float32]
    bounds: NDArray[np.float64]
    bytes: NDArray[np.uint8]
    scores: NDArray[np.float32]
    rows: NDArray[np.int64]


def make_terms(values: Vectors, gram: Vectors) -> Terms:
    """Round the terms of all codes (n,) down to a byte each."""
    least = float(values.min()) if len(values) else 0.0
    step = (float(values.max()) - least) / 255 if len(values) else 0.0
    # A little less than the nearest level, so that rounding never lifts a term.
    shares = (values.astype(np.float64) - least) / step - 1e-3 if step else np.zeros(len(values))
    return Terms(gram, np.clip(np.floor(shares), 0, 255).astype(np.uint8), least, step)


def asymmetric_neighbors(
    codes: Codes,
    tables: Vectors,
    k: int,
    *,
    terms: Terms | None = None,
    mask: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> Neighbors:
    """The k rows with the least score of each query, by (score, row); scores float32.

    `tables` (n_queries, 2 * n_bytes, 16) come from `rescoring.nibble_tables`.
    """
    n, n_queries = len(codes), len(tables)
    result = empty_neighbors(n_queries, k, np.float32)
    if n == 0 or n_queries == 0:
        return result
    allowed = np.empty(0, dtype=np.bool_) if mask is None else mask

    def search(
        queries: range, rows: tuple[int, int], out: Neighbors, stopped: threading.Event
    ) -> None:
        for first in range(queries.start, queries.stop, QUERY_ROWS):
            part = slice(first, min(first + QUERY_ROWS, queries.stop))
            here = Neighbors(out.distances[part], out.ids[part])
            _search_part(codes, tables[part], min(k, n), terms, allowed, rows, stopped, here)

    if threads == 1 or n_queries >= threads * _SHARE_QUERIES:

        def by_queries(start: int, stop: int, stopped: threading.Event) -> None:
            search(range(start, stop), (0, n), result, stopped)

        run([(by_queries, part) for part in cut(n_queries, threads)])
        return result
    shards = [empty_neighbors(n_queries, k, np.float32) for _ in range(threads)]
    jobs = []
    for shard, part in zip(shards, cut(n, threads), strict=False):

        def by_rows(
            start: int, stop: int, stopped: threading.Event, shard: Neighbors = shard
        ) -> None:
            search(range(n_queries), (start, stop), shard, stopped)

        jobs.append((by_rows, part))
    run(jobs)
    return merge_neighbors(shards, k)


def _search_part(
    codes: Codes,
    tables: Vectors,
    k: int,
    terms: Terms | None,
    allowed: NDArray[np.bool_],
    rows: tuple[int, int],
    stopped: threading.Event,
    out: Neighbors,
) -> None:
    n_queries, capacity = len(tables), k + k // 2 + 16
    gram = np.empty((0, 0), dtype=np.float32) if terms is None else terms.gram
    levels = np.empty(0, dtype=np.uint8) if terms is None else terms.levels
    state = _State(
        np.zeros(n_queries, dtype=np.int64),
        np.full(n_queries, np.inf, dtype=np.float32),
        _bounds(tables, terms),
        np.zeros((n_queries, tables.shape[1] + 2 * bool(terms), 32), dtype=np.uint8),
        np.empty((n_queries, capacity), dtype=np.float32),
        np.empty((n_queries, capacity), dtype=np.int64),
    )
    levelled = np.asarray([terms.least, terms.step] if terms else [0.0, 0.0])
    scan = scan_tiles if nibbles.AVAILABLE else scan_rows
    if nibbles.AVAILABLE and n_queries <= FEW and codes.shape[1] == 8 and terms is None:
        scan = scan_blocks
    announce(scan, "asymmetric search")
    piece = max(1 << 12, PIECE // n_queries // 4096 * 4096)
    for first in range(*rows, piece):
        if stopped.is_set():
            return
        last = min(first + piece, rows[1])
        scan(*state, k, codes, tables, gram, levels, levelled, allowed, first, last)
    write_sorted(*state, k, out.distances, out.ids)


def _bounds(tables: Vectors, terms: Terms | None) -> NDArray[np.float64]:
    lows = tables.min(axis=2).sum(axis=1, dtype=np.float64)
    sizes = np.abs(tables).max(axis=2).sum(axis=1, dtype=np.float64)
    if terms is not None:
        lows += terms.least
        sizes += abs(terms.least) + 255 * terms.step
    return np.stack([lows, _SLACK * sizes + 1e-30], axis=1)
