"""Means over seeds, and what seeds and queries leave open of the difference of two of them."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sghash.evaluation.summary import Estimate, estimate
from sghash.experiments.by_query import shares_of
from sghash.experiments.experiment import Row

Cell: TypeAlias = tuple[Any, ...]

#: How often queries are drawn anew to see what a difference owes to them.
REDRAWS = 10_000
#: Differences of recall below this are called level, whatever the seeds say.
LEAST_RECALL = 0.005
#: Fewer seeds of a method that draws decide nothing: two tell next to nothing of their spread.
LEAST_SEEDS = 3
#: How often a claim may be told something that only chance did.
LEVEL = 0.05
# No chance is told smaller than this.
_LEAST_CHANCE = 1e-12


class Measured(NamedTuple):
    """A mean over seeds, what each query found (mean over seeds), and whether nothing is drawn."""

    seeds: Estimate
    shares: NDArray[np.float64] | None = None
    is_fixed: bool = False


class Difference(NamedTuple):
    """Difference of two means, half its 95 % interval over seeds, and its interval over queries.

    `seeds` is None where a method that draws has fewer than `LEAST_SEEDS` seeds; `freedom` are the
    degrees of freedom of its interval.
    """

    mean: float
    seeds: float | None
    queries: tuple[float, float] | None
    freedom: float = math.inf

    @property
    def half(self) -> float | None:
        """Half of the 95 % interval: seeds and queries err independently, so squares add."""
        return self.half_at(LEVEL)

    def half_at(self, level: float) -> float | None:
        """Half of the interval that chance leaves in a share `level` of all cases."""
        if self.seeds is None:
            return None
        seeds = self.seeds / _student(self.freedom) * _student(self.freedom, level)
        queries = self._queries() / _student(math.inf) * _student(math.inf, level)
        return math.hypot(seeds, queries)

    @property
    def chance(self) -> float:
        """At which level the interval ends at 0: how easily chance makes such a difference."""
        if self.seeds is None or self.mean == 0:
            return 1.0

        def is_sure(level: float) -> bool:
            return (self.half_at(level) or 0.0) < abs(self.mean)

        low, high = math.log(_LEAST_CHANCE), 0.0
        if is_sure(_LEAST_CHANCE):
            return _LEAST_CHANCE
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if is_sure(math.exp(middle)) else (middle, high)
        return math.exp(high)

    def _queries(self) -> float:
        return 0.0 if self.queries is None else (self.queries[1] - self.queries[0]) / 2


def estimates(rows: Iterable[Row], value: str, by: Sequence[str]) -> dict[Cell, Estimate]:
    """Mean of `value` over the rows that agree in the settings `by`, in order of appearance."""
    return {cell: estimate(numbers) for cell, numbers in numbers_of(rows, value, by).items()}


def medians(rows: Iterable[Row], value: str, by: Sequence[str]) -> dict[Cell, float]:
    """Median of `value` over the rows that agree in the settings `by`; for times, which err up."""
    return {
        cell: statistics.median(numbers) for cell, numbers in numbers_of(rows, value, by).items()
    }


def numbers_of(rows: Iterable[Row], value: str, by: Sequence[str]) -> dict[Cell, list[float]]:
    """All of `value` in the rows that agree in the settings `by`; rows without it do not count."""
    found: dict[Cell, list[float]] = {}
    for row in rows:
        if value in row["values"]:
            cell = tuple(row["settings"][name] for name in by)
            found.setdefault(cell, []).append(float(row["values"][value]))
    return found


def measurements(
    rows: Sequence[Row],
    value: str,
    by: Sequence[str],
    *,
    fixed: Callable[[Mapping[str, Any]], bool] = lambda settings: False,
) -> dict[Cell, Measured]:
    """`value` over the rows that agree in the settings `by`, with what each query found.

    `fixed` says by the settings of a row whether its method draws nothing: one run tells all.
    """
    groups: dict[Cell, list[Row]] = {}
    for row in rows:
        if value in row["values"]:
            groups.setdefault(tuple(row["settings"][name] for name in by), []).append(row)
    return {
        cell: Measured(
            estimate([float(row["values"][value]) for row in here]),
            shares_of(here, value),
            fixed(here[0]["settings"]),
        )
        for cell, here in groups.items()
    }


def as_measured(value: Measured | Estimate) -> Measured:
    """An estimate as something measured whose queries are not known."""
    return Measured(value) if isinstance(value, Estimate) else value


def difference(one: Measured | Estimate, other: Measured | Estimate) -> Difference:
    """`one` minus `other`, with its interval over seeds and, where known, over queries.

    Seeds: Welch's interval of a difference of means; None where there are too few.
    Queries: both methods are asked the same ones, so those are drawn anew in pairs (bootstrap).
    """
    one, other = as_measured(one), as_measured(other)
    half, freedom = _welch(one, other)
    mean = one.seeds.mean - other.seeds.mean
    return Difference(mean, half, redrawn(one.shares, other.shares), freedom)


def paired(
    one: Sequence[Row],
    other: Sequence[Row],
    value: str,
    *,
    fixed: Callable[[Mapping[str, Any]], bool] = lambda settings: False,
) -> Difference:
    """`value` of one minus the other, seed by seed: rows of a seed share what it draws.

    `fixed` is as in `measurements`; queries are drawn anew as in `difference`.
    """
    own, usual = ({row["settings"]["seed"]: float(row["values"][value]) for row in rows}
                  for rows in (one, other))  # fmt: skip
    gap = estimate([own[seed] - usual[seed] for seed in sorted(own.keys() & usual.keys())])
    queries = redrawn(shares_of(one, value), shares_of(other, value))
    if all(fixed(row["settings"]) for row in (*one, *other)):
        return Difference(gap.mean, 0.0, queries)
    half = gap.half_width if gap.n >= LEAST_SEEDS else None
    return Difference(gap.mean, half, queries, gap.n - 1)


def redrawn(
    one: NDArray[np.float64] | None, other: NDArray[np.float64] | None
) -> tuple[float, float] | None:
    """95 % interval of a mean difference over queries, drawn anew in pairs; None if not known."""
    if one is None or other is None or one.shape != other.shape:
        return None
    found = _redraws(len(one)) @ (one - other).astype(np.float32)
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def lead(
    one: Measured | Estimate,
    other: Measured | Estimate,
    *,
    least: float = 0.0,
    level: float = LEVEL,
) -> int:
    """1 if `one` is clearly larger, -1 if clearly smaller, 0 if seeds or queries leave it open.

    Clearly: by more than `least`, and the interval over seeds and queries does not hold 0. Of many
    comparisons ask `sghash.experiments.standings`, which takes their number into account.
    """
    found = difference(one, other)
    if abs(found.mean) <= least or found.chance > level:
        return 0
    return 1 if found.mean > 0 else -1


def standard_error(value: Estimate) -> float | None:
    """Standard error of a mean over seeds; None for a single seed, which tells nothing of it."""
    if value.half_width is None:
        return None
    return value.half_width / _student(value.n - 1)


def _welch(one: Measured, other: Measured) -> tuple[float | None, float]:
    """Half of the 95 % interval of the difference of two means over seeds, and its freedom."""
    parts = []
    for value in (one, other):
        if not value.is_fixed and value.seeds.n < LEAST_SEEDS:
            return None, math.inf
        error = 0.0 if value.is_fixed else standard_error(value.seeds) or 0.0
        parts.append((error**2, value.seeds.n - 1))
    total = sum(square for square, _ in parts)
    if total == 0.0:
        return 0.0, math.inf
    freedom = total**2 / sum(square**2 / n for square, n in parts if square)
    return _student(freedom) * math.sqrt(total), freedom


def _student(freedom: float, level: float = LEVEL) -> float:
    """How many standard errors half of an interval has; normal where the freedom is infinite."""
    from scipy.special import ndtri, stdtrit

    # By the lower end: 1 - level / 2 would lose the digits of a small level.
    end = ndtri(level / 2) if math.isinf(freedom) else stdtrit(freedom, level / 2)
    return -float(end)


@functools.cache
def _redraws(n: int) -> NDArray[np.float32]:
    """(`REDRAWS`, n): how often each query is drawn, divided by n; the same in every run."""
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=REDRAWS)
    return np.asarray(drawn, dtype=np.float32) / np.float32(n)


def scaled(value: Measured | Estimate, factor: float) -> Measured:
    """A multiple of what was measured, as a bound for something else."""
    found = as_measured(value)
    half = None if found.seeds.half_width is None else factor * found.seeds.half_width
    shares = None if found.shares is None else factor * found.shares
    return Measured(found.seeds._replace(mean=factor * found.seeds.mean, half_width=half), shares,
                    found.is_fixed)  # fmt: skip


def beside_bound(value: Measured | Estimate, bound: float) -> Difference:
    """A mean minus a number that is known exactly."""
    return difference(value, Measured(Estimate(bound, None, 1), is_fixed=True))


def logarithms(rows: Iterable[Row], value: str, by: Sequence[str]) -> dict[Cell, Estimate]:
    """Mean of log(`value`), for ratios: their differences are the logarithms of these."""
    logs = [
        {**row, "values": {value: math.log(float(row["values"][value]))}}
        for row in rows
        if value in row["values"]
    ]
    return estimates(logs, value, by)


def ratio_text(gap: Difference) -> str:
    """A ratio of which `gap` is the logarithm, with its 95 % interval."""
    if gap.half is None:
        return f"{math.exp(gap.mean):.2f} (too few seeds)"
    low, high = (math.exp(gap.mean + sign * gap.half) for sign in (-1, 1))
    return f"{math.exp(gap.mean):.2f} ({low:.2f} to {high:.2f})"


def text_of(value: Estimate | None, digits: int = 3) -> str:
    """A cell of a table: mean and half-width, or nothing."""
    if value is None:
        return ""
    if value.half_width is None:
        return f"{value.mean:.{digits}f}"
    return f"{value.mean:.{digits}f} ± {value.half_width:.{digits}f}"


def seconds_text(value: float | None) -> str:
    """A time for a cell of a table; "never" for one that does not end."""
    if value is None:
        return ""
    return f"{value:.2f}" if math.isfinite(value) else "never"


def geometric_mean(numbers: Sequence[float]) -> float:
    """The n-th root of the product, for ratios."""
    return math.exp(sum(math.log(number) for number in numbers) / len(numbers))
