"""What searches of a finished collection find, judged by the vectors that it was built of."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from sghash.blocks import VectorSource
from sghash.collection.answers import search_inside
from sghash.collection.moment import Moment
from sghash.collection.planning.looking import Look, nearest_of, recalls, without_own
from sghash.collection.planning.plan import PlanPoint
from sghash.validation import Ids, Vectors

#: Targets inside that are measured.
INSIDE = (0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998)
# Products of two numbers that finding the true neighbours among all rows may take.
_MAX_PRODUCTS, _LEAST_QUERIES = 10**12, 50


def with_whole_truth(look: Look, vectors: Vectors | VectorSource, k: int) -> Look:
    """The same look with the true neighbours among all rows, of as many queries as that allows."""
    if look.is_whole or not len(look.queries):
        return look
    n_queries = max(_LEAST_QUERIES, int(_MAX_PRODUCTS // (look.n * look.width)))
    some = slice(0, min(n_queries, len(look.queries)))
    queries, rows = look.queries[some], look.rows[some]
    distances, near = nearest_of(vectors, queries, rows, look.metric, k)
    return look._replace(queries=queries, rows=rows, near=near, distances=distances)


def measured_points(
    moment: Moment, look: Look, ids: Ids, k: int, wanted: float
) -> tuple[PlanPoint, ...]:
    """Recall and time of searches for rising targets; `ids` are those of the rows, in order.

    Where lists do not reach what is `wanted`, the last point visits every row.
    """
    if not look.near.size:
        return ()
    order = np.argsort(ids, kind="stable")
    own = ids[look.rows] if len(look.rows) else look.rows
    points: list[PlanPoint] = []

    def measure(inside: float) -> None:
        found, spent = _searched(moment, look, k + bool(len(own)), inside)
        if len(own):
            found = without_own(found.astype(np.float32), found, own)[1]
        hits = recalls(look, _rows_of(found, ids, order), k)
        error = float(hits.std() / np.sqrt(len(hits)))
        points.append(PlanPoint(inside, float(hits.mean()), error, spent))

    for inside in INSIDE:
        if points and not _lists_reach(moment, inside):
            break
        measure(inside)
    # Not by the safe side of its error: to be sure of the last thousandth costs a hundred times.
    if max(point.recall for point in points) < wanted:
        measure(1.0)
    return tuple(points)


def _lists_reach(moment: Moment, inside: float) -> bool:
    """Whether no segment with lists would have to leave them for this target."""
    lists = [view.rows.lists for view in moment.state.views if view.rows.lists is not None]
    curves = [some.curve for some in lists]
    return all(curve is not None and curve.cheapest(inside) is not None for curve in curves)


def _searched(moment: Moment, look: Look, k: int, inside: float) -> tuple[Ids, float]:
    """Ids that were found, and microseconds a query on one thread."""
    search_inside(moment, look.queries[:1], k, inside)
    started = time.perf_counter()
    found: Any = search_inside(moment, look.queries, k, inside)
    spent = (time.perf_counter() - started) * 1e6 / len(look.queries)
    return found.ids, spent


def _rows_of(found: Ids, ids: Ids, order: Ids) -> Ids:
    """Rows of the whole for ids of the collection; -3 for none."""
    at = np.minimum(np.searchsorted(ids, found, sorter=order), len(ids) - 1)
    rows = order[at]
    return np.where(ids[rows] == found, rows, -3)
