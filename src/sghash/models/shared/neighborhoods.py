"""The nearest other vectors of each vector of a set: all of them exactly, or most of them soon."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sghash.models.shared.blockwise import single_threaded_blas
from sghash.models.shared.centroids import k_means
from sghash.validation import Ids, Vectors, available_cores

#: Rows of a cell in the mean: every row is compared with the rows of two or so.
CELL_ROWS = 256
#: Up to so many rows are one cell: they are compared with each other exactly.
ONE_CELL_ROWS = 2048
#: For inner products the longest rows are candidates in every cell: they win from far away.
LONGEST_ROWS = 64
#: Centroids are learned from so many rows each, in so many rounds.
CENTROID_ROWS, CENTROID_ROUNDS = 32, 3
CELL_AXES = 48
BLOCK_ROWS = 4096


def k_nearest_others(vectors: Vectors, k: int, *, metric: str, threads: int = 1) -> Ids:
    """Rows (n, k) of the nearest other vectors of each of `vectors` (n, d); k is at most n - 1.

    `metric` is "l2" or "ip"; exact.
    """
    from sghash.kernels import exact_neighbors

    n = len(vectors)
    found = exact_neighbors(vectors, vectors, k + 1, metric=metric, threads=threads).ids
    # A vector is not always its own nearest: duplicates tie, and inner products prefer length.
    is_self = found == np.arange(n)[:, None]
    is_self[~is_self.any(axis=1), -1] = True
    return found[~is_self].reshape(n, k)


class Pool(NamedTuple):
    """Vectors (n, d) in cells: the rows that are each cell's `own`, and its `candidates`.

    The score of a candidate is its product with a row less its `halves`, highest for the nearest.
    """

    vectors: Vectors
    halves: Vectors
    own: list[Ids]
    candidates: list[Ids]


def near_others(
    vectors: Vectors, k: int, *, metric: str, rng: Generator, n_rows: int, again: bool = True
) -> Ids:
    """Rows (n_rows, k) of near other vectors of the first `n_rows` of `vectors` (n, d).

    Found within cells around centroids, each with its own rows and those for which it is the
    second nearest; then, if `again`, among the neighbours of neighbours. Of `k` = 5 well over half
    are the true ones, and nearly all are among the nearest twenty, at a hundredth of the cost of an
    exact search. k is at most n - 1; where a cell has fewer, those found stand there repeatedly.
    """
    pool = make_pool(vectors, metric, rng)
    wanted = len(vectors) if again else n_rows
    found = np.full((wanted, min(k, len(vectors) - 1)), -1, dtype=np.int64)
    with single_threaded_blas(), ThreadPoolExecutor(available_cores()) as threads:
        for _ in threads.map(lambda cell: _search_cell(pool, cell, found), range(len(pool.own))):
            pass
        if again and len(pool.own) > 1:
            found = _look_again(pool, found, n_rows, threads)
    return _filled(found[:n_rows], len(vectors))


def make_pool(vectors: Vectors, metric: str, rng: Generator) -> Pool:
    """Put `vectors` into cells; `metric` is "l2" or "ip"."""
    n = len(vectors)
    squares = np.einsum("ij,ij->i", vectors, vectors)
    halves = np.zeros(n, dtype=np.float32) if metric == "ip" else 0.5 * squares
    if n <= ONE_CELL_ROWS:
        return Pool(vectors, halves, [np.arange(n)], [np.arange(n)])
    # Leading axes decide about cells: all of them decide within.
    leading = np.ascontiguousarray(vectors[:, :CELL_AXES])
    centroids = _centroids(leading, rng)
    first, second = two_nearest(leading, centroids)
    own, borders = (_grouped(numbers, len(centroids)) for numbers in (first, second))
    if metric != "ip":
        pairs = zip(own, borders, strict=True)
        return Pool(vectors, halves, own, [np.concatenate(pair) for pair in pairs])
    longest = np.argsort(-squares, kind="stable")[:LONGEST_ROWS]
    is_other = np.ones(n, dtype=bool)
    is_other[longest] = False
    candidates = [
        np.concatenate([mine[is_other[mine]], border[is_other[border]], longest])
        for mine, border in zip(own, borders, strict=True)
    ]
    return Pool(vectors, halves, own, candidates)


def _centroids(vectors: Vectors, rng: Generator) -> Vectors:
    n_cells = -(-len(vectors) // CELL_ROWS)
    chosen = rng.choice(len(vectors), min(len(vectors), CENTROID_ROWS * n_cells), replace=False)
    sample = vectors[chosen]
    return k_means(sample, sample[:n_cells].copy(), CENTROID_ROUNDS, rng)


def two_nearest(vectors: Vectors, centroids: Vectors) -> tuple[NDArray[Any], NDArray[Any]]:
    """Numbers (n,) of the nearest and of the second nearest centroid of each vector."""
    from sghash.kernels.learning.neighbors import two_best

    first, second = (np.empty(len(vectors), dtype=np.int64) for _ in range(2))
    halves = 0.5 * np.einsum("ij,ij->i", centroids, centroids)
    for start in range(0, len(vectors), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        two_best(vectors[part] @ centroids.T, halves, first[part], second[part])
    return first, second


def _grouped(numbers: NDArray[Any], n_groups: int) -> list[Ids]:
    order = np.argsort(numbers, kind="stable")
    edges = np.searchsorted(numbers[order], np.arange(n_groups + 1))
    return [order[start:stop] for start, stop in pairwise(edges.tolist())]


def _search_cell(pool: Pool, cell: int, found: Ids) -> None:
    from sghash.kernels.learning.neighbors import best_others

    own = pool.own[cell]
    own = own[own < len(found)]
    if not len(own):
        return
    members = pool.candidates[cell]
    candidates, halves = pool.vectors[members], pool.halves[members]
    for start in range(0, len(own), BLOCK_ROWS):
        rows = own[start : start + BLOCK_ROWS]
        scores = pool.vectors[rows] @ candidates.T
        scores -= halves
        here = np.empty((len(rows), found.shape[1]), dtype=np.int64)
        best_others(scores, rows, members, here)
        found[rows] = here


def _look_again(pool: Pool, known: Ids, n_rows: int, threads: ThreadPoolExecutor) -> Ids:
    """Neighbours of neighbours of the first `n_rows`, a part for each thread."""
    from sghash.kernels.learning.neighbors import join_neighborhoods

    found = np.empty((n_rows, known.shape[1]), dtype=np.int64)
    edges = np.linspace(0, n_rows, available_cores() + 1).astype(int).tolist()
    work: Callable[[tuple[int, int]], None] = lambda part: join_neighborhoods(  # noqa: E731
        pool.vectors, pool.halves, known, part[0], found[slice(*part)]
    )
    list(threads.map(work, pairwise(edges)))
    return found


def _filled(found: Ids, n: int) -> Ids:
    """Put what was found in the place of what was not; a row alone in its cell gets any other."""
    alone = found[:, 0] < 0
    found[alone, 0] = (np.flatnonzero(alone) + 1) % n
    for place in range(1, found.shape[1]):
        missing = found[:, place] < 0
        found[missing, place] = found[missing, 0]
    return found
