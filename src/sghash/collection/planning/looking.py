"""A look at vectors before a collection is built of them: their metric, and true neighbours.

The rows that are looked at are all of them, or a random sample where comparing the queries with all
would take long. Queries are the caller's, or some of these rows, each left out of its own answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.blocks import VectorSource
from sghash.errors import InvalidInput
from sghash.models.inputs import is_source, sample_rows
from sghash.validation import METRICS, Ids, Vectors, available_cores, check_choice, check_vectors

#: Queries at most, and one of how many rows.
N_QUERIES, QUERY_SHARE = 400, 4
#: True neighbours that are known of each query at least, and of each that are asked for.
N_NEAR, NEAR_SHARE = 64, 2
#: Products of two numbers that finding the true neighbours may take, and bytes of rows in memory.
MAX_PRODUCTS, MAX_BYTES = 2 * 10**11, 1 << 30
# How far from one the length of a vector of length one may be, for float16 rounds.
_UNIT = 0.01
_NO_ROWS = np.empty(0, dtype=np.int64)


class Look(NamedTuple):
    """What was seen: queries with their `near` rows among `sample`, nearest first.

    `rows` are those rows of the whole that are the queries, `own` their places in `sample`, both
    empty where the caller gave queries; `near` are rows of the whole, `places` the same in
    `sample`; -1 where there is none.
    """

    n: int
    width: int
    metric: str
    why_metric: str
    sample: Vectors
    queries: Vectors
    rows: NDArray[np.int64]
    own: NDArray[np.int64]
    near: Ids
    places: Ids
    distances: Vectors

    @property
    def is_whole(self) -> bool:
        """Whether every row was looked at."""
        return len(self.sample) == self.n


def look(
    vectors: Vectors | VectorSource,
    *,
    metric: str | None,
    queries: ArrayLike | None,
    k: int,
    random_state: int,
) -> Look:
    """Look at checked vectors (n, d), or at a source of them."""
    n, width = vectors.shape
    rng = np.random.default_rng(random_state)
    given = None if queries is None else check_vectors(queries, width=width, name="queries")
    if given is not None and not len(given):
        raise InvalidInput("queries are empty: give at least one, or leave queries out")
    n_queries = min(N_QUERIES, n // QUERY_SHARE if given is None else len(given))
    n_looked = min(n, MAX_PRODUCTS // (width * max(1, n_queries)), MAX_BYTES // (4 * width))
    chosen, sample = _sample(vectors, max(1, n_looked), rng)
    metric, why = _metric_of(sample, metric)
    own = _NO_ROWS
    if given is None:
        own = np.sort(rng.choice(len(sample), n_queries, replace=False)).astype(np.int64)
        asked = np.ascontiguousarray(sample[own])
    else:
        asked = np.ascontiguousarray(given[rng.permutation(len(given))[:n_queries]])
    distances, places = nearest_of(sample, asked, own, metric, k)
    near = np.where(places < 0, -1, chosen[places])
    return Look(n, width, metric, why, sample, asked, chosen[own], own, near, places, distances)


def _sample(
    vectors: Vectors | VectorSource, n_rows: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Vectors]:
    """Random rows and their numbers, rising."""
    n = vectors.shape[0]
    if n_rows < n:
        # `sample_rows` draws the same rows from the same state.
        before = rng.bit_generator.state
        chosen = np.sort(rng.choice(n, size=n_rows, replace=False)).astype(np.int64)
        rng.bit_generator.state = before
        return chosen, _finite(sample_rows(vectors, n_rows, rng))
    every = np.arange(n, dtype=np.int64)
    if is_source(vectors):
        return every, _finite(sample_rows(vectors, n, rng))
    return every, vectors  # type: ignore[return-value]


def _finite(sample: Vectors) -> Vectors:
    return check_vectors(sample)


def _metric_of(sample: Vectors, metric: str | None) -> tuple[str, str]:
    """The metric that was asked for, or the one that the rows suggest, and why."""
    if metric is not None:
        return check_choice(metric, METRICS, name="metric"), "as given"
    lengths = np.linalg.norm(sample, axis=1)
    if bool(np.all(np.abs(lengths - 1) < _UNIT)):
        return "cosine", "the rows have length one, so all metrics order them alike"
    return "l2", "the rows are not of length one; say metric= if you compare them otherwise"


def nearest_of(
    vectors: Vectors | VectorSource, queries: Vectors, own: NDArray[np.int64], metric: str, k: int
) -> tuple[Vectors, Ids]:
    """Distances and rows of the nearest vectors, more than k, without the row that asks."""
    from sghash.kernels.vectors.exact import exact_neighbors

    more = int(bool(len(own)))
    k = min(max(N_NEAR, NEAR_SHARE * k), vectors.shape[0] - more)
    if not len(queries) or k < 1:
        return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
    found = exact_neighbors(vectors, queries, k + more, metric=metric, threads=available_cores())
    if not more:
        return found.distances, found.ids
    return without_own(found.distances, found.ids, own)


def without_own(
    distances: NDArray[Any], ids: Ids, own: NDArray[np.int64]
) -> tuple[NDArray[Any], Ids]:
    """Each answer without the row that asked, or without its last row."""
    mine = ids == own[:, None]
    mine[~mine.any(axis=1), -1] = True
    shape = len(ids), ids.shape[1] - 1
    return distances[~mine].reshape(shape), ids[~mine].reshape(shape)


def recalls(look: Look, found: Ids, k: int) -> NDArray[np.float64]:
    """Share of the k nearest rows of each query that `found` (n_queries, m) has.

    Whatever is as near as the k-th is right, for ties are the normal case where rows repeat.
    `found` are rows of the whole.
    """
    k = min(k, look.near.shape[1])
    if not k:
        return np.ones(len(found))
    limit = look.distances[:, k - 1 : k]
    right = np.where(look.distances <= limit, look.near, -2)
    hits = np.asarray([np.isin(one, near).sum() for one, near in zip(found, right, strict=True)])
    # So many rows are as near as the k-th that not all of them are known.
    endless = (look.distances[:, -1:] <= limit)[:, 0] & (look.near.shape[1] > k)
    return np.where(endless, 1.0, np.minimum(hits / k, 1.0))
