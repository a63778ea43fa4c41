"""An empty figure in the house style, and the axes on it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sghash.colours import FAINT, GRID, INK
from sghash.optional import require
from sghash.validation import check_choice

#: Width and height in inches; text keeps its size, so a half-width figure is not a shrunken one.
HALF, WIDE = (4.1, 3.3), (7.4, 3.9)

_THEME = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "figure.facecolor": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 9,
}


@contextmanager
def canvas(size: tuple[float, float], *, layout: str = "constrained") -> Iterator[Any]:
    """A new figure of `size` inches; what is drawn inside the block is in the house style."""
    matplotlib = require("matplotlib", extra="plots")
    figures = require("matplotlib.figure", extra="plots")
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_THEME}):
        yield figures.Figure(figsize=size, layout=layout)


#: How an axis may be divided.
SCALES = ("linear", "log", "log2")
# Fewer labels than this do not say how an axis is divided; more than the other run together.
_FEWEST_TICKS, _MOST_TICKS = 3, 8
# Ticks within a power, from few to many.
_DIVISIONS = {10: ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 6, 8)), 2: ((1,), (1, 1.5))}


def set_axis(
    axes: Any, which: str, scale: str, ends: tuple[float | None, float | None] = (None, None)
) -> None:
    """Make the axis "x" or "y" linear or logarithmic, from one end to the other.

    None leaves an end to the data. Ticks of a logarithm are plain numbers, three at least.
    """
    check_choice(scale, SCALES, name=f"{which}_scale")
    axis = axes.xaxis if which == "x" else axes.yaxis
    if scale != "linear":
        base = 2 if scale == "log2" else 10
        (axes.set_xscale if which == "x" else axes.set_yscale)("log", base=base)
    if ends != (None, None):
        (axes.set_xlim if which == "x" else axes.set_ylim)(*ends)
    if scale == "linear":
        return
    ticker = require("matplotlib.ticker", extra="plots")
    low, high = sorted(axes.get_xlim() if which == "x" else axes.get_ylim())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _plain(value)))
    axis.set_minor_formatter(ticker.NullFormatter())
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_locator(ticker.FixedLocator(log_ticks(low, high, base=base)))


def log_ticks(low: float, high: float, *, base: int = 10) -> list[float]:
    """Round numbers from `low` to `high`, three to eight of them wherever they exist."""
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    powers = [float(base) ** power for power in range(first, last + 1)]
    for parts in _DIVISIONS[base]:
        ticks = [part * power for power in powers for part in parts if low <= part * power <= high]
        if len(ticks) > _MOST_TICKS:
            return ticks[:: -(-len(ticks) // _MOST_TICKS)]
        if len(ticks) >= _FEWEST_TICKS:
            return ticks
    # A range of less than an octave or so is divided like any other.
    least = 10.0 ** math.floor(math.log10((high - low) / _FEWEST_TICKS))
    step = max(f * least for f in (1, 2, 5, 10) if high - low >= _FEWEST_TICKS * f * least)
    found = [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return found[:: -(-len(found) // _MOST_TICKS)]


def _plain(value: float) -> str:
    """0.01, 5, 20,000; beyond that powers of ten, with a factor where there is one."""
    if 1e-3 <= value < 1e6:
        return f"{value:,g}" if value < 1e5 else f"{value:,.0f}"
    if value <= 0:
        return f"{value:g}"
    power = math.floor(math.log10(value) + 1e-9)
    factor = f"{value / 10.0**power:.3g}"
    return rf"$10^{{{power}}}$" if factor == "1" else rf"${factor}\cdot10^{{{power}}}$"


def place_legend(figure: Any, axes: Any) -> None:
    """Below the figure, which grows for it: no curve is covered, no panel squeezed.

    Nothing is written for a single series.
    """
    handles, names = axes.get_legend_handles_labels()
    if len(names) < 2:
        return
    width, height = figure.get_size_inches()
    column = 0.62 + 0.083 * max(len(name) for name in names)
    n_columns = max(1, min(len(names), int((width - 0.2) / column)))
    n_rows = -(-len(names) // n_columns)
    figure.set_size_inches(width, height + 0.19 * (n_rows - 1))
    figure.legend(handles, names, loc="outside lower center", ncols=n_columns, columnspacing=1.2)
