"""The plan of a collection: what was chosen and why, and the recall that was measured with it.

It stands in the manifest. A search without options follows it; a search for another recall moves
along its `points`: what a target must be, inside, so that the true recall is what was asked for.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

#: Standard errors that are put on top of a target: what some queries found must hold for others.
SAFETY = 1.0
#: The plan is old when the rows have grown by this factor since it was measured.
OLD_GROWTH = 3.0
# What the last bit of recall is not worth: every row may have to be visited for it.
_AS_GOOD = 0.003


class PlanPoint(NamedTuple):
    """A target inside the collection, the true recall it gave, its error, microseconds a query."""

    inside: float
    recall: float
    error: float
    microseconds: float


@dataclass(frozen=True)
class Tried:
    """One line of the table: what was tried, what it gave, and why it was left or taken."""

    name: str
    code_bytes: int
    kept_bytes: int
    recall: float
    microseconds: float | None
    verdict: str

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)

    def check(self) -> None:
        """Raise a ValueError unless every field is of its kind."""
        numbers = [self.code_bytes, self.kept_bytes, self.recall, self.microseconds or 0]
        right = all(isinstance(n, (int, float)) and math.isfinite(n) for n in numbers)
        if not right or not isinstance(self.name, str) or not isinstance(self.verdict, str):
            raise ValueError("a line of the plan is not valid")


@dataclass(frozen=True)
class Plan:
    """What a collection was built for, of what, and what it then reached."""

    target_recall: float
    k: int
    metric: str
    why_metric: str
    pipeline: str
    reached: bool
    n_rows: int
    n_queries: int
    asked_by: str
    random_state: int
    tried: tuple[dict[str, Any], ...] = ()
    points: tuple[PlanPoint, ...] = ()
    measured: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def point_for(self, target: float) -> PlanPoint | None:
        """The cheapest point that reaches a target; where none does, one about as good as any."""
        for point in self.points:
            if point.recall - SAFETY * point.error >= target:
                return point
        good = [point for point in self.points if point.recall >= (self.best or 0) - _AS_GOOD]
        return min(good, key=lambda point: point.inside, default=None)

    @property
    def expected(self) -> float | None:
        """The recall that a search without options was measured to have."""
        point = self.point_for(self.target_recall)
        return None if point is None else point.recall

    @property
    def best(self) -> float | None:
        """The highest recall that was measured."""
        return max((point.recall for point in self.points), default=None)

    def is_old(self, n_rows: int) -> bool:
        """Whether so many rows came or went since that it may not hold any more."""
        return n_rows > OLD_GROWTH * max(1, self.n_rows) or OLD_GROWTH * n_rows < self.n_rows

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        points = [list(point) for point in self.points]
        return {**asdict(self), "tried": list(self.tried), "points": points}

    def __str__(self) -> str:
        lines = [f"metric {self.metric}: {self.why_metric}", table_of(self.tried), ""]
        lines.append(f"chosen: {self.pipeline}")
        if self.expected is not None:
            lines.append(
                f"measured: recall {self.expected:.3f} of {self.k} neighbours "
                f"({self.n_queries} queries: {self.asked_by})"
            )
        if not self.reached:
            best = "" if self.best is None else f": the best that was measured is {self.best:.3f}"
            lines.append(f"a recall of {self.target_recall:g} is not reached{best}")
        return "\n".join(lines)


def table_of(tried: tuple[dict[str, Any], ...]) -> str:
    """What was tried, a line each."""
    heads = "tried", "bytes", "recall", "microseconds", "verdict"
    rows = [
        (
            line["name"],
            str(line["code_bytes"] + line["kept_bytes"]),
            f"{line['recall']:.3f}",
            "" if line["microseconds"] is None else f"{line['microseconds']:.0f}",
            line["verdict"],
        )
        for line in tried
    ]
    widths = [max(len(row[place]) for row in [heads, *rows]) for place in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place in (0, 4) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [heads, *rows]
    )


def plan_of(body: dict[str, Any] | None) -> Plan | None:
    """The plan that a manifest holds; None where it has none, or one of another kind."""
    if body is None:
        return None
    try:
        points = tuple(PlanPoint(*map(float, point)) for point in body["points"])
        plan = Plan(**{**body, "tried": tuple(body["tried"]), "points": points})
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return plan if _is_sound(plan) else None


def _is_sound(plan: Plan) -> bool:
    """Whether searches can follow it: what a file says may be anything."""
    counts = plan.k, plan.n_rows, plan.n_queries, plan.random_state
    texts = plan.metric, plan.why_metric, plan.pipeline, plan.asked_by, plan.measured
    return (
        all(type(count) is int and 0 <= count < 1 << 63 for count in counts)
        and plan.k >= 1
        and all(isinstance(text, str) for text in texts)
        and type(plan.reached) is bool
        and _is_share(plan.target_recall)
        and all(_is_share(point.inside) for point in plan.points)
        and all(math.isfinite(number) and number >= 0 for p in plan.points for number in p)
        and all(_is_line(line) for line in plan.tried)
    )


def _is_share(number: Any) -> bool:
    return isinstance(number, (int, float)) and 0 < number <= 1


def _is_line(line: Any) -> bool:
    try:
        Tried(**line).check()
    except (TypeError, ValueError):
        return False
    return True
