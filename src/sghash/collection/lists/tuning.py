"""What searches of a collection find and cost: recall against queries per second, and bytes.

Some of its own rows are the queries. Each is left out of its own answer, which is asked for one row
longer; one query is searched at a time, on one thread.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection import answers
from sghash.collection.lists.building import nearest_kept, vectors_at
from sghash.collection.moment import Moment
from sghash.collection.planning.looking import without_own
from sghash.errors import InvalidInput
from sghash.kernels import kernel
from sghash.validation import Ids, Vectors, check_count, check_k

#: Recalls that are asked for.
TARGETS = (0.8, 0.9, 0.95, 0.98, 0.99)


class Tuned(NamedTuple):
    """One way to search: what was asked, what it found, and how fast."""

    name: str
    options: dict[str, Any]
    recall: float
    queries_per_second: float


def tune(moment: Moment, *, k: int, n_queries: int) -> list[Tuned]:
    """Measure every way to search that a collection has, fastest first."""
    check_k(k)
    check_count(n_queries, name="n_queries")
    state, model = moment.state, moment.holder.model
    if len(state) <= k + 1:
        raise InvalidInput(
            f"{len(state)} rows are too few to measure {k} neighbours with: add more, or give a "
            "smaller k"
        )
    kernel("simd")  # few searches would do without it, and not be what is asked about
    ids, queries = sample_queries(moment, n_queries)
    truth = others(true_neighbors(moment, queries, k + 1), ids)
    found = []
    for name, options in _ways(moment, model):
        recall, rate = _measured(moment, ids, queries, truth, k, options)
        found.append(Tuned(name, options, recall, rate))
    return sorted(found, key=lambda way: -way.queries_per_second)


def _ways(moment: Moment, model: Any) -> list[tuple[str, dict[str, Any]]]:
    kept = moment.state.manifest.keep_vectors is not None
    ways: list[tuple[str, dict[str, Any]]] = [("codes", {"rerank": "none"})]
    if model.capabilities.tables:
        ways.append(("decoder", {"rerank": "decoder", "shortlist": "all"}))
    if kept:
        ways.append(("kept vectors", {"rerank": "vectors"}))
    if kept or model.capabilities.tables:
        ways += [(f"target_recall={target:g}", {"target_recall": target}) for target in TARGETS]
    return ways


def sample_queries(moment: Moment, n_queries: int) -> tuple[Ids, Vectors]:
    """Ids and vectors of some living rows, spread over all segments."""
    rng, ids, vectors = np.random.default_rng(0), [], []
    views, n = moment.state.views, len(moment.state)
    for rows, alive in views:
        living = np.arange(len(rows)) if alive is None else np.flatnonzero(alive)
        share = min(len(living), -(-n_queries * len(living) // n))
        chosen = np.sort(rng.choice(living, share, replace=False))
        ids.append(rows.ids_at(chosen))
        vectors.append(vectors_at(rows, chosen, moment.holder.model))
    return np.concatenate(ids), np.concatenate(vectors)


def true_neighbors(moment: Moment, queries: Vectors, k: int) -> Ids:
    """The nearest rows of each query: by kept vectors, or by the decoder."""
    from sghash.neighbors import Neighbors, merge_neighbors

    if moment.state.manifest.keep_vectors is None:
        rerank = "decoder" if moment.holder.model.capabilities.tables else "none"
        shortlist = "all" if rerank == "decoder" else None
        found = answers.neighbors_of(
            moment, queries, k, rerank=rerank, shortlist=shortlist, where=None, threads=1
        )
        return found.ids
    from sghash.kernels.vectors.stored import kept_distances

    metric, parts = moment.state.manifest.metric, []
    for rows, alive in moment.state.views:
        assert rows.vectors is not None
        dead = np.empty(0, np.int64) if alive is None else np.flatnonzero(~alive)
        near = nearest_kept(rows.vectors, dead, queries, min(k, len(rows) - len(dead)), metric)
        apart = kept_distances(rows.vectors, near, queries, metric)
        parts.append(Neighbors(apart, rows.ids_at(near)))
    return merge_neighbors(parts, k).ids


def others(found: Ids, own: Ids) -> Ids:
    """Each answer without the row that asked, or without its last row."""
    return without_own(found, found, own)[1]


def _measured(
    moment: Moment, ids: Ids, queries: Vectors, truth: NDArray[np.int64], k: int, options: Any
) -> tuple[float, float]:
    rerank = None if "target_recall" in options else "none"
    given = {"rerank": rerank, "shortlist": None, "where": None, "threads": 1} | options
    answers.neighbors_of(moment, queries[:1], k + 1, **given)
    found = np.empty((len(queries), k + 1), dtype=np.int64)
    started = time.perf_counter()
    for place in range(len(queries)):
        found[place] = answers.neighbors_of(moment, queries[place : place + 1], k + 1, **given).ids[
            0
        ]
    spent = time.perf_counter() - started
    hits = (others(found, ids)[:, :, None] == truth[:, None, :]).any(axis=1)
    return float(hits.mean()), len(queries) / max(spent, 1e-9)
