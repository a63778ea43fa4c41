"""From rows to numbers: the mean over seeds, and the interval that the seeds leave."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

#: What tells apart rows that are not repetitions of each other.
GROUPED_BY = ("dataset", "checksum", "metric", "model", "asked", "n_bits", "k")


class Estimate(NamedTuple):
    """Mean over `n` seeds, and the half-width of its 95 % interval (None for a single seed)."""

    mean: float
    half_width: float | None
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.4g}" + ("" if self.half_width is None else f" ± {self.half_width:.2g}")


class Summary(NamedTuple):
    """Rows that differ only in their seed: what they share, and an estimate of each value."""

    group: dict[str, Any]
    values: dict[str, Estimate]


def estimate(numbers: Sequence[float]) -> Estimate:
    """Mean and 95 % interval of the mean by Student's distribution."""
    values = np.asarray(numbers, dtype=np.float64)
    n = len(values)
    if n < 2:
        return Estimate(float(values.mean()), None, n)
    from scipy.special import stdtrit

    spread = float(values.std(ddof=1)) / math.sqrt(n)
    return Estimate(float(values.mean()), float(stdtrit(n - 1, 0.975)) * spread, n)


def summarize(rows: Iterable[Mapping[str, Any]]) -> list[Summary]:
    """Group rows that differ only in their seed, in the order of their first appearance.

    A seed that appears twice counts once, with its last row.
    """
    groups: dict[str, tuple[dict[str, Any], dict[int, Mapping[str, float]]]] = {}
    for row in rows:
        settings = row["settings"]
        group = {name: settings[name] for name in GROUPED_BY}
        _, by_seed = groups.setdefault(repr(sorted(group.items())), (group, {}))
        by_seed[settings["seed"]] = row["values"]
    return [
        Summary(group, _estimates(list(by_seed.values()))) for group, by_seed in groups.values()
    ]


def _estimates(repetitions: Sequence[Mapping[str, float]]) -> dict[str, Estimate]:
    names = [name for name in repetitions[0] if all(name in values for values in repetitions)]
    return {name: estimate([values[name] for values in repetitions]) for name in names}
