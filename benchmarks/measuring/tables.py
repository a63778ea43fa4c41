"""Tables per code length: a line per model, a column per set, geometric means at the end."""

from __future__ import annotations

from collections.abc import Sequence

from measuring.ratios import (
    REFERENCE,
    Place,
    Row,
    interval,
    mean_over,
    median_ratios,
    medians,
    paired,
)
from sghash.evaluation.summary import Estimate
from sghash.experiments.comparisons import geometric_mean

_WIDTH = 15


def text_of(value: Estimate | None) -> str:
    if value is None:
        return "-"
    return f"{value.mean:.3f}" + ("" if value.half_width is None else f" ± {value.half_width:.3f}")


def tables(rows: Sequence[Row], recalls: Sequence[str]) -> list[str]:
    """For every length: CPU and the named recalls of each model as multiples of ITQ's."""
    places = [Place(row["settings"]["set"], row["settings"]["n_bits"]) for row in rows]
    sets = list(dict.fromkeys(place.set for place in places))
    models = list(dict.fromkeys(row["settings"]["model"] for row in rows))
    lines = []
    for n_bits in sorted({place.n_bits for place in places}):
        lines += [
            "",
            f"{n_bits} bits (ITQ itself: seconds of CPU, recall; others: multiples of ITQ's)",
        ]
        lines.append(_line("", ["mean", *sets]))
        lines += _cpu(rows, models, sets, n_bits)
        for value in recalls:
            lines += _recall(rows, models, sets, n_bits, value)
    return lines


def _cpu(rows: Sequence[Row], models: Sequence[str], sets: Sequence[str], n: int) -> list[str]:
    lines = []
    for model in models:
        if model == REFERENCE:
            seconds = medians(rows, model, "cpu_seconds")
            cells = [f"{seconds[p]:.2f} s" if (p := Place(s, n)) in seconds else "-" for s in sets]
            lines.append(_line(f"{'CPU':<19} {model}", ["", *cells]))
            continue
        ratios = median_ratios(rows, model, "cpu_seconds")
        known = [ratios[Place(s, n)] for s in sets if Place(s, n) in ratios]
        cells = [f"{ratios[p]:.3f}" if (p := Place(s, n)) in ratios else "-" for s in sets]
        mean = f"{geometric_mean(known):.3f}" if known else "-"
        lines.append(_line(f"{'CPU':<19} {model}", [mean, *cells]))
    return lines


def _recall(
    rows: Sequence[Row], models: Sequence[str], sets: Sequence[str], n: int, value: str
) -> list[str]:
    lines = []
    for model in models:
        if model == REFERENCE:
            own = medians(rows, model, value)
            cells = [f"{own[p]:.3f}" if (p := Place(s, n)) in own else "-" for s in sets]
            lines.append(_line(f"{value:<19} {model}", ["", *cells]))
            continue
        ratios = paired(rows, model, value)
        cells = [
            text_of(interval(ratios[p])) if (p := Place(s, n)) in ratios else "-" for s in sets
        ]
        lines.append(_line(f"{value:<19} {model}", [text_of(mean_over(ratios, (n,))), *cells]))
    return lines


def _line(name: str, cells: Sequence[str]) -> str:
    return f"  {name:<51}" + "".join(f"{cell:>{_WIDTH}}" for cell in cells)
