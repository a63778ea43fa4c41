"""Searches for a recall: of lists by the curve measured with them, of other rows by stages.

What decides is the kept vector, or where none is kept the decoder; recall is the share of the rows
that would be found if it decided on all of them. Few rows are all decided on. Of many rows without
lists, the decoder (or the Hamming distance, where a model has no tables) lets a shortlist through,
as long as some rows taken for queries needed it; that is found out once for each segment.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.lists.building import (
    MEASURED_K,
    asked_with,
    nearest_kept,
    sample_rows,
    vectors_at,
)
from sghash.collection.lists.stored import Lists
from sghash.collection.moment import Moment, Scoring
from sghash.collection.storage.rows import Measured, Rows
from sghash.collection.storage.segments import View
from sghash.collection.stored_model import encode_queries
from sghash.errors import InvalidInput
from sghash.index import HammingIndex
from sghash.index.lists.curve import SAFETY
from sghash.index.lists.explanation import Explanation
from sghash.index.stages import (
    Part,
    Query,
    hamming_candidates,
    in_blocks,
    table_candidates,
    vector_scores,
)
from sghash.neighbors import Neighbors, empty_neighbors, merge_neighbors
from sghash.validation import Vectors, check_number

#: Of so many rows or fewer, every one is decided on.
FEW_ROWS = 2048
#: Rows of the shortlist per neighbour, and how many of them are tried.
LENGTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
# Pairs of a query and a row that are compared at a time.
_PAIRS = 1 << 21
# Distances of one query up to which all are sorted.
_SORTED_WHOLE = 256
_Mask = NDArray[np.bool_]


class Visit(NamedTuple):
    """What a search did in one segment; `expected_recall` is None where nothing was left out."""

    way: str
    n_rows: int
    rows_scanned: int
    rows_scored: int
    lists_visited: int
    n_lists: int
    microseconds: float
    expected_recall: float | None
    stages: dict[str, float]


class Found(NamedTuple):
    """The answer of one segment, and what it took where one query was asked."""

    neighbors: Neighbors
    visit: Visit


class Asked(NamedTuple):
    """Checked queries, and all that depends on them and the model alone."""

    vectors: Vectors
    k: int
    target: float
    metric: str
    model: Any
    scoring: Scoring | None
    threads: int

    def of_lists(self, rows: Rows) -> Any:
        """As the lists of these rows want it."""
        assert rows.lists is not None
        scorer = None if self.scoring is None else self.scoring.scorer
        return asked_with(rows.lists.index, rows, self.vectors, self.model, scorer)

    def check_lists(self, lists: Lists) -> None:
        """Refuse lists that were made for other searches than these."""
        layout = None if self.scoring is None else self.scoring.scorer.layout
        lists.check_fit(self.metric, self.vectors.shape[1], layout)

    def query(self) -> Query:
        """As the stages of a search without lists want it."""
        if self.scoring is not None:
            tables = self.scoring.scorer.query_tables(self.vectors)
            return Query(self.vectors, self.metric, tables=tables)
        return Query(self.vectors, self.metric, codes=encode_queries(self.model, self.vectors))


def check_target(target: Any) -> float:
    """A recall above 0 and at most 1."""
    check_number(target, name="target_recall", above=0.0)
    if target > 1:
        raise InvalidInput(f"target_recall must be at most 1, got {target}")
    return float(target)


def ask(moment: Moment, queries: Vectors, k: int, target: float, threads: int) -> Asked:
    """Get ready to search for a recall; refuse where nothing can say what it is."""
    manifest, model = moment.state.manifest, moment.holder.model
    tables = model.capabilities.tables
    if manifest.keep_vectors is None and not tables:
        raise InvalidInput(
            f"target_recall cannot be reached here: no vectors are kept, and "
            f"{type(model).__name__} has no decoder that could decide; create the collection with "
            'keep_vectors="float16"'
        )
    scoring = moment.holder.scoring if tables else None
    return Asked(queries, k, target, manifest.metric, model, scoring, threads)


def search_for_recall(
    views: Sequence[View], masks: Sequence[_Mask | None], asked: Asked
) -> tuple[Neighbors, list[Visit]]:
    """The k nearest rows of all segments by (distance, id), and what was done in each."""
    found = [_found(view.rows, mask, asked) for view, mask in zip(views, masks, strict=True)]
    if not found:
        return empty_neighbors(len(asked.vectors), asked.k, np.float32), []
    if len(found) == 1:
        return found[0].neighbors, [found[0].visit]
    merged = merge_neighbors([part.neighbors for part in found], asked.k)
    return merged, [part.visit for part in found]


def _found(rows: Rows, mask: _Mask | None, asked: Asked) -> Found:
    started = time.perf_counter()
    n_allowed = len(rows) if mask is None else int(np.count_nonzero(mask))
    if n_allowed > FEW_ROWS and rows.lists is not None:
        asked.check_lists(rows.lists)
        curve = rows.lists.index.curve
        point = None if curve is None else curve.cheapest(asked.target)
        if point is not None:
            return _in_lists(rows, mask, asked, point.recall, started)
    expected, n_scored = None, n_allowed
    if rows.vectors is None:
        neighbors, way = _by_decoder(rows, mask, asked), "all codes by the decoder"
    elif n_allowed <= max(FEW_ROWS, asked.k):
        chosen = np.arange(len(rows)) if mask is None else np.flatnonzero(mask)
        neighbors, way = _all_kept(rows, chosen, asked), "all kept vectors"
    else:
        length, expected = _length(rows, asked)
        n_scored = min(length, n_allowed)
        if n_scored == n_allowed:
            chosen = np.arange(len(rows)) if mask is None else np.flatnonzero(mask)
            neighbors, way = _all_kept(rows, chosen, asked), "all kept vectors"
        else:
            neighbors = _by_shortlist(rows, mask, asked, n_scored)
            way = "all codes, then kept vectors"
    spent = (time.perf_counter() - started) * 1e6
    return Found(neighbors, Visit(way, len(rows), n_allowed, n_scored, 0, 0, spent, expected, {}))


def _in_lists(
    rows: Rows, mask: _Mask | None, asked: Asked, expected: float, started: float
) -> Found:
    """The answer of the lists of a segment, whose ids are rows."""
    assert rows.lists is not None
    index = rows.lists.index
    queries = asked.of_lists(rows)
    own = None if queries is asked.vectors else asked.vectors
    near = index.search(
        queries, asked.k, vectors=own, kept=rows.vectors, target_recall=asked.target, mask=mask,
        threads=asked.threads,
    )  # fmt: skip
    spent = (time.perf_counter() - started) * 1e6
    neighbors = Neighbors(near.distances, rows.ids_at(near.ids))
    visit = Visit("lists", len(rows), 0, 0, 0, rows.lists.n_lists, spent, expected, {})
    return Found(neighbors, visit)


def explain_lists(rows: Rows, mask: _Mask | None, asked: Asked, visit: Visit) -> Visit:
    """The same visit with what the index itself says of one query."""
    assert rows.lists is not None
    index = rows.lists.index
    queries = asked.of_lists(rows)
    own = None if queries is asked.vectors else asked.vectors
    told: Explanation = index.explain(
        queries, asked.k, vectors=own, kept=rows.vectors, target_recall=asked.target, mask=mask
    )
    return visit._replace(
        rows_scanned=told.rows_scanned, rows_scored=told.rows_scored,
        lists_visited=told.lists_visited, stages=told.microseconds,
    )  # fmt: skip


def _part(rows: Rows, mask: _Mask | None, asked: Asked) -> Part:
    hamming = rows.index if isinstance(rows.index, HammingIndex) else None
    tables = None if asked.scoring is None else rows.scored_by(asked.scoring.like)
    return Part(hamming, tables, rows.vectors, mask)


def _by_decoder(rows: Rows, mask: _Mask | None, asked: Asked) -> Neighbors:
    """Every code scored: what decides is then asked of all rows."""
    assert asked.scoring is not None  # `ask` has made sure
    tables = asked.scoring.scorer.query_tables(asked.vectors)
    index = rows.scored_by(asked.scoring.like)
    return index.search(tables, asked.k, mask=mask, threads=asked.threads)


def _all_kept(rows: Rows, chosen: NDArray[np.int64], asked: Asked) -> Neighbors:
    """The nearest of these rows, each compared by its kept vector."""
    from sghash.kernels.vectors.stored import kept_distances

    assert rows.vectors is not None
    parts = [empty_neighbors(0, asked.k, np.float32)]
    step = max(1, _PAIRS // max(1, len(chosen)))
    for start in range(0, len(asked.vectors), step):
        some = asked.vectors[start : start + step]
        every = np.ascontiguousarray(np.broadcast_to(chosen, (len(some), len(chosen))))
        apart = kept_distances(rows.vectors, every, some, asked.metric, threads=asked.threads)
        parts.append(_best(rows, apart, every, asked.k))
    return Neighbors(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


def _by_shortlist(rows: Rows, mask: _Mask | None, asked: Asked, length: int) -> Neighbors:
    """The nearest of those that a scan of all codes lets through."""
    part, most = _part(rows, mask, asked), min(length, len(rows))
    find = hamming_candidates if asked.scoring is None else table_candidates

    def answered(query: Query) -> Neighbors:
        found = find([part], query, most, threads=asked.threads)
        distances = vector_scores([part], found, query, threads=asked.threads)
        return _best(rows, distances, found.rows, asked.k)

    return in_blocks(asked.query(), most, answered)


def _best(rows: Rows, distances: Vectors, places: NDArray[np.int64], k: int) -> Neighbors:
    """The first k by (distance, row), padded."""
    result = empty_neighbors(len(distances), k, np.float32)
    if distances.shape[1] > max(_SORTED_WHOLE, 2 * k):
        order = np.stack(
            [_first(far, where, k) for far, where in zip(distances, places, strict=True)]
        )
    else:
        last = np.where(places < 0, np.iinfo(np.int64).max, places)
        order = np.lexsort((last, distances), axis=1)[:, :k]
    width = order.shape[1]
    chosen = np.take_along_axis(distances, order, axis=1)
    here = np.take_along_axis(places, order, axis=1)
    ids, missing = rows.ids_at(here), here < 0
    result.distances[:, :width] = np.where(missing, result.distances[:, :width], chosen)
    result.ids[:, :width] = np.where(missing, -1, ids)
    return result


def _first(distances: Vectors, places: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Where the first k by (distance, row) of many stand: only those near the k-th are sorted."""
    limit = np.partition(distances, k - 1)[k - 1]
    near = np.flatnonzero(distances <= limit)
    last = np.where(places[near] < 0, np.iinfo(np.int64).max, places[near])
    return near[np.lexsort((last, distances[near]))[:k]]


def _length(rows: Rows, asked: Asked) -> tuple[int, float]:
    """How long a shortlist must be for the target, and the recall that it then has."""
    measured = rows.measured
    if measured is None:
        measured = _measured(rows, asked)
        rows.remember(measured)
    for length, recall, error in measured:
        if recall - SAFETY * error >= asked.target:
            # Of fewer neighbours than were measured no fewer rows: the first may come late.
            return max(asked.k, length, -(-length * asked.k // MEASURED_K)), recall
    return len(rows), 1.0


def _measured(rows: Rows, asked: Asked) -> Measured:
    """Length of the shortlist, recall and its standard error, of rows that are hidden meanwhile."""
    assert rows.vectors is not None
    chosen = sample_rows(len(rows))
    allowed = np.ones(len(rows), dtype=np.bool_)
    allowed[chosen] = False
    own = asked._replace(vectors=vectors_at(rows, chosen, asked.model), k=MEASURED_K)
    truth = nearest_kept(rows.vectors, chosen, own.vectors, MEASURED_K, asked.metric)
    find = hamming_candidates if asked.scoring is None else table_candidates
    lengths = [length * MEASURED_K for length in LENGTHS if length * MEASURED_K < len(rows)]
    if not len(chosen) or not lengths:
        return ()
    found = find([_part(rows, allowed, own)], own.query(), max(lengths), threads=asked.threads)
    results = []
    # Where in the shortlist each true neighbour stands, if it does.
    for length in lengths:
        hits = np.asarray([
            np.isin(true, near).mean()
            for true, near in zip(truth, found.rows[:, :length], strict=True)
        ])  # fmt: skip
        error = float(hits.std() / np.sqrt(len(hits)))
        results.append((length, float(hits.mean()), error))
    return tuple(results)
