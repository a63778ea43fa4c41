"""Curves by method: x against y, with a band where an interval is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sghash.colours import MethodStyle, series_styles
from sghash.errors import InvalidInput
from sghash.plots.canvas import HALF, canvas, place_legend, set_axis

_MARKED_POINTS = 12


class Series(NamedTuple):
    """One curve: `name` is its method; `low` and `high` bound its 95 % band, if known."""

    name: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None


def lines(
    series: Sequence[Series | tuple[Any, ...]],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    x_scale: str = "linear",
    y_scale: str = "linear",
    x_range: tuple[float | None, float | None] = (None, None),
    y_range: tuple[float | None, float | None] = (None, None),
    legend: bool = True,
    size: tuple[float, float] = HALF,
) -> Any:
    """Draw each series in the colour of its method; a Figure.

    `series` are `Series`, or tuples (name, x, y) or (name, x, y, low, high). Scales are "linear",
    "log" or "log2"; a range may leave an end open with None.
    """
    curves = check_series(series)
    with canvas(size) as figure:
        axes = figure.add_subplot()
        draw_lines(axes, curves, series_styles([curve.name for curve in curves]))
        decorate(axes, x_label, y_label, title, x_scale, y_scale, x_range, y_range)
        if legend:
            place_legend(figure, axes)
    return figure


def check_series(series: Sequence[Series | tuple[Any, ...]]) -> list[Series]:
    """Each as a `Series` of arrays of equal length."""
    curves = [Series(*item) for item in series]
    if not curves:
        raise InvalidInput("there is nothing to draw: give at least one series")
    for curve in curves:
        lengths = {len(np.asarray(part)) for part in curve[1:] if part is not None}
        if len(lengths) != 1 or 0 in lengths or (curve.low is None) != (curve.high is None):
            raise InvalidInput(
                f"the series {curve.name!r} must have as many x as y, one at least, and low and "
                "high together or not at all"
            )
    return curves


def draw_lines(axes: Any, curves: Sequence[Series], styles: Sequence[MethodStyle]) -> None:
    """Put curves and their bands on `axes`."""
    for curve, style in zip(curves, styles, strict=True):
        x = np.asarray(curve.x, dtype=float)
        # Markers tell curves apart; on a long curve a dozen of them do.
        every = max(1, len(x) // _MARKED_POINTS)
        axes.plot(
            x,
            np.asarray(curve.y, dtype=float),
            color=style.colour,
            marker=style.marker,
            linestyle=style.line,
            markevery=every,
            label=curve.name,
        )
        if curve.low is not None and curve.high is not None:
            low, high = (np.asarray(side, dtype=float) for side in (curve.low, curve.high))
            axes.fill_between(x, low, high, color=style.colour, alpha=0.18, linewidth=0)


def decorate(
    axes: Any,
    x_label: str,
    y_label: str,
    title: str,
    x_scale: str,
    y_scale: str,
    x_range: tuple[float | None, float | None],
    y_range: tuple[float | None, float | None],
) -> None:
    """Labels, scales and ranges."""
    axes.set(xlabel=x_label, ylabel=y_label)
    set_axis(axes, "x", x_scale, x_range)
    set_axis(axes, "y", y_scale, y_range)
    if title:
        axes.set_title(title)
