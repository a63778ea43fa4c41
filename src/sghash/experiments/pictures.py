"""Figures and tables that several experiments draw."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sghash.evaluation.summary import Estimate
from sghash.experiments.comparisons import (
    LEAST_SEEDS,
    Cell,
    Difference,
    Measured,
    difference,
    estimates,
    text_of,
)
from sghash.experiments.experiment import Drawing, Row, Table
from sghash.experiments.findings import beside, best_at, best_of, winners_told
from sghash.experiments.hashing import DEPTHS, draws_nothing

#: What recalls are compared with in figures: the best known method, and one that is always there.
REFERENCE = "ITQ"
INTERVALS = "Bands and bars are 95 % intervals over seeds, where there are three or more."

_CUT = "Curves far below ITQ run off the plot. "


def series_of(name: str, x: Sequence[float], values: Sequence[Estimate]) -> tuple[Any, ...]:
    """A curve for `sghash.plots`, with its intervals where any is known."""
    half = [(value.half_width or 0.0) if value.n >= LEAST_SEEDS else 0.0 for value in values]
    return _with_intervals(name, x, [value.mean for value in values], half)


def difference_series(name: str, x: Sequence[float], gaps: Sequence[Difference]) -> tuple[Any, ...]:
    """A curve of differences, with their intervals over seeds where any is known."""
    return _with_intervals(name, x, [g.mean for g in gaps], [g.seeds or 0.0 for g in gaps])


def recall_drawing(rows: Sequence[Row], *, k: int, title: str) -> Drawing:
    """RecallK@N less ITQ's, a panel per code length, a curve per method."""
    found = {n: estimates(rows, f"recall{k}@{n}", ("n_bits", "model")) for n in DEPTHS}
    found = {n: cells for n, cells in found.items() if cells}
    places = list(dict.fromkeys(cell for cells in found.values() for cell in cells))
    fixed = _fixed(rows)
    panels: dict[int, list[tuple[Any, ...]]] = {}
    means: dict[int, dict[str, float]] = {}
    for n_bits, model in places:
        both = {(n_bits, model), (n_bits, REFERENCE)}
        gaps = {
            n: _gap(cells, n_bits, model, fixed) for n, cells in found.items() if both <= set(cells)
        }
        if model == REFERENCE or not gaps:
            continue
        curve = [gaps[n].mean for n in gaps if n >= k]
        panels.setdefault(n_bits, []).append(difference_series(model, list(gaps), [*gaps.values()]))
        means.setdefault(n_bits, {})[model] = sum(curve) / len(curve)
    floor = _floor([y for curves in panels.values() for curve in curves for y in curve[2]])

    def make() -> Any:
        from sghash.plots import recall_differences

        return recall_differences(
            panels, reference=REFERENCE, k=k, title=title, y_range=(floor, None)
        )

    return Drawing(
        make,
        f"{title}; how far each method is above or below {REFERENCE}, the line at zero. "
        f"{INTERVALS} {_CUT if floor is not None else ''}The recalls themselves stand in the "
        "tables.",
        f"{title}, the mean over N from {k} on: "
        f"{best_at(_with_reference(means), 'bits')}; {beside(means, REFERENCE)}.",
    )


def by_length_drawing(
    rows: Sequence[Row], value: str, label: str, *, title: str, y_scale: str = "linear"
) -> Drawing:
    """A value against the code length, a curve per method."""
    found = estimates(rows, value, ("model", "n_bits"))
    means: dict[int, dict[str, float]] = {}
    for (model, n_bits), measured in found.items():
        means.setdefault(n_bits, {})[model] = measured.mean

    def make() -> Any:
        from sghash.plots import lines

        curves = [
            series_of(model, lengths, [found[model, n] for n in lengths])
            for model, lengths in _lengths_by_model(found).items()
        ]
        return lines(
            curves, x_label="bits", y_label=label, title=title, x_scale="log2", y_scale=y_scale,
            size=(7.4, 4.4),
        )  # fmt: skip

    low = y_scale == "log"
    return Drawing(
        make,
        f"{title}: {label} by code length, means over seeds. {INTERVALS}",
        f"{title}, {label} by code length, means over seeds: {best_at(means, 'bits', lowest=low)}.",
    )


def by_length_differences(rows: Sequence[Row], value: str, label: str, *, title: str) -> Drawing:
    """A recall less ITQ's against the code length, a curve per method."""
    found, fixed = estimates(rows, value, ("n_bits", "model")), _fixed(rows)
    gaps = {
        (model, n_bits): _gap(found, n_bits, model, fixed)
        for n_bits, model in found
        if model != REFERENCE and (n_bits, REFERENCE) in found
    }
    means: dict[int, dict[str, float]] = {}
    for (model, n_bits), gap in gaps.items():
        means.setdefault(n_bits, {})[model] = gap.mean

    floor = _floor([gap.mean for gap in gaps.values()])

    def make() -> Any:
        from sghash.plots import lines

        curves = [
            difference_series(model, lengths, [gaps[model, n] for n in lengths])
            for model, lengths in _lengths_by_model(gaps).items()
        ]
        return lines(
            curves, x_label="bits", y_label=f"{label} minus {REFERENCE}'s", title=title,
            x_scale="log2", levels={REFERENCE: 0.0}, y_range=(floor, None), size=(7.4, 4.6),
        )  # fmt: skip

    return Drawing(
        make,
        f"{title}: {label} by code length, less that of {REFERENCE}. {INTERVALS}"
        f"{' ' + _CUT.strip() if floor is not None else ''}",
        f"{title}, {label}: {best_at(_with_reference(means), 'bits')}; {beside(means, REFERENCE)}.",
    )


def recall_by_bytes_drawing(
    found: Mapping[Any, Estimate],
    stored: Mapping[Any, float],
    names: Sequence[str],
    label: str,
    *,
    title: str,
    shown: Collection[str] | None = None,
    named: str = "",
) -> Drawing:
    """Recall by stored bytes per vector, with the best within every budget named.

    `found` and `stored` are by (method, budget): what was measured, and all that is stored for a
    row. A method stands where its bytes are, and wins a budget only if these fit into it. Of
    `shown` and of all that win a budget curves are drawn, of everything by default; the name of
    `named` is written beside it.
    """
    budgets = sorted({budget for _, budget in found})
    compared = {}
    for budget in budgets:
        best: dict[str, float] = {}
        for cell in within(budget, stored):
            best[cell[0]] = max(best.get(cell[0], 0.0), found[cell].mean)
        if len(best) > 1:
            compared[budget] = best
    won = [
        (budget, name, best[name])
        for budget, best in compared.items()
        for name in best_of(best)
        if len(best_of(best)) < len(best)
    ]
    drawn = {*(names if shown is None else shown), *(name for _, name, _ in won)}
    curves = []
    for name in names:
        cells = sorted((cell for cell in found if cell[0] == name), key=lambda cell: stored[cell])
        if cells and name in drawn:
            x = [stored[cell] for cell in cells]
            curves.append(series_of(name, x, [found[cell] for cell in cells]))

    def make() -> Any:
        from sghash.plots.winners import Winner, recall_by_bytes

        return recall_by_bytes(
            curves, y_label=label, title=title, won=[Winner(*one) for one in won], sizes=budgets,
            named=named,
        )  # fmt: skip

    caption = (
        f"{label} by bytes per vector, everything stored counted; above it the best within as many "
        f"bytes. {INTERVALS}"
    )
    return Drawing(make, caption, f"{title}: {label}; {winners_told(compared, 'bytes')}.")


def within(budget: int, stored: Mapping[Any, float]) -> list[Any]:
    """What fits into a budget, in whole bytes: a file tells those of a row only roughly."""
    return [cell for cell, size in stored.items() if round(size) <= budget]


def _floor(gaps: Sequence[float]) -> float | None:
    """Where a figure of differences ends below; None where all of it is shown.

    Methods that are far behind would flatten the differences among those that are ahead.
    """
    floor = -max(1.5 * max(gaps), 0.02)
    return floor if min(gaps) < 1.3 * floor else None


def _gap(
    found: Mapping[Cell, Estimate], n_bits: int, model: str, fixed: Collection[Cell]
) -> Difference:
    cells = (n_bits, model), (n_bits, REFERENCE)
    return difference(*(Measured(found[cell], None, cell in fixed) for cell in cells))


def _fixed(rows: Sequence[Row]) -> set[Cell]:
    """Length and method of all that draws nothing."""
    settings = (row["settings"] for row in rows)
    return {(own["n_bits"], own["model"]) for own in settings if draws_nothing(own)}


def _with_reference(means: Mapping[int, Mapping[str, float]]) -> dict[int, dict[str, float]]:
    return {place: {**own, REFERENCE: 0.0} for place, own in means.items()}


def _lengths_by_model(found: Mapping[Any, Any]) -> dict[str, list[int]]:
    models = dict.fromkeys(model for model, _ in found)
    return {model: sorted(n for name, n in found if name == model) for model in models}


def _with_intervals(
    name: str, x: Sequence[float], means: Sequence[float], half: Sequence[float]
) -> tuple[Any, ...]:
    if not any(half):
        return (name, list(x), list(means))
    low = [mean - width for mean, width in zip(means, half, strict=True)]
    high = [mean + width for mean, width in zip(means, half, strict=True)]
    return (name, list(x), list(means), low, high)


def by_length_table(rows: Sequence[Row], value: str, caption: str, *, digits: int = 3) -> Table:
    """A line per method, a column per code length."""
    found = estimates(rows, value, ("model", "n_bits"))
    lengths = sorted({cell[1] for cell in found})
    models = list(dict.fromkeys(cell[0] for cell in found))
    cells = [[m, *(text_of(found.get((m, n)), digits) for n in lengths)] for m in models]
    return Table(["method", *(f"{n} bits" for n in lengths)], cells, caption)
