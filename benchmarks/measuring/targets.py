"""The targets of training, and what rows say about them: one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from measuring.fits import DIGITS
from measuring.ratios import (
    Place,
    Ratios,
    Row,
    interval,
    mean_over,
    median_ratios,
    medians,
    paired,
)
from measuring.verdicts import Target, at_least, at_most, line

DEFAULT = "SGH"
NEIGHBOURS = "SGH(neighbors=10)"
HIDDEN = "SGH(neighbors=10, hidden=512)"
MODELS = ("ITQ", DEFAULT, NEIGHBOURS, HIDDEN)
RECALL, CPU = "recall10@100", "cpu_seconds"
UNSEEN, SEEN = f"unseen {RECALL}", f"seen {RECALL}"

USUAL = (16, 32, 64)
#: Model -> most CPU as a multiple of ITQ's, at every usual length on every set.
MOST_CPU = {DEFAULT: at_most(1.0), NEIGHBOURS: at_most(4.0)}
#: Single places that have a bound of their own.
CPU_AT = {(DEFAULT, Place("SIFT", 64)): at_most(0.5)}
RECALL_AT = {(NEIGHBOURS, Place("MiniLM", 32)): at_least(1.20)}
#: Model -> geometric mean over sets and usual lengths.
MEAN_RECALL = {DEFAULT: at_least(1.10), NEIGHBOURS: at_least(1.16)}
#: Model, length -> geometric mean over sets.
MEAN_AT = {
    (HIDDEN, 16): at_least(1.5),
    (HIDDEN, 32): at_least(1.30),
    (HIDDEN, 64): at_least(1.15),
    (HIDDEN, 128): at_least(1.04),
}
UNSEEN_AT = {(HIDDEN, 16): at_least(1.3), (HIDDEN, 32): at_least(1.15)}
SECONDS = {(HIDDEN, "MiniLM"): at_most(60.0)}
DIGITS_SECONDS = at_most(0.4)
LONG = (256, 512, 1024)
LONG_SET = "MiniLM"


def judged(rows: Sequence[Row], models: Sequence[str]) -> list[str]:
    """Every target that the rows of a whole base speak about."""
    found: list[str] = []
    for model in models:
        cpu, recall = median_ratios(rows, model, CPU), paired(rows, model, RECALL)
        found += _cpu_lines(model, cpu)
        found += _recall_lines(model, recall)
    for (model, name), target in SECONDS.items():
        for place, seconds in medians(rows, model, CPU).items():
            if place.set == name and place.n_bits in USUAL:
                what = f"{model}, {name} {place.n_bits} bits: CPU"
                found.append(line(what, seconds, target, unit=" s"))
    return found


def _cpu_lines(model: str, cpu: Mapping[Place, float]) -> list[str]:
    lines = []
    for place, ratio in cpu.items():
        target = CPU_AT.get((model, place), MOST_CPU.get(model))
        if target is not None and place.n_bits in USUAL:
            what = f"{model}, {place.set} {place.n_bits} bits: CPU / ITQ"
            lines.append(line(what, ratio, target))
    return lines


def _recall_lines(model: str, recall: Ratios) -> list[str]:
    lines = []
    for (name, place), target in RECALL_AT.items():
        if name == model and place in recall:
            value = interval(recall[place]).mean
            what = f"{model}, {place.set} {place.n_bits} bits: recall / ITQ"
            lines.append(line(what, value, target))
    if model in MEAN_RECALL:
        what = f"{model}, mean over {_told(recall, USUAL)}: recall / ITQ"
        lines += _mean_line(what, recall, USUAL, MEAN_RECALL[model])
    for (name, n_bits), target in MEAN_AT.items():
        if name == model:
            what = f"{model}, mean over {_told(recall, (n_bits,))}: recall / ITQ"
            lines += _mean_line(what, recall, (n_bits,), target)
    return lines


def _mean_line(what: str, ratios: Ratios, lengths: Sequence[int], target: Target) -> list[str]:
    mean = mean_over(ratios, lengths)
    return [] if mean is None else [line(what, mean.mean, target)]


def _told(ratios: Ratios, lengths: Sequence[int]) -> str:
    """Over what a mean is: a mean over fewer sets than the target speaks of must say so."""
    places = [place for place in ratios if place.n_bits in lengths]
    sets = {place.set for place in places}
    bits = sorted({place.n_bits for place in places})
    return f"{len(sets)} sets, {'/'.join(map(str, bits))} bits"


def judged_halves(rows: Sequence[Row], models: Sequence[str]) -> list[str]:
    """What was learned from a half, on the rows that nobody learned from."""
    found = []
    for (model, n_bits), target in UNSEEN_AT.items():
        if model in models:
            ratios = paired(rows, model, UNSEEN)
            what = f"{model}, unseen, mean over {_told(ratios, (n_bits,))}: recall / ITQ"
            found += _mean_line(what, ratios, (n_bits,), target)
    return found


def judged_long(rows: Sequence[Row]) -> list[str]:
    """Long codes: no more CPU than ITQ, and recall that is not below beyond the seeds' noise."""
    found = []
    for place, ratio in median_ratios(rows, DEFAULT, CPU).items():
        what = f"{DEFAULT}, {place.set} {place.n_bits} bits: CPU / ITQ"
        found.append(line(what, ratio, at_most(1.0)))
    for place, ratios in paired(rows, DEFAULT, RECALL).items():
        mean = interval(ratios)
        what = f"{DEFAULT}, {place.set} {place.n_bits} bits: recall / ITQ"
        found.append(line(what, mean.mean, at_least(1.0), noise=mean.half_width or 0.0))
    return found


def judged_digits(rows: Sequence[Row]) -> list[str]:
    """The time of the default on the 1,797 digits."""
    return [
        line(f"{DEFAULT}, {DIGITS} {place.n_bits} bits: CPU", seconds, DIGITS_SECONDS, unit=" s")
        for place, seconds in medians(rows, DEFAULT, CPU).items()
        if place.set == DIGITS
    ]
