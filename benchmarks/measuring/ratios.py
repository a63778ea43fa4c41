"""Values of models as multiples of a reference's, paired by seed; pure functions of rows.

A row is {"settings": {"set", "n_bits", "model", "seed", ...}, "values": {name: number}}.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sghash.evaluation.summary import Estimate, estimate
from sghash.experiments.comparisons import geometric_mean

REFERENCE = "ITQ"
Row: TypeAlias = Mapping[str, Any]


class Place(NamedTuple):
    """A set and a code length."""

    set: str
    n_bits: int


#: Ratio by seed, by place.
Ratios: TypeAlias = dict[Place, dict[int, float]]


def by_seed(rows: Sequence[Row], model: str, value: str) -> Ratios:
    """The values of one model; a seed that appears twice counts with its last row."""
    found: Ratios = {}
    for row in rows:
        settings = row["settings"]
        if settings["model"] == model and value in row["values"]:
            place = Place(settings["set"], settings["n_bits"])
            found.setdefault(place, {})[settings["seed"]] = float(row["values"][value])
    return found


def paired(rows: Sequence[Row], model: str, value: str, reference: str = REFERENCE) -> Ratios:
    """Value of `model` over that of `reference`, seed by seed, where both were measured."""
    ours, theirs = by_seed(rows, model, value), by_seed(rows, reference, value)
    ratios: Ratios = {}
    for place, values in ours.items():
        others = theirs.get(place, {})
        # A reference that found nothing leaves no ratio.
        both = {s: v / others[s] for s, v in values.items() if others.get(s, 0.0) > 0}
        if both:
            ratios[place] = both
    return ratios


def medians(rows: Sequence[Row], model: str, value: str) -> dict[Place, float]:
    """The median over seeds of a value, by place."""
    found = by_seed(rows, model, value)
    return {place: statistics.median(values.values()) for place, values in found.items()}


def median_ratios(
    rows: Sequence[Row], model: str, value: str, reference: str = REFERENCE
) -> dict[Place, float]:
    """Median of `model` over the median of `reference`, over the seeds that both have."""
    ours, theirs = by_seed(rows, model, value), by_seed(rows, reference, value)
    ratios = {}
    for place, values in ours.items():
        seeds = values.keys() & theirs.get(place, {}).keys()
        if seeds:
            one, other = (statistics.median(v[place][s] for s in seeds) for v in (ours, theirs))
            ratios[place] = one / other
    return ratios


def interval(ratios: Mapping[int, float]) -> Estimate:
    """Mean of the ratios of one place, with its interval over seeds."""
    return estimate(list(ratios.values()))


def mean_over(
    ratios: Ratios, lengths: Collection[int], sets: Collection[str] | None = None
) -> Estimate | None:
    """Geometric mean over places, seed by seed, with its interval; None if there are none.

    Only seeds that every place has count, so that the mean is over the same places for each.
    """
    places = [p for p in ratios if p.n_bits in lengths and (sets is None or p.set in sets)]
    if not places:
        return None
    seeds = sorted(set.intersection(*(set(ratios[place]) for place in places)))
    if not seeds:
        return None
    return estimate([geometric_mean([ratios[place][seed] for place in places]) for seed in seeds])
