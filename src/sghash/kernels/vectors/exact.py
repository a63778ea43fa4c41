"""Exact k nearest vectors by blocks: the products by BLAS, the selection by Numba.

A block of scores from the matrix product is good to a few units in the last place, and the error
is bounded. Every row whose score is within that bound of the k-th best is kept, its distance is
computed again in double precision, and only that decides: results do not depend on the blocks,
the BLAS or the number of threads.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.errors import InvalidInput
from sghash.kernels.compiling import announce, compiled
from sghash.kernels.sorting import sort_pairs
from sghash.kernels.threads import cut, run
from sghash.neighbors import Neighbors, empty_neighbors
from sghash.validation import Vectors

BASE_ROWS = 4096
QUERY_ROWS = 256
STEP = 64
METRICS = {"l2": 0, "ip": 1, "cosine": 2}


class _Search(NamedTuple):
    """What is known so far of each query: buffers of (distance, row), and the bar to pass."""

    used: NDArray[np.int64]
    bars: NDArray[np.float64]
    distances: NDArray[np.float32]
    rows: NDArray[np.int64]

    def part(self, queries: slice) -> _Search:
        """The state of some of the queries."""
        used, bars, distances, rows = self
        return _Search(used[queries], bars[queries], distances[queries], rows[queries])


def exact_neighbors(
    vectors: Vectors | VectorSource,
    queries: Vectors,
    k: int,
    *,
    metric: str = "l2",
    threads: int = 1,
) -> Neighbors:
    """The k nearest vectors of each query by (distance, row); `vectors` may exceed memory."""
    if queries.ndim != 2 or vectors.shape[1] != queries.shape[1]:
        raise InvalidInput(
            f"queries have shape {queries.shape}, the vectors {vectors.shape[1]} columns: "
            "use vectors of the same kind"
        )
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    n, n_queries = vectors.shape[0], len(queries)
    result = empty_neighbors(n_queries, k, np.float32)
    if n == 0 or n_queries == 0:
        return result
    announce(_scan_scores, "exact search")
    k_here = min(k, n)
    capacity = min(2 * k_here, n) + 256
    state = _Search(
        np.zeros(n_queries, dtype=np.int64),
        np.full(n_queries, np.inf),
        np.empty((n_queries, capacity), dtype=np.float32),
        np.empty((n_queries, capacity), dtype=np.int64),
    )
    squares = _squares(queries)
    kind = METRICS[metric]
    for first, block in blocks_of(vectors, BASE_ROWS):
        base = np.ascontiguousarray(block, dtype=np.float32)
        base_squares = _squares(base)

        def scan(
            start: int,
            stop: int,
            stopped: threading.Event,
            block: tuple[int, Vectors, NDArray[np.float64]] = (first, base, base_squares),
        ) -> None:
            for at in range(start, stop, QUERY_ROWS):
                if stopped.is_set():
                    return
                part = slice(at, min(at + QUERY_ROWS, stop))
                scores = queries[part] @ block[1].T
                here = state.part(part)
                _scan_scores(here, k_here, kind, scores, queries[part], squares[part], *block)

        run([(scan, part) for part in cut(n_queries, threads)], single_blas=threads > 1)
    _write_sorted(state, k_here, result.distances, result.ids)
    return result


def _squares(vectors: Vectors) -> NDArray[np.float64]:
    return np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)


@compiled
def _distance(
    x: NDArray[np.float32], q: NDArray[np.float32], kind: int, norms: float
) -> np.float32:
    """The distance in double precision, rounded once."""
    total = 0.0
    if kind == 0:
        for i in range(x.shape[0]):
            difference = np.float64(q[i]) - np.float64(x[i])
            total += difference * difference
        return np.float32(total)
    for i in range(x.shape[0]):
        total -= np.float64(q[i]) * np.float64(x[i])
    if kind == 2:
        # Rounded before the subtraction: what float32 vectors tell of a cosine near one.
        return np.float32(1.0) + np.float32(total / norms if norms > 0 else 0.0)
    return np.float32(total)


@compiled
def _scan_scores(
    state: Any,
    k: int,
    kind: int,
    scores: NDArray[np.float32],
    queries: NDArray[np.float32],
    squares: NDArray[np.float64],
    first: int,
    base: NDArray[np.float32],
    base_squares: NDArray[np.float64],
) -> None:
    """Offer every row of a block of inner products to its query.

    A row is worth a second look if score * scale - shift >= wanted: one multiply and one compare
    per row, in vectors; `wanted` already contains the bound of all rounding errors.
    """
    n_rows = scores.shape[1]
    shift, scale = np.zeros(n_rows, dtype=np.float32), np.ones(n_rows, dtype=np.float32)
    largest = np.float64(0.0)
    for i in range(n_rows):
        largest = max(largest, base_squares[i])
        if kind == 0:
            shift[i] = 0.5 * base_squares[i]
        elif kind == 2:
            scale[i] = 1.0 / np.sqrt(base_squares[i]) if base_squares[i] > 0 else 0.0
    # n terms of a float32 product err by at most n eps |x||q|; doubled for good measure.
    unit = 2.0 * (queries.shape[1] + 8) * np.float64(np.finfo(np.float32).eps)
    for query in range(scores.shape[0]):
        row_scores = scores[query]
        wanted = _wanted(state.bars[query], kind, squares[query], largest, unit)
        for start in range(0, n_rows, STEP):
            stop = min(start + STEP, n_rows)
            passing = 0
            for i in range(start, stop):
                passing += row_scores[i] * scale[i] - shift[i] >= wanted
            if passing:
                for i in range(start, stop):
                    if row_scores[i] * scale[i] - shift[i] >= wanted:
                        norms = np.sqrt(squares[query] * base_squares[i])
                        distance = _distance(base[i], queries[query], kind, norms)
                        if _offer(state, query, k, distance, first + i):
                            bar = state.bars[query]
                            wanted = _wanted(bar, kind, squares[query], largest, unit)


@compiled
def _wanted(bar: float, kind: int, square: float, largest: float, unit: float) -> np.float32:
    """The least score that can still belong to a distance of at most `bar`, errors included."""
    if bar == np.inf:
        return np.float32(-np.inf)
    norms = np.sqrt(square * largest)
    if kind == 0:
        bound = 0.5 * (square - bar) - unit * (norms + square + largest)
    elif kind == 1:
        bound = -bar - unit * norms
    else:
        bound = (1.0 - bar - 2.0 * unit) * np.sqrt(square)
    return np.float32(bound - abs(bound) * 1e-6 - 1e-30)


@compiled
def _offer(state: Any, query: int, k: int, distance: np.float32, row: int) -> bool:
    """Take a row that is not beyond the bar; return whether the bar has moved."""
    if distance > state.bars[query]:
        return False
    used = state.used[query]
    state.distances[query, used] = distance
    state.rows[query, used] = row
    state.used[query] = used + 1
    if used + 1 == state.rows.shape[1]:
        _keep_best(state, query, k)
        return True
    return False


@compiled
def _keep_best(state: Any, query: int, k: int) -> None:
    """Keep the k best by (distance, row) of a full buffer, and lower the bar to the k-th."""
    used = state.used[query]
    sort_pairs(state.distances[query, :used], state.rows[query, :used])
    state.used[query] = k
    state.bars[query] = state.distances[query, k - 1]


@compiled
def _write_sorted(
    state: Any, k: int, out_distances: NDArray[np.float32], out_rows: NDArray[np.int64]
) -> None:
    for query in range(out_rows.shape[0]):
        used = state.used[query]
        sort_pairs(state.distances[query, :used], state.rows[query, :used])
        for i in range(min(used, k)):
            out_distances[query, i] = state.distances[query, i]
            out_rows[query, i] = state.rows[query, i]
