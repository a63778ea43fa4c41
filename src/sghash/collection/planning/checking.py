"""`Collection.check`: does the plan still hold, for the rows and queries of today?

Rows of the collection, and the queries that were asked lately, are searched as the plan says and
compared with what the kept vectors find among all rows; where none are kept, with what the decoder
finds. What is kept loses something itself: the best recall that was measured when the collection
was built stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sghash.collection import answers
from sghash.collection.lists.tuning import others, sample_queries, true_neighbors
from sghash.collection.moment import Moment
from sghash.collection.planning.plan import SAFETY, Plan
from sghash.errors import InvalidInput
from sghash.validation import Ids, Vectors

#: Rows that are searched for.
N_ROWS = 200
#: How far below what was promised a measurement may be before it says so.
SLACK = 0.01


@dataclass(frozen=True)
class Checkup:
    """What was measured now, what the plan promised, and what to do."""

    recall_of_rows: float
    recall_of_queries: float | None
    n_queries: int
    expected: float | None
    rows_then: int | None
    rows_now: int
    holds: bool
    advice: str

    def __str__(self) -> str:
        lines = [f"recall of {N_ROWS} rows as queries: {self.recall_of_rows:.3f}"]
        if self.recall_of_queries is not None:
            lines.append(f"recall of {self.n_queries} recent queries: {self.recall_of_queries:.3f}")
        if self.expected is not None:
            lines.append(f"expected: {self.expected:.3f}, measured with {self.rows_then:,} rows")
        lines.append(f"rows now: {self.rows_now:,}")
        return "\n".join([*lines, self.advice])


def check(moment: Moment, recent: Vectors) -> Checkup:
    """Measure again, and say whether the plan holds."""
    plan = moment.state.manifest.parsed_plan
    if plan is None:
        raise InvalidInput(
            "this collection has no plan to check: make one with Collection.build, or measure "
            "searches with tune()"
        )
    n, k = len(moment.state), plan.k
    if n <= k + 1:
        raise InvalidInput(f"{n} rows are too few to measure {k} neighbours with: add more")
    kept = 1.0 if plan.best is None else plan.best
    ids, rows = sample_queries(moment, N_ROWS)
    truth = others(true_neighbors(moment, rows, k + 1), ids)
    of_rows, error = _recall(others(_found(moment, rows, k + 1), ids), truth)
    of_queries = None
    worst = (of_rows, error)
    if len(recent):
        of_queries, error = _recall(_found(moment, recent, k), true_neighbors(moment, recent, k))
        worst = min(worst, (of_queries, error))
        of_queries *= kept
    found = worst[0] * kept
    holds = found + SAFETY * worst[1] >= _promised(plan) - SLACK
    return Checkup(
        of_rows * kept, of_queries, len(recent), plan.expected, plan.n_rows, n, holds,
        _advice(plan, n, holds, of_queries),
    )  # fmt: skip


def _promised(plan: Plan) -> float:
    expected = plan.expected
    return plan.target_recall if expected is None else min(plan.target_recall, expected)


def _advice(plan: Plan, n: int, holds: bool, of_queries: float | None) -> str:
    if holds and not plan.is_old(n):
        return "the plan holds"
    if holds:
        return "the plan holds, though it is old: call compact() to measure searches again"
    if of_queries is not None and of_queries < plan.target_recall - SLACK:
        return (
            "recent queries find less than was promised: build the collection again with "
            "queries= a sample of them"
        )
    return "the plan does not hold any more: call compact(), or build the collection again"


def _found(moment: Moment, queries: Vectors, k: int) -> Ids:
    return answers.neighbors_of(
        moment, queries, k, rerank=None, shortlist=None, where=None, threads=1
    ).ids


def _recall(found: Ids, truth: Any) -> tuple[float, float]:
    hits = (found[:, :, None] == truth[:, None, :]).any(axis=1).mean(axis=1)
    return float(hits.mean()), float(hits.std() / np.sqrt(max(1, len(hits))))
