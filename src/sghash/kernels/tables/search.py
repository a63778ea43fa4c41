"""The k best codes by score for real queries, no shortlist: every code is looked at.

A score is a sum over groups of four bits of one table entry each (and the code's own term in L2).
Entries are rounded down to bytes on a scale on which the query's current k-th best score is 254,
so a sum of bytes never exceeds the scaled score: what saturates cannot be among the best k. The
few codes that do not saturate are scored in float32, and only that decides. So the answer is exact
whatever the rounding, and the scale gets finer while the k-th best gets nearer. The best few of a
sample of the rows tell where to begin; a query that then finds too few is searched again.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.kernels.checks import UINT8, check_array, check_gram, check_mask_of, check_tables
from sghash.kernels.compiling import announce
from sghash.kernels.tables import nibbles
from sghash.kernels.tables.scans import (
    scan_blocks,
    scan_rows,
    scan_tiles,
    score_bounds,
    set_bars,
    write_sorted,
)
from sghash.kernels.threads import cut, run, useful
from sghash.neighbors import Neighbors, empty_neighbors, merge_neighbors
from sghash.validation import Codes, Vectors, check_k

PIECE = 1 << 27
# Up to so many queries turn codes of 8 or 16 bytes for themselves.
FEW = 2
# Queries whose tables and buffers stay in the cache together.
QUERY_ROWS = 64
# A sample of the rows is looked at first from so many neighbours in all on, and where there are so
# many rows per neighbour and per row of the sample.
_WORTH_A_SAMPLE = 64
_ENOUGH = 1 << 10
# Share of a query's range of scores by which float32 sums may err; far more than they do.
_SLACK = 1e-5
# From this many queries per thread on, threads share the queries; below, the rows.
_SHARE_QUERIES = 4
_NO_GRAM = np.empty((0, 0, 0), dtype=np.float32)
_NO_LEVELS = np.empty(0, dtype=np.uint8)


class Terms(NamedTuple):
    """What codes add to scores by themselves: the tables of exact terms, and a byte per code.

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
    _check(codes, tables, terms, mask)
    k, threads = check_k(k), useful(threads)
    n, n_queries = len(codes), len(tables)
    result = empty_neighbors(n_queries, k, np.float32)
    if n == 0 or n_queries == 0:
        return result
    allowed = np.empty(0, dtype=np.bool_) if mask is None else mask

    k_here = min(k, n)
    if threads == 1 or n_queries >= threads * _SHARE_QUERIES:

        def by_queries(start: int, stop: int, stopped: threading.Event) -> None:
            here = Neighbors(result.distances[start:stop], result.ids[start:stop])
            _search(codes, tables[start:stop], k_here, terms, allowed, (0, n), stopped, here)

        run([(by_queries, part) for part in cut(n_queries, threads)])
        return result
    parts = cut(n, threads)
    shards = [empty_neighbors(n_queries, k, np.float32) for _ in parts]
    jobs = []
    for shard, part in zip(shards, parts, strict=True):

        def by_rows(
            start: int, stop: int, stopped: threading.Event, shard: Neighbors = shard
        ) -> None:
            _search(codes, tables, k_here, terms, allowed, (start, stop), stopped, shard)

        jobs.append((by_rows, part))
    run(jobs)
    return merge_neighbors(shards, k)


def _search(
    codes: Codes,
    tables: Vectors,
    k: int,
    terms: Terms | None,
    allowed: NDArray[np.bool_],
    rows: tuple[int, int],
    stopped: threading.Event,
    out: Neighbors,
) -> None:
    """The k best of some rows for all queries, as many at a time as stay in the cache."""
    for first in range(0, len(tables), QUERY_ROWS):
        part = slice(first, first + QUERY_ROWS)
        here = Neighbors(out.distances[part], out.ids[part])
        _search_part(codes, tables[part], k, terms, allowed, rows, stopped, here)


def _check(
    codes: Codes, tables: Vectors, terms: Terms | None, mask: NDArray[np.bool_] | None
) -> None:
    check_array(codes, UINT8, 2, "codes")
    check_tables(tables, len(tables), codes.shape[1])
    if mask is not None:
        check_mask_of(mask, len(codes))
    if terms is not None:
        check_gram(terms.gram, codes.shape[1])
        check_array(terms.levels, UINT8, 1, "levels")
        if len(terms.levels) != len(codes):
            raise InvalidInput(f"got terms of {len(terms.levels)} codes, there are {len(codes)}")


def _search_part(
    codes: Codes,
    tables: Vectors,
    k: int,
    terms: Terms | None,
    allowed: NDArray[np.bool_],
    rows: tuple[int, int],
    stopped: threading.Event,
    out: Neighbors,
    *,
    sampling: bool = True,
) -> None:
    n_queries, capacity = len(tables), k + k // 2 + 16
    n_groups = tables.shape[1] + (0 if terms is None else 2)
    state = _State(
        np.zeros(n_queries, dtype=np.int64),
        np.full(n_queries, np.inf, dtype=np.float32),
        score_bounds(tables, *_span(terms), _SLACK),
        np.zeros((n_queries, n_groups, 32), dtype=np.uint8),
        np.empty((n_queries, capacity), dtype=np.float32),
        np.empty((n_queries, capacity), dtype=np.int64),
    )
    stride = _stride(n_queries, k, rows, allowed) if sampling else 0
    if stride:
        bars = _sampled_bars(codes, tables, k, terms, allowed, rows, stopped, stride)
        set_bars(*state, tables, 0.0 if terms is None else terms.step, bars)
    _scan(state, codes, tables, k, terms, allowed, rows, stopped)
    write_sorted(*state, k, out.distances, out.ids)
    short = np.flatnonzero(state.used < k) if stride else ()
    if len(short) and not stopped.is_set():
        # The sample was not like the rest: search for these without it.
        again = empty_neighbors(len(short), out.ids.shape[1], np.float32)
        _search_part(codes, tables[short], k, terms, allowed, rows, stopped, again, sampling=False)
        out.distances[short], out.ids[short] = again


def _scan(
    state: _State,
    codes: Codes,
    tables: Vectors,
    k: int,
    terms: Terms | None,
    allowed: NDArray[np.bool_],
    rows: tuple[int, int],
    stopped: threading.Event,
) -> None:
    n_queries = len(tables)
    gram = _NO_GRAM if terms is None else terms.gram
    levels = _NO_LEVELS if terms is None else terms.levels
    levelled = np.asarray([0.0, 0.0] if terms is None else [terms.least, terms.step])
    scan = scan_tiles if nibbles.AVAILABLE else scan_rows
    if nibbles.AVAILABLE and n_queries <= FEW and codes.shape[1] in (8, 16):
        scan = scan_blocks
    announce(scan, "asymmetric search")
    piece = max(1 << 12, PIECE // n_queries // 4096 * 4096)
    for first in range(*rows, piece):
        if stopped.is_set():
            return
        last = min(first + piece, rows[1])
        scan(*state, k, codes, tables, gram, levels, levelled, allowed, first, last)


def _stride(n_queries: int, k: int, rows: tuple[int, int], allowed: NDArray[np.bool_]) -> int:
    """One row in how many is looked at first; 0 if that is not worth while."""
    stride = 64 if n_queries > FEW else 256
    n = rows[1] - rows[0]
    if n_queries * k < _WORTH_A_SAMPLE or n < _ENOUGH * max(stride, k):
        return 0
    if len(allowed) and np.count_nonzero(allowed[rows[0] : rows[1]]) < n // 2:
        return 0
    return stride


def _sampled_bars(
    codes: Codes,
    tables: Vectors,
    k: int,
    terms: Terms | None,
    allowed: NDArray[np.bool_],
    rows: tuple[int, int],
    stopped: threading.Event,
    stride: int,
) -> NDArray[np.float32]:
    """What a row must score below to have a chance, by the best few of a sample of the rows."""
    part = slice(*rows, stride)
    # Copied as whole rows: byte by byte takes four times as long.
    sample = np.ascontiguousarray(codes.view(f"V{codes.shape[1]}")[part]).view(np.uint8)
    sample = sample.reshape(-1, codes.shape[1])
    some = None if terms is None else terms._replace(levels=terms.levels[part].copy())
    expected = k / stride
    # Enough to be right nearly always: who finds too few is searched again.
    n_seen = int(np.ceil(expected + 2 * np.sqrt(expected))) + 1
    best = empty_neighbors(len(tables), n_seen, np.float32)
    _search_part(
        sample, tables, n_seen, some, allowed[part].copy(), (0, len(sample)), stopped, best,
        sampling=False,
    )  # fmt: skip
    # Rows that tie with the last of them must pass.
    return np.nextafter(best.distances[:, -1], np.float32(np.inf))


def _span(terms: Terms | None) -> tuple[float, float]:
    """The least term, and the largest size of one."""
    if terms is None:
        return 0.0, 0.0
    return terms.least, abs(terms.least) + 255 * terms.step
