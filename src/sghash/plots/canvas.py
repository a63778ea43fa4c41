"""An empty figure in the house style, and the axes on it."""

from __future__ import annotations

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


def set_scale(axes: Any, which: str, scale: str) -> None:
    """Make the axis "x" or "y" linear or logarithmic; log2 has plain numbers at its ticks."""
    check_choice(scale, SCALES, name=f"{which}_scale")
    if scale == "linear":
        return
    change = axes.set_xscale if which == "x" else axes.set_yscale
    change("log", base=2 if scale == "log2" else 10)
    if scale == "log2":
        ticker = require("matplotlib.ticker", extra="plots")
        axis = axes.xaxis if which == "x" else axes.yaxis
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(ticker.NullLocator())
