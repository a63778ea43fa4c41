"""RecallK@N against N, or its difference to a method: a panel per code length."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sghash.colours import method_style, series_styles
from sghash.errors import InvalidInput
from sghash.evaluation.specs import format_model
from sghash.evaluation.summary import summarize
from sghash.plots.canvas import HALF, canvas, place_legend
from sghash.plots.curves import Series, check_series, decorate, draw_lines


def recall_curves(
    rows: Sequence[Mapping[str, Any]] | Mapping[int, Sequence[Series | tuple[Any, ...]]],
    *,
    n_bits: int | Sequence[int] | None = None,
    kind: str = "recall",
    k: int | None = None,
    title: str = "",
) -> Any:
    """Draw recall against the number of retrieved rows, with 95 % bands over seeds; a Figure.

    Parameters
    ----------
    rows : result rows, or {n_bits: series}
        As `evaluate(...).rows` or `read_rows` gives them, of one data set; or finished series
        (name, depths, recalls[, low, high]) by code length.
    n_bits : int, sequence of int or None
        Lengths to draw, a panel each; None draws all there are.
    kind : str
        "recall", "expected_recall" or "precision".
    k : int or None
        The K of finished series, for the label; rows know it.
    title : str
        Above the whole.
    """
    panels = _panels(rows, kind) if not isinstance(rows, Mapping) else dict(rows)
    lengths = sorted(panels) if n_bits is None else [n_bits] if isinstance(n_bits, int) else n_bits
    missing = [length for length in lengths if length not in panels]
    if missing or not lengths:
        raise InvalidInput(
            f"there is no {kind} for {missing or 'any'} bits in these rows: lengths there are "
            f"{sorted(panels)}"
        )
    if not isinstance(rows, Mapping):
        k = rows[0]["settings"]["k"]
    chosen = {length: check_series(panels[length]) for length in lengths}
    return _draw(chosen, _label(kind, k), title, (0, 1))


def recall_differences(
    panels: Mapping[int, Sequence[Series | tuple[Any, ...]]],
    *,
    reference: str = "ITQ",
    k: int | None = None,
    title: str = "",
    y_range: tuple[float | None, float | None] = (None, None),
) -> Any:
    """Draw how far recall is above or below that of one method, a panel per code length; a Figure.

    Parameters
    ----------
    panels : {n_bits: series}
        (name, depths, recall less the reference's[, low, high]) of every other method.
    reference : str
        The method that is subtracted: the line at zero.
    k : int or None
        The K of RecallK@N, for the label.
    title : str
        Above the whole.
    y_range : (float or None, float or None)
        What is shown; None leaves an end to the data.
    """
    if not panels:
        raise InvalidInput("there is nothing to draw: give at least one code length")
    chosen = {length: check_series(panels[length]) for length in sorted(panels)}
    label = f"{_label('recall', k)} minus {reference}'s"
    return _draw(chosen, label, title, y_range, reference)


def _draw(
    curves: Mapping[int, Sequence[Series]],
    label: str,
    title: str,
    y_range: tuple[float | None, float | None],
    reference: str | None = None,
) -> Any:
    names = list(dict.fromkeys(curve.name for drawn in curves.values() for curve in drawn))
    styles = dict(zip(names, series_styles(names), strict=True))
    height = 3.4 if reference is None else 3.9
    with canvas((max(HALF[0], 3.0 * len(curves) + 0.6), height)) as figure:
        panel_axes = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
        for axes, (length, drawn) in zip(panel_axes, curves.items(), strict=True):
            draw_lines(axes, drawn, [styles[curve.name] for curve in drawn])
            if reference is not None:
                axes.axhline(0, color=method_style(reference).colour, label=reference, zorder=1.5)
            decorate(
                axes, "N retrieved", "", f"{length} bits", "log", "linear", (None, None), y_range
            )
        panel_axes[0].set_ylabel(label)
        widest = max(panel_axes, key=lambda axes: len(axes.lines))
        place_legend(figure, widest)
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    return figure


def _panels(rows: Sequence[Mapping[str, Any]], kind: str) -> dict[int, list[Series]]:
    data = {(row["settings"]["dataset"], row["settings"]["k"]) for row in rows}
    if len(data) > 1:
        raise InvalidInput(
            f"rows of one data set and one K belong into one figure, got {sorted(data)}"
        )
    panels: dict[int, list[Series]] = {}
    for summary in summarize(rows):
        named = {
            int(match[1]): value
            for name, value in summary.values.items()
            if (match := re.fullmatch(rf"{kind}\d+@(\d+)", name))
        }
        if not named:
            continue
        depths = sorted(named)
        means = [named[n].mean for n in depths]
        half = [named[n].half_width or 0.0 for n in depths]
        name = format_model(summary.group["model"], summary.group["asked"])
        low = [max(0.0, mean - width) for mean, width in zip(means, half, strict=True)]
        high = [min(1.0, mean + width) for mean, width in zip(means, half, strict=True)]
        series = (
            Series(name, depths, means, low, high) if any(half) else Series(name, depths, means)
        )
        panels.setdefault(summary.group["n_bits"], []).append(series)
    return panels


def _label(kind: str, k: int | None) -> str:
    word = kind.replace("_", " ").replace("recall", "Recall").replace("precision", "Precision")
    return f"{word}{'K' if k is None else k}@N"
