"""Who is ahead: means over seeds, and whether a difference is more than the seeds leave open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from sghash.evaluation.summary import Estimate, estimate
from sghash.experiments.experiment import Row

Cell: TypeAlias = tuple[Any, ...]

#: Differences of recall below this are called level, whatever the seeds say.
LEAST_RECALL = 0.005


class Standing(NamedTuple):
    """Cells in which something is ahead of, level with and behind all it is compared with."""

    ahead: int
    level: int
    behind: int

    def __str__(self) -> str:
        total = self.ahead + self.level + self.behind
        return f"ahead in {self.ahead}, level in {self.level}, behind in {self.behind} of {total}"


def estimates(rows: Iterable[Row], value: str, by: Sequence[str]) -> dict[Cell, Estimate]:
    """Mean of `value` over the rows that agree in the settings `by`, in order of appearance."""
    found: dict[Cell, list[float]] = {}
    for row in rows:
        if value in row["values"]:
            cell = tuple(row["settings"][name] for name in by)
            found.setdefault(cell, []).append(float(row["values"][value]))
    return {cell: estimate(numbers) for cell, numbers in found.items()}


def mean_of(row: Row, names: Sequence[str]) -> float:
    """Mean of several values of a row: those of `names` that it has."""
    numbers = [float(row["values"][name]) for name in names if name in row["values"]]
    return sum(numbers) / len(numbers)


def with_mean(rows: Iterable[Row], names: Sequence[str], new: str) -> list[Row]:
    """Copies of rows with one more value: the mean of several."""
    return [{**row, "values": {**row["values"], new: mean_of(row, names)}} for row in rows]


def lead(one: Estimate, other: Estimate, *, least: float = 0.0) -> int:
    """1 if `one` is clearly larger, -1 if clearly smaller, 0 if the seeds leave it open.

    Clearly: by more than two standard errors of the difference, and by more than `least`.
    """
    difference = one.mean - other.mean
    error = math.hypot(standard_error(one), standard_error(other))
    if abs(difference) <= max(2 * error, least):
        return 0
    return 1 if difference > 0 else -1


def standard_error(value: Estimate) -> float:
    """Standard error of a mean over seeds; 0 for a single seed, which tells nothing of it."""
    if value.half_width is None:
        return 0.0
    from scipy.special import stdtrit

    return value.half_width / float(stdtrit(value.n - 1, 0.975))


def standing(
    found: dict[Cell, Estimate],
    method: str,
    rivals: Sequence[str],
    *,
    least: float = LEAST_RECALL,
    larger_is_better: bool = True,
) -> Standing:
    """How `method` stands to the best of `rivals`; a cell is (..., method) of `estimates`."""
    counts = {1: 0, 0: 0, -1: 0}
    for place in dict.fromkeys(cell[:-1] for cell in found):
        others = [found[(*place, rival)] for rival in rivals if (*place, rival) in found]
        if (*place, method) not in found or not others:
            continue
        sign = 1 if larger_is_better else -1
        leads = [sign * lead(found[(*place, method)], other, least=least) for other in others]
        counts[min(leads)] += 1
    return Standing(counts[1], counts[0], counts[-1])


def outcome_of(stand: Standing) -> str:
    """Whether "the best everywhere" holds: never behind, and ahead more often than level."""
    if stand.behind:
        return "differs"
    return "agrees" if stand.ahead > stand.level else "open"


def worst_of(outcomes: Sequence[str]) -> str:
    """One outcome for a claim of several parts: it differs as soon as one part does."""
    return next((o for o in ("differs", "open") if o in outcomes), "agrees")


def text_of(value: Estimate | None, digits: int = 3) -> str:
    """A cell of a table: mean and half-width, or nothing."""
    if value is None:
        return ""
    if value.half_width is None:
        return f"{value.mean:.{digits}f}"
    return f"{value.mean:.{digits}f} ± {value.half_width:.{digits}f}"


def geometric_mean(numbers: Sequence[float]) -> float:
    """The n-th root of the product, for ratios."""
    return math.exp(sum(math.log(number) for number in numbers) / len(numbers))
