"""What a search over lists finds and costs: a curve of many settings, and one query explained."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from sghash.errors import InvalidInput
from sghash.index.lists.asking import asked_of, planned
from sghash.index.lists.curve import Curve, Point, settings_for
from sghash.index.lists.explanation import STAGES, Explanation
from sghash.index.lists.probing import answer
from sghash.kernels.partitions import search as kernel

if TYPE_CHECKING:
    from sghash.index.lists.partitioned import PartitionedIndex

#: Where that is reached, no more lists are tried.
ALL_FOUND = 0.9995


def measured(
    index: PartitionedIndex,
    queries: Any,
    ground_truth: Any,
    vectors: Any,
    kept: Any,
    mask: Any = None,
) -> Curve:
    """Recall and cost of all settings worth trying, on these queries."""
    held = index.held
    asked = asked_of(index, held, queries, vectors, kept)
    truth = np.asarray(ground_truth)
    if truth.ndim != 2 or len(truth) != asked.n_queries or not truth.size:
        raise InvalidInput(
            f"ground_truth must have a row of ids for each of {asked.n_queries} queries, got "
            f"{truth.shape}"
        )
    if held.partitions is None:
        raise InvalidInput("the index is empty: add rows before measuring")
    k = truth.shape[1]
    staged = asked.last != asked.scan
    points: list[Point] = []
    settings = settings_for(held.partitions.n_lists, k, held.n)
    answer(asked, asked.plan(k, *_staged(settings[0], staged)), mask, 1)
    enough: tuple[int, float] | None = None
    for setting in settings:
        if points and points[-1].probes < setting[0] and max(p.recall for p in points) >= ALL_FOUND:
            break  # more lists can only cost more
        if enough == setting[:2]:
            continue  # longer shortlists of the same lists found nothing more
        plan = asked.plan(k, *_staged(setting, staged))
        started = time.process_time()
        found = answer(asked, plan, mask, 1)[0].ids
        cost = (time.process_time() - started) / asked.n_queries * 1e6
        hits = (found[:, :, None] == truth[:, None, :]).any(axis=1).mean(axis=1)
        error = float(hits.std() / np.sqrt(len(hits)))
        point = Point(*setting, float(hits.mean()), error, cost)
        if points and points[-1][:2] == setting[:2] and point.recall <= points[-1].recall + 1e-4:
            enough = setting[:2]
        points.append(point)
    return Curve(points, k)


def _staged(setting: tuple[int, float, int], staged: bool) -> tuple[int, int | None, float]:
    probes, margin, shortlist = setting
    return probes, shortlist if staged else None, margin


def explained(
    index: PartitionedIndex,
    query: Any,
    k: int,
    *,
    vectors: Any = None,
    kept: Any = None,
    mask: Any = None,
    probes: Any = None,
    shortlist: Any = None,
    margin: Any = None,
    target_recall: float | None = None,
) -> Explanation:
    """Answer one query, and say what it took."""
    asked = asked_of(index, index.held, query, vectors, kept)
    if asked.n_queries != 1:
        raise InvalidInput(f"explain takes one query, got {asked.n_queries}")
    plan = planned(asked, k, probes, shortlist, margin, target_recall)
    answer(asked, plan, mask, 1)
    started = time.perf_counter()
    neighbors, stats = answer(asked, plan, mask, 1)
    spent = (time.perf_counter() - started) * 1e6
    lists, scanned, shortlisted, scored = (int(n) for n in stats[0, : kernel.CLOCK])
    steps = stats[0, kernel.CLOCK :].astype(np.float64)
    shares = steps / max(steps.sum(), 1.0) * spent
    expected = None
    if target_recall is not None and index.curve is not None:
        expected = index.curve.reaching(float(target_recall)).recall
    n_lists = 0 if asked.held.partitions is None else asked.held.partitions.n_lists
    return Explanation(
        neighbors, lists, n_lists, scanned, asked.held.n, shortlisted, scored,
        dict(zip(STAGES, (float(share) for share in shares), strict=True)), expected,
    )  # fmt: skip
