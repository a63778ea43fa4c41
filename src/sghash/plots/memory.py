"""Bars of bytes: what so many rows take, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sghash.colours import series_styles
from sghash.errors import InvalidInput
from sghash.plots.canvas import canvas, place_legend

_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def readable(n_bytes: float) -> str:
    """4.61 GB, 139 MB: three digits and a unit."""
    unit, size = next((u for u in _UNITS if n_bytes >= u[1]), ("bytes", 1.0))
    return (
        f"{n_bytes / size:.3g} {unit}" if n_bytes < 999.5 * size else f"{n_bytes / size:.0f} {unit}"
    )


def memory_bars(kinds: Mapping[str, Mapping[str, float]], *, title: str = "") -> Any:
    """Draw `kinds`: how rows are kept -> part -> bytes; a Figure.

    Bars begin at zero and share a scale; each ends with its sum, and with how many times smaller
    than the first it is.
    """
    if not kinds or not all(kinds.values()):
        raise InvalidInput("there is nothing to draw: give at least one kind with one part")
    parts = list(dict.fromkeys(part for own in kinds.values() for part in own))
    sums = [sum(own.values()) for own in kinds.values()]
    with canvas((7.4, 0.9 + 0.46 * len(kinds))) as figure:
        axes = figure.add_subplot()
        left = [0.0] * len(kinds)
        for part, style in zip(parts, series_styles(parts), strict=True):
            widths = [own.get(part, 0.0) for own in kinds.values()]
            axes.barh(range(len(kinds)), widths, left=left, height=0.62, color=style.colour,
                      label=part)  # fmt: skip
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for place, total in enumerate(sums):
            times = f"  ({sums[0] / total:.2g} times smaller)" if total < sums[0] else ""
            axes.annotate(
                readable(total) + times, (total, place), xytext=(6, 0),
                textcoords="offset points", va="center",
            )  # fmt: skip
        axes.set_yticks(range(len(kinds)), list(kinds))
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False)
        axes.xaxis.set_visible(False)
        axes.spines["bottom"].set_visible(False)
        axes.set(ylim=(len(kinds) - 0.5, -0.5), xlim=(0, 1.22 * max(sums)))
        if title:
            axes.set_title(title)
        place_legend(figure, axes)
    return figure
