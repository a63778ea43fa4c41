"""Recall instead of knobs: a curve measured on held-out queries, and the choice of a point on it.

A point is what a search is told (lists to visit, margin, rows of the shortlist), the share of the
true neighbours it then found, and what it cost. A search with a `target_recall` takes the cheapest
point that reaches it with a margin for the size of the sample: what was measured on some queries
must hold for others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput

#: Share of lists to be tried, and rows of the shortlist per neighbour.
SHARES = (0.004, 0.008, 0.012, 0.016, 0.024, 0.032, 0.048, 0.064, 0.096, 0.128, 0.192, 0.256, 0.384,
          0.5, 1)  # fmt: skip
LENGTHS = (2, 4, 7, 10, 15, 25, 40, 60, 80, 120, 160, 320, 640, 1280)
#: Lists further than that share of the way from the nearest to the average are not visited.
MARGINS = (0.5, 0.6, 0.7, 0.8, 1e30)
#: Standard errors of the sample's mean that are put on top of a target: of a hundred samples, about
#: five promise more than there is.
SAFETY = 1.64
FIELDS = ("probes", "margin", "shortlist", "recall", "error", "cost")


class Point(NamedTuple):
    """One setting of a search: what it found on the sample, and microseconds per query."""

    probes: int
    margin: float
    shortlist: int
    recall: float
    error: float
    cost: float


class Curve:
    """Points that no other beats in both recall and cost, by rising recall; k neighbours each."""

    def __init__(self, points: list[Point], k: int) -> None:
        best: list[Point] = []
        for point in sorted(points, key=lambda point: (-point.recall, point.cost)):
            if not best or point.cost < best[-1].cost:
                best.append(point)
        self.points, self.k = best[::-1], k

    @property
    def ceiling(self) -> Point:
        """The point of the highest recall."""
        return self.points[-1]

    def cheapest(self, target: float) -> Point | None:
        """The cheapest point that reaches a target, with a margin for what was not measured."""
        for point in self.points:
            if point.recall - SAFETY * point.error >= target:
                return point
        top = self.ceiling
        return top if top.recall >= target else None

    def reaching(self, target: float) -> Point:
        """The same, or a sentence that says what can be reached."""
        point, top = self.cheapest(target), self.ceiling
        if point is not None:
            return point
        raise InvalidInput(
            f"a recall of {target:g} cannot be reached here: the best measured is "
            f"{top.recall:.3f}, with {top.probes} lists and {top.shortlist} rows each; "
            "its shortlists miss the rest: use longer codes, or keep vectors of higher precision"
        )

    def as_array(self) -> NDArray[np.float64]:
        """For the file: a row of k, then the points."""
        rows = [[float(self.k), *[0.0] * (len(FIELDS) - 1)], *([*p] for p in self.points)]
        return np.asarray(rows, dtype=np.float64)


def curve_of(array: NDArray[np.float64]) -> Curve:
    """Read what `as_array` wrote, or raise a ValueError."""
    if array.dtype != np.float64 or array.ndim != 2 or array.shape[1] != len(FIELDS):
        raise ValueError("its curve is not valid")
    if len(array) < 2 or not np.isfinite(array).all() or np.any(array < 0):
        raise ValueError("its curve is not valid")
    k = int(array[0, 0])
    points = [
        Point(int(p), m, int(s), min(r, 1.0), e, c) for p, m, s, r, e, c in array[1:].tolist()
    ]
    if k < 1 or any(point.probes < 1 or point.shortlist < k for point in points):
        raise ValueError("its curve is not valid")
    return Curve(points, k)


def settings_for(n_lists: int, k: int, n: int) -> list[tuple[int, float, int]]:
    """Lists, margins and lengths to be measured, from few to many."""
    probes = sorted({max(1, min(n_lists, round(share * n_lists))) for share in SHARES})
    lengths = sorted({max(k, min(n, length * k)) for length in LENGTHS})
    found = []
    for count in probes:
        for margin in MARGINS if 8 <= count < n_lists else MARGINS[-1:]:
            found += [(count, margin, length) for length in lengths]
    return found
