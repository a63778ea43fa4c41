"""Recall against bytes, and above it the name of the method that is best at each size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sghash.colours import series_styles
from sghash.plots.canvas import canvas, place_legend
from sghash.plots.curves import Series, check_series, decorate, draw_lines

# Inches of the curves, and of each line that names a winner.
_WIDTH, _CURVES, _LINE = 7.4, 4.6, 0.24
#: Recalls less apart than this look the same in three digits: no one of them wins.
LEVEL = 5e-4
_LOUD, _QUIET = 2.6, 1.1


class Winner(NamedTuple):
    """The method that is best at size `x`, and its value there."""

    x: float
    name: str
    y: float


def winners(series: Sequence[Series | tuple[Any, ...]]) -> list[Winner]:
    """The highest series at each x where there are two at least, by rising x; all that are level.

    Nobody wins where all are level.
    """
    values: dict[float, dict[str, float]] = {}
    for curve in check_series(series):
        pairs = zip(np.asarray(curve.x, float), np.asarray(curve.y, float), strict=True)
        for x, y in pairs:
            values.setdefault(float(x), {})[curve.name] = float(y)
    found = []
    for x, own in sorted(values.items()):
        best = [name for name in own if own[name] >= max(own.values()) - LEVEL]
        found += [Winner(x, name, own[name]) for name in best if len(best) < len(own)]
    return found


def recall_by_bytes(
    series: Sequence[Series | tuple[Any, ...]],
    *,
    y_label: str,
    title: str = "",
    won: Sequence[Winner] | None = None,
    sizes: Sequence[float] | None = None,
    named: str = "",
) -> Any:
    """Draw curves by bytes per vector; those that win somewhere are heavy and named; a Figure.

    `won` are the winners where sizes are budgets that codes of many lengths fit into, `sizes` what
    the axis names; both are taken from the curves where they are not given. The curve `named` has
    its name beside it.
    """
    curves = check_series(series)
    won = winners(curves) if won is None else won
    names = list(dict.fromkeys(winner.name for winner in won))
    style_of = dict(
        zip((c.name for c in curves), series_styles([c.name for c in curves]), strict=True)
    )
    strip = _LINE * (len(names) + 1)
    with canvas((_WIDTH, _CURVES + strip)) as figure:
        above, axes = figure.subplots(2, 1, sharex=True, height_ratios=[strip, _CURVES])
        draw_lines(axes, curves, [style_of[curve.name] for curve in curves])
        for line in axes.lines:
            if line.get_label() in style_of:
                line.set_linewidth(_LOUD if line.get_label() in names else _QUIET)
        decorate(axes, "bytes per vector", y_label, "", "log2", "linear", (None, None), (0, 1))
        ticks = sizes or sorted({float(x) for curve in curves for x in np.asarray(curve.x, float)})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        _name_winners(above, won, names, style_of)
        for curve in curves:
            if curve.name == named:
                _write_beside(axes, curve, style_of[named].colour)
        above.set_title(title)
        place_legend(figure, axes)
    return figure


def _write_beside(axes: Any, curve: Series, colour: Any) -> None:
    at = (float(np.asarray(curve.x, float)[-1]), float(np.asarray(curve.y, float)[-1]))
    axes.annotate(
        curve.name, at, xytext=(8, -16), textcoords="offset points", color=colour,
        fontweight="bold",
    )  # fmt: skip


def _name_winners(
    axes: Any, won: Sequence[Winner], names: Sequence[str], style_of: dict[str, Any]
) -> None:
    """A line per winner: a mark at each size where it is best, and its name beside them."""
    axes.set_axis_off()
    axes.set(ylim=(len(names) - 0.5, -0.5))
    middle = np.sqrt(won[0].x * won[-1].x) if won else 1.0
    for place, name in enumerate(names):
        style = style_of[name]
        at = [winner.x for winner in won if winner.name == name]
        # Best at sizes side by side: one bar; a size that another wins interrupts it.
        for run in _runs(at, [winner.x for winner in won]):
            axes.plot(run, [place] * len(run), color=style.colour, linewidth=5, alpha=0.35)
        axes.plot(at, [place] * len(at), style.marker, color=style.colour, markersize=7)
        is_left = at[-1] <= middle or at[0] < middle
        axes.annotate(
            f"best: {name}",
            (at[-1] if is_left else at[0], place),
            xytext=(10 if is_left else -10, 0),
            textcoords="offset points",
            ha="left" if is_left else "right",
            va="center",
            color=style.colour,
            fontweight="bold",
        )


def _runs(at: Sequence[float], sizes: Sequence[float]) -> list[list[float]]:
    ordered = sorted(set(sizes))
    runs: list[list[float]] = []
    for x in at:
        if runs and ordered.index(x) == ordered.index(runs[-1][-1]) + 1:
            runs[-1].append(x)
        else:
            runs.append([x])
    return runs
