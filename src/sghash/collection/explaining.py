"""What a search of a collection did, in each of its segments, in numbers and in words."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from sghash.collection import answers
from sghash.collection.lists.targets import Visit, ask, check_target, explain_lists
from sghash.collection.looking_up import SCAN, Choice
from sghash.collection.moment import Moment
from sghash.collection.where.choice import allowed_rows
from sghash.errors import InvalidInput
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.validation import Vectors, check_k, check_vectors


@dataclass(frozen=True)
class Explanation:
    """The answer to one query, what was visited in each segment, and microseconds in all."""

    neighbors: Neighbors | RangeNeighbors
    visits: list[Visit]
    microseconds: float

    def __str__(self) -> str:
        lines = []
        for number, visit in enumerate(self.visits, start=1):
            lines.append(f"segment {number} of {visit.n_rows:,} rows: {visit.way}")
            if visit.n_lists:
                lines.append(f"  lists visited: {visit.lists_visited:,} of {visit.n_lists:,}")
            lines.append(f"  codes scanned: {visit.rows_scanned:,}")
            lines.append(f"  rows that decided: {visit.rows_scored:,}")
            for stage, spent in visit.stages.items():
                lines.append(f"  {stage}: {spent:.1f} microseconds")
            if visit.expected_recall is not None:
                lines.append(f"  recall expected: {visit.expected_recall:.3f}")
        lines.append(f"in all: {self.microseconds:.1f} microseconds")
        return "\n".join(lines)


def explained(moment: Moment, query: Any, k: int, **options: Any) -> Explanation:
    """Answer one query, and say what it took; the second call counts, the first may compile."""
    if query is None and options.keys() == {"radius"}:
        return _join(moment, options["radius"])
    array = check_vectors(query, width=moment.state.manifest.width, name="query")
    if len(array) != 1:
        raise InvalidInput(f"explain takes one query, got {len(array)}")
    if "radius" in options:
        return _within(moment, array, **options)
    given = {"rerank": None, "shortlist": None, "where": None, "threads": 1} | options
    plan, asked_for = moment.state.manifest.parsed_plan, given.pop("target_recall", None)
    target = answers.target_of(plan, given["rerank"], given["shortlist"], asked_for)
    if target is None:
        answers.neighbors_of(moment, array, k, **given)
        started = time.perf_counter()
        found = answers.neighbors_of(moment, array, k, **given)
        spent = (time.perf_counter() - started) * 1e6
        return Explanation(found, _scans(moment, k, found, spent, given), spent)
    answers.check_chosen(given["rerank"], given["shortlist"])
    where = given["where"]
    answers.visited(moment, array, k, target, where, 1)
    started = time.perf_counter()
    found, visits = answers.visited(moment, array, k, target, where, 1)
    spent = (time.perf_counter() - started) * 1e6
    inside = answers.inside_of(moment.state, check_target(target))
    asked = ask(moment, array, check_k(k), inside, 1)
    views = moment.state.views
    told = [
        explain_lists(view.rows, mask, asked, visit) if visit.way == "lists" else visit
        for view, mask, visit in zip(
            views, allowed_rows(where, moment.state, views), visits, strict=True
        )
    ]
    return Explanation(answers.keyed(moment.state, found), told, spent)


def _within(moment: Moment, query: Vectors, radius: int, where: Any = None) -> Explanation:
    """The rows within a radius, and the way to them in each segment."""
    options: dict[str, Any] = {"where": where, "threads": 1}
    answers.rows_within(moment, query, radius, **options)
    started = time.perf_counter()
    found = answers.rows_within(moment, query, radius, **options)
    spent = (time.perf_counter() - started) * 1e6
    views = moment.state.views
    visits = [
        _chosen(choice, len(view.rows), len(found.neighbors.ids))
        for view, choice in zip(views, found.choices, strict=True)
    ]
    return Explanation(found.neighbors, visits, spent)


def _join(moment: Moment, radius: int) -> Explanation:
    """How the pairs within a radius would be found in each segment; nothing is looked for."""
    started = time.perf_counter()
    choices = answers.ways_of_join(moment, radius)
    spent = (time.perf_counter() - started) * 1e6
    nothing = RangeNeighbors(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))
    views = moment.state.views
    visits = [
        _chosen(choice, len(view.rows), 0) for view, choice in zip(views, choices, strict=True)
    ]
    return Explanation(nothing, visits, spent)


def _chosen(choice: Choice, n_rows: int, n_found: int) -> Visit:
    """A way that was chosen for what it and the other one were expected to cost."""
    scanned = n_rows if choice.way == SCAN else 0
    expected = {"expected of a scan": choice.scan / 1e3}
    if np.isfinite(choice.tables):
        expected["expected of tables of keys"] = choice.tables / 1e3
    return Visit(choice.way, n_rows, scanned, n_found, 0, 0, 0.0, None, expected)


def _scans(
    moment: Moment, k: int, found: Neighbors, spent: float, options: dict[str, Any]
) -> list[Visit]:
    """Without a target every code is looked at, and the shortlist is that of all segments."""
    views = moment.state.views
    masks = allowed_rows(options["where"], moment.state, views)
    way = {"none": "all codes", "decoder": "all codes, then the decoder"}.get(
        options["rerank"] or answers.usual_rerank(moment.state.manifest),
        "all codes, then kept vectors",
    )
    visits = []
    for view, mask in zip(views, masks, strict=True):
        n = len(view.rows) if mask is None else int(np.count_nonzero(mask))
        share = spent * len(view.rows) / max(1, sum(len(other.rows) for other in views))
        visits.append(Visit(way, len(view.rows), n, min(n, k), 0, 0, share, None, {}))
    return visits
