"""A way to search within so many bytes a row, and everything that is measured of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sghash.evaluation import metrics
from sghash.experiments.by_query import KEPT, pack_shares
from sghash.experiments.experiment import Values
from sghash.experiments.hashing import recalls
from sghash.experiments.sets import BenchSet, load, truth
from sghash.validation import Ids, Vectors

#: Neighbours that are asked for: recall looks at the first 10 and at all; a timed query wants 10.
DEPTH, TIMED_DEPTH, K = 100, 10, 10
#: Queries that are timed one by one, after some that warm up.
TIMED, WARM = 100, 5


class Searcher(NamedTuple):
    """Rows that can be searched: unit queries (m, d) and k to ids (m, k), on one thread.

    `n_bytes()` is all that is stored for a row, `learned_from` how many rows anything was learned
    from (0 where nothing is), `close` gives back files.
    """

    search: Callable[[Vectors, int], NDArray[Any]]
    n_bytes: Callable[[], float]
    learned_from: int
    close: Callable[[], None] = lambda: None


#: Unit rows (n, d), bytes a row, seed -> something to search.
Build: TypeAlias = Callable[[Vectors, int, int], Searcher]


class Contender(NamedTuple):
    """A method: how it is built, the budgets in bytes at which it is measured, how many seeds.

    `seeds` 1 is for what draws nothing. `package` is what it needs beside sghash. `prepare` is
    called before times are taken, to compile what a fit runs through. `options` are all that it is
    built with for a size, as text: a row does not outlive a change of them.
    """

    build: Build
    sizes: tuple[int, ...]
    seeds: int = 3
    is_ours: bool = False
    package: str | None = None
    prepare: Callable[[Vectors], None] = lambda rows: None
    options: Callable[[int], dict[str, str]] = lambda size: {}


def measure(contender: Contender, which: BenchSet, size: int, seed: int) -> Values:
    """Recall, processor time of the build and of one query, and bytes a row."""
    data = load(which)
    base, queries = unit(data.base), unit(data.queries)
    contender.prepare(base[:300])
    start = time.process_time()
    searcher = contender.build(base, size, seed)
    seconds = time.process_time() - start
    try:
        ids = searcher.search(queries, min(DEPTH, len(base))).astype(np.int64)
        return {
            "build_seconds": seconds,
            "query_milliseconds": milliseconds_of(searcher, queries),
            "stored_bytes": float(searcher.n_bytes()),
            "learned_from": searcher.learned_from,
            **_recalls(which, ids),
        }
    finally:
        searcher.close()


def milliseconds_of(searcher: Searcher, queries: Vectors) -> float:
    """The median over queries of the processor time that one takes by itself, in milliseconds."""
    seconds = []
    for place in range(WARM + TIMED):
        query = queries[place % len(queries)][None]
        start = time.process_time()
        searcher.search(query, TIMED_DEPTH)
        seconds.append(time.process_time() - start)
    return 1e3 * float(np.median(seconds[WARM:]))


def _recalls(which: BenchSet, ids: Ids) -> Values:
    """Recall10@N, with what each query found among its first ten too."""
    values = recalls(which, ids, neighbors=(K,))
    first = metrics.recall_by_query(truth(which, K).ids, ids, k=K, n=K)
    return {**values, KEPT: {**values[KEPT], f"recall{K}@{K}": pack_shares(first)}}


def unit(rows: Any) -> Vectors:
    """Rows (n, d) float32 of length one."""
    vectors = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
