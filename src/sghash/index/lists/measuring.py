"""What a search over lists finds and costs: a curve of many settings, and one query explained."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.index.lists.asking import Asked, asked_of, planned
from sghash.index.lists.curve import Curve, Point, settings_for
from sghash.index.lists.explanation import STAGES, Explanation
from sghash.index.lists.probing import answer
from sghash.kernels.partitions import search as kernel

if TYPE_CHECKING:
    from sghash.index.lists.partitioned import PartitionedIndex

#: Where that is reached, no more lists are tried.
ALL_FOUND = 0.9995
# All settings are tried on so many queries, where there are at least twice as many; those that no
# other equals, but for so much recall, at so small a share of the cost, are tried on all of them.
_FEW, _EQUAL, _CHEAPER = 64, 0.002, 0.8
# Nobody asks for less than that, where more can be had.
_LEAST = 0.5
# More lists are tried as long as the best of them finds so much more.
_GAIN = 5e-4


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
    settings = settings_for(held.partitions.n_lists, k, held.n)
    _tried(asked, settings[0], truth, mask)
    if asked.n_queries >= 2 * _FEW:
        chosen = np.linspace(0, asked.n_queries - 1, _FEW).astype(np.int64)
        some = asked.part(chosen)
        points = _screened(some, settings, truth[chosen], mask, ends_early=True)
        best = max(point.recall for point in points)
        worth = [point for point in points if point.recall >= min(_LEAST, best)]
        settings = [point[:3] for point in worth if not _beaten(point, worth)]
    return Curve(_screened(asked, settings, truth, mask), k)


def _screened(
    asked: Asked,
    settings: list[tuple[int, float, int]],
    truth: NDArray[Any],
    mask: Any,
    *,
    ends_early: bool = False,
) -> list[Point]:
    """Settings from few lists and rows to many; `ends_early` where more lists find no more."""
    points: list[Point] = []
    enough: tuple[int, float] | None = None
    before = 0.0
    for setting in settings:
        if points and points[-1].probes < setting[0]:
            best = max(point.recall for point in points)
            if best >= ALL_FOUND or (ends_early and 0 < best < before + _GAIN):
                break  # more lists can only cost more
            before = best
        if enough == setting[:2]:
            continue  # longer shortlists of the same lists found nothing more
        point = _tried(asked, setting, truth, mask)
        if points and points[-1][:2] == setting[:2] and point.recall <= points[-1].recall + 1e-4:
            enough = setting[:2]
        points.append(point)
    return points


def _tried(asked: Asked, setting: tuple[int, float, int], truth: NDArray[Any], mask: Any) -> Point:
    """What one setting finds, and what it costs."""
    plan = asked.plan(truth.shape[1], *_staged(setting, asked.last != asked.scan))
    started = time.process_time()
    found = answer(asked, plan, mask, 1)[0].ids
    cost = (time.process_time() - started) / asked.n_queries * 1e6
    hits = (found[:, :, None] == truth[:, None, :]).any(axis=1).mean(axis=1)
    error = float(hits.std() / np.sqrt(len(hits)))
    return Point(*setting, float(hits.mean()), error, cost)


def _beaten(point: Point, points: list[Point]) -> bool:
    """Whether some other setting finds about as much or more, and clearly costs less."""
    # What is left of the truth counts: near a recall of one, a little more is much.
    equal = min(_EQUAL, (1 - point.recall) / 4)
    return any(
        other.recall >= point.recall - equal and other.cost < _CHEAPER * point.cost
        for other in points
    )


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
