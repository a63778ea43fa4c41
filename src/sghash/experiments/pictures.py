"""Figures and tables that several experiments draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sghash.evaluation.summary import Estimate
from sghash.experiments.comparisons import estimates, text_of
from sghash.experiments.experiment import Drawing, Row, Table
from sghash.experiments.hashing import DEPTHS


def series_of(name: str, x: Sequence[float], values: Sequence[Estimate]) -> tuple[Any, ...]:
    """A curve for `sghash.plots`, with its band where any interval is known."""
    means = [value.mean for value in values]
    half = [value.half_width or 0.0 for value in values]
    if not any(half):
        return (name, list(x), means)
    low = [mean - width for mean, width in zip(means, half, strict=True)]
    high = [mean + width for mean, width in zip(means, half, strict=True)]
    return (name, list(x), means, low, high)


def recall_drawing(rows: Sequence[Row], *, k: int, title: str) -> Drawing:
    """RecallK@N against N, a panel per code length, a curve per method."""

    def make() -> Any:
        from sghash.plots import recall_curves

        panels: dict[int, list[tuple[Any, ...]]] = {}
        found = {n: estimates(rows, f"recall{k}@{n}", ("n_bits", "model")) for n in DEPTHS}
        found = {n: cells for n, cells in found.items() if cells}
        for n_bits, model in next(iter(found.values())):
            values = [cells[n_bits, model] for cells in found.values()]
            panels.setdefault(n_bits, []).append(series_of(model, list(found), values))
        return recall_curves(panels, title=title)

    return Drawing(
        make,
        f"{title}. Bands are 95 % intervals of the mean over seeds.",
        f"Curves of {title} that rise with N, one per method, a panel per code length; "
        "the numbers stand in the tables.",
    )


def by_length_drawing(
    rows: Sequence[Row], value: str, label: str, *, title: str, y_scale: str = "linear"
) -> Drawing:
    """A value against the code length, a curve per method."""

    def make() -> Any:
        from sghash.plots import lines

        found = estimates(rows, value, ("model", "n_bits"))
        curves = []
        for model in dict.fromkeys(cell[0] for cell in found):
            lengths = sorted(cell[1] for cell in found if cell[0] == model)
            curves.append(series_of(model, lengths, [found[model, n] for n in lengths]))
        return lines(
            curves, x_label="bits", y_label=label, title=title, x_scale="log2", y_scale=y_scale,
            size=(7.4, 4.4),
        )  # fmt: skip

    caption = f"{title}: {label} by code length."
    return Drawing(make, caption, f"{caption} One curve per method; the numbers stand below.")


def by_length_table(rows: Sequence[Row], value: str, caption: str, *, digits: int = 3) -> Table:
    """A line per method, a column per code length."""
    found = estimates(rows, value, ("model", "n_bits"))
    lengths = sorted({cell[1] for cell in found})
    models = list(dict.fromkeys(cell[0] for cell in found))
    cells = [[m, *(text_of(found.get((m, n)), digits) for n in lengths)] for m in models]
    return Table(["method", *(f"{n} bits" for n in lengths)], cells, caption)
