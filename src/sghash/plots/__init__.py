"""From finished numbers to Matplotlib figures (extra `plots`); nothing is computed here.

Every function returns a `matplotlib.figure.Figure` of its own: no global state, no windows.
"""

from __future__ import annotations

from sghash.colours import METHODS, MethodStyle, method_style, series_styles
from sghash.plots.bars import bars
from sghash.plots.bits import bit_report, bit_values
from sghash.plots.curves import Series, lines
from sghash.plots.images import images
from sghash.plots.recall import recall_curves

__all__ = [
    "METHODS",
    "MethodStyle",
    "Series",
    "bars",
    "bit_report",
    "bit_values",
    "images",
    "lines",
    "method_style",
    "recall_curves",
    "series_styles",
]
