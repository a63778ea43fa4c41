"""Curves by method: x against y, with a band or bars where intervals are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sghash.colours import FAINT, MethodStyle, series_styles
from sghash.errors import InvalidInput
from sghash.plots.canvas import HALF, canvas, place_legend, set_axis

_MARKED_POINTS = 12
_GUIDES = ("--", ":", "-.")
# A star is all points and little ink.
_LARGER = {"*": 8.5}
# A band between fewer points, or where some have no interval, looks like a bow tie.
_BAND_POINTS = 6


class Series(NamedTuple):
    """One curve: `name` is its method; `low` and `high` bound its 95 % interval, if known.

    Points that are not `joined` are of different kinds: no line leads from one to the next.
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    joined: bool = True


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
    levels: Mapping[str, float] | None = None,
    guides: Sequence[tuple[str, ArrayLike, ArrayLike]] = (),
    legend: bool = True,
    size: tuple[float, float] = HALF,
) -> Any:
    """Draw each series in the colour of its method; a Figure.

    `series` are `Series`, or tuples (name, x, y) or (name, x, y, low, high). Scales are "linear",
    "log" or "log2"; a range may leave an end open with None. `levels` are values of y that hold for
    every x; `guides` (name, x, y) were not measured: thin lines without markers.
    """
    curves = check_series(series)
    level_of = dict(levels or {})
    with canvas(size) as figure:
        axes = figure.add_subplot()
        styles = series_styles([*(curve.name for curve in curves), *level_of])
        draw_lines(axes, curves, styles[: len(curves)])
        for (name, level), style in zip(level_of.items(), styles[len(curves) :], strict=True):
            axes.axhline(level, color=style.colour, linestyle=style.line, label=name, zorder=1.5)
        for place, (name, x, y) in enumerate(guides):
            line = _GUIDES[place % len(_GUIDES)]
            axes.plot(x, y, color=FAINT, linewidth=1, linestyle=line, label=name, zorder=1.5)
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
        lengths = {len(np.asarray(part)) for part in curve[1:5] if part is not None}
        if len(lengths) != 1 or 0 in lengths or (curve.low is None) != (curve.high is None):
            raise InvalidInput(
                f"the series {curve.name!r} must have as many x as y, one at least, and low and "
                "high together or not at all"
            )
    return curves


def draw_lines(axes: Any, curves: Sequence[Series], styles: Sequence[MethodStyle]) -> None:
    """Put curves and their intervals on `axes`."""
    for curve, style in zip(curves, styles, strict=True):
        x = np.asarray(curve.x, dtype=float)
        # Markers tell curves apart; on a long curve a dozen of them do.
        every = max(1, len(x) // _MARKED_POINTS)
        joined = curve.joined and len(x) > 1
        axes.plot(
            x,
            np.asarray(curve.y, dtype=float),
            color=style.colour,
            marker=style.marker,
            markersize=_LARGER.get(style.marker),
            linestyle=style.line if joined else "",
            markevery=every if joined else 1,
            label=curve.name,
        )
        if curve.low is not None and curve.high is not None:
            low, high = (np.asarray(side, dtype=float) for side in (curve.low, curve.high))
            _draw_intervals(axes, x, low, high, style.colour, joined)


def _draw_intervals(axes: Any, x: Any, low: Any, high: Any, colour: str, joined: bool) -> None:
    """A band along a curve of many points that all have one; else a bar at each point that has."""
    known = high > low
    if joined and known.all() and len(x) >= _BAND_POINTS:
        axes.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
    elif known.any():
        axes.vlines(x[known], low[known], high[known], color=colour, linewidth=1.1)


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
