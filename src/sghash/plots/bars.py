"""Bars: one value per method and group, with its interval where it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sghash.colours import INK, PAPER, series_styles
from sghash.errors import InvalidInput
from sghash.plots.canvas import WIDE, canvas, place_legend, set_axis

_GROUP_WIDTH = 0.82
# Bars have no lines: a second variant of one method is hatched instead.
_HATCHES = {"-": None, "--": "//", "-.": "..", ":": "xx"}


def bars(
    groups: Sequence[str],
    values: Mapping[str, Sequence[float | None]],
    *,
    y_label: str,
    half_widths: Mapping[str, Sequence[float | None]] | None = None,
    x_label: str = "",
    title: str = "",
    y_scale: str = "linear",
    y_range: tuple[float | None, float | None] = (None, None),
    size: tuple[float, float] = WIDE,
) -> Any:
    """Draw `values`: method -> one number per group (None leaves a gap); a Figure.

    `half_widths`, of the same shape, are half the 95 % intervals.
    """
    if not groups or not values:
        raise InvalidInput("there is nothing to draw: give at least one group and one method")
    for name, numbers in {**values, **(half_widths or {})}.items():
        if len(numbers) != len(groups):
            raise InvalidInput(
                f"{name!r} has {len(numbers)} numbers for {len(groups)} groups: give one per group"
            )
    with canvas(size) as figure:
        axes = figure.add_subplot()
        width = _GROUP_WIDTH / len(values)
        styles = series_styles(list(values))
        colours = [style.colour for style in styles]
        for place, (name, style) in enumerate(zip(values, styles, strict=True)):
            offset = (place + 0.5) * width - _GROUP_WIDTH / 2
            known = [g for g, value in enumerate(values[name]) if value is not None]
            spread = None
            if half_widths is not None and name in half_widths:
                spread = [half_widths[name][g] or 0.0 for g in known]
            axes.bar(
                [g + offset for g in known],
                [values[name][g] for g in known],
                width=width * 0.92,
                color=style.colour,
                hatch=_HATCHES[style.line] if style.colour in colours[:place] else None,
                edgecolor=PAPER,
                linewidth=0,
                yerr=spread,
                ecolor=INK,
                error_kw={"elinewidth": 1, "capsize": 2},
                label=name,
            )
        axes.set_xticks(range(len(groups)), groups)
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set(xlabel=x_label, ylabel=y_label)
        set_axis(axes, "y", y_scale, y_range)
        if title:
            axes.set_title(title)
        place_legend(figure, axes)
    return figure
