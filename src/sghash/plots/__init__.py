"""From finished numbers to Matplotlib figures (extra `plots`); nothing is computed here.

Every function returns a `matplotlib.figure.Figure` of its own: no global state, no windows.
"""

from __future__ import annotations

from sghash.colours import METHODS, MethodStyle, method_style, series_styles
from sghash.plots.bars import bars
from sghash.plots.bits import bit_correlations, bit_report, bit_values
from sghash.plots.curves import Series, lines
from sghash.plots.images import images
from sghash.plots.memory import memory_bars
from sghash.plots.recall import recall_curves, recall_differences
from sghash.plots.winners import recall_by_bytes, winners

__all__ = [
    "METHODS",
    "MethodStyle",
    "Series",
    "bars",
    "bit_correlations",
    "bit_report",
    "bit_values",
    "images",
    "lines",
    "memory_bars",
    "method_style",
    "recall_by_bytes",
    "recall_curves",
    "recall_differences",
    "series_styles",
    "winners",
]
