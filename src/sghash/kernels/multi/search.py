"""Search and join through tables of keys, for many queries and threads."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.kernels.checks import check_codes_agree
from sghash.kernels.compiling import announce, compiled
from sghash.kernels.hamming.staging import words_of
from sghash.kernels.multi.layout import Tables
from sghash.kernels.multi.probing import (
    ENTRIES,
    ENTRY_COST,
    KEY_COST,
    KEYS,
    N_COUNTS,
    ROW_BITS,
    USED,
    View,
    probe,
)
from sghash.kernels.threads import cut, run
from sghash.neighbors import RangeNeighbors, empty_neighbors
from sghash.validation import Codes

#: Queries of one compiled call: between two of them Ctrl-C is heard.
_QUERIES = 64
_NOTHING_MOVED = np.empty(0, dtype=np.int64)
_ALL = np.empty(0, dtype=np.bool_)
_NEVER = threading.Event()


class Probed(NamedTuple):
    """What came of it: rows, whether each query's are complete, and its counts.

    `counts` (n_queries, N_COUNTS) are rows found, keys, entries, codes compared.
    """

    neighbors: Any
    complete: NDArray[np.bool_]
    counts: NDArray[np.int64]

    @property
    def spent(self) -> float:
        """Nanoseconds that a query is expected to have taken, on average."""
        keys, entries = self.counts.mean(axis=0)[[KEYS, ENTRIES]]
        return float(KEY_COST * keys + ENTRY_COST * entries)


def multi_neighbors(
    tables: Tables,
    codes: Codes,
    query_codes: Codes,
    k: int,
    *,
    now: NDArray[np.int64] | None = None,
    n_known: int | None = None,
    mask: NDArray[np.bool_] | None = None,
    budget: float = np.inf,
    threads: int = 1,
) -> Probed:
    """The k nearest rows of each query by (distance, row), as a scan would find them.

    `tables` are those of the codes, or of earlier ones: `now` and `n_known` are then those of
    `View`. A query for which more than `budget` nanoseconds would be needed is left incomplete.
    """
    view = _view(tables, codes, query_codes, now, n_known, mask)
    n_queries = len(query_codes)
    result = empty_neighbors(n_queries, k, np.int32)
    complete = np.ones(n_queries, dtype=np.bool_)
    counts = np.zeros((n_queries, N_COUNTS), dtype=np.int64)
    words, k_here = words_of(query_codes), min(k, len(codes))
    announce(_nearest, "multi-index search")

    def search(start: int, stop: int, stopped: threading.Event) -> None:
        for first in range(start, stop, _QUERIES):
            if stopped.is_set():
                return
            part = slice(first, min(first + _QUERIES, stop))
            _nearest(
                *tables, *view, query_codes[part], words[part], k_here, float(budget),
                result.distances[part], result.ids[part], complete[part], counts[part],
            )  # fmt: skip

    if k_here and n_queries == 1:  # threads have nothing to share
        search(0, 1, _NEVER)
    elif k_here:
        run([(search, part) for part in cut(n_queries, threads)])
    return Probed(result, complete, counts)


def multi_range(
    tables: Tables,
    codes: Codes,
    query_codes: Codes,
    radius: int,
    *,
    now: NDArray[np.int64] | None = None,
    n_known: int | None = None,
    mask: NDArray[np.bool_] | None = None,
    budget: float = np.inf,
    threads: int = 1,
) -> Probed:
    """All rows within `radius` of each query by (distance, row); none of an incomplete query."""
    view = _view(tables, codes, query_codes, now, n_known, mask)
    n_queries, radius = len(query_codes), min(radius, 8 * codes.shape[1])
    complete = np.ones(n_queries, dtype=np.bool_)
    counts = np.zeros((n_queries, N_COUNTS), dtype=np.int64)
    answers: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)] * n_queries
    words = words_of(query_codes)
    announce(probe, "multi-index search")

    def search(start: int, stop: int, stopped: threading.Event) -> None:
        found = np.empty(1024, dtype=np.int64)
        for i in range(start, stop):
            if stopped.is_set():
                return
            query = query_codes[i : i + 1], words[i], radius, float(budget)
            complete[i] = probe(*tables, *view, *query, found, counts[i])
            if complete[i] and counts[i, USED] > len(found):
                found = np.empty(int(1.25 * counts[i, USED]), dtype=np.int64)
                probe(*tables, *view, *query, found, counts[i])
            if complete[i]:
                answers[i] = np.sort(found[: counts[i, USED]])

    if n_queries == 1:
        search(0, 1, _NEVER)
    else:
        run([(search, part) for part in cut(n_queries, threads)])
    limits = np.zeros(n_queries + 1, dtype=np.int64)
    np.cumsum([len(answer) for answer in answers], out=limits[1:])
    every = np.concatenate([np.empty(0, dtype=np.int64), *answers])
    distances, rows = (every >> ROW_BITS).astype(np.int32), every & ((1 << ROW_BITS) - 1)
    return Probed(RangeNeighbors(limits, distances, rows), complete, counts)


def _view(
    tables: Tables,
    codes: Codes,
    query_codes: Codes,
    now: NDArray[np.int64] | None,
    n_known: int | None,
    mask: NDArray[np.bool_] | None,
) -> View:
    """The rows as compiled code sees them, refused where it would read foreign memory."""
    check_codes_agree(codes, query_codes, 8 * codes.shape[1], mask)
    n = len(codes)
    known = tables.n_rows if n_known is None else n_known
    fits = tables.spread.shape[1] == codes.shape[1] and 0 <= known <= n
    if now is None:
        fits = fits and known == tables.n_rows
    else:
        fits = fits and len(now) == tables.n_rows and (not len(now) or int(now.max()) < known)
    if not fits:
        raise InvalidInput(
            f"the tables are of {tables.n_rows} rows of {tables.spread.shape[1]} bytes, not of "
            f"these {n} of {codes.shape[1]}: build them anew"
        )
    return View(
        codes, known, _NOTHING_MOVED if now is None else now, _ALL if mask is None else mask
    )


@compiled
def _nearest(
    starts: NDArray[np.uint32],
    places: NDArray[np.int64],
    entries: NDArray[np.uint64],
    key_bits: NDArray[np.int64],
    masks: NDArray[np.uint64],
    spread: NDArray[np.uint64],
    codes: NDArray[np.uint8],
    n_known: int,
    now: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    query_codes: NDArray[np.uint8],
    words: NDArray[np.uint64],
    k: int,
    budget: float,
    distances: NDArray[np.int32],
    rows: NDArray[np.int64],
    complete: NDArray[np.bool_],
    counts: NDArray[np.int64],
) -> None:
    """Write the k nearest rows of each query that the budget is enough for."""
    found = np.empty(k, dtype=np.int64)
    for i in range(query_codes.shape[0]):
        complete[i] = probe(
            starts, places, entries, key_bits, masks, spread, codes, n_known, now, allowed,
            query_codes[i : i + 1], words[i], -1, budget, found, counts[i],
        )  # fmt: skip
        if complete[i]:
            for place in range(counts[i, USED]):
                distances[i, place] = found[place] >> ROW_BITS
                rows[i, place] = found[place] & ((1 << ROW_BITS) - 1)
