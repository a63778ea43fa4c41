"""Small pictures in a grid: originals, reconstructions, what each bit draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.colours import GRID
from sghash.errors import InvalidInput
from sghash.plots.canvas import canvas

_GAP = 0.08


def images(
    grid: Sequence[Sequence[ArrayLike | None]],
    *,
    titles: Sequence[str] | None = None,
    row_titles: Sequence[str] | None = None,
    signed: bool = False,
    value_range: tuple[float, float] | None = None,
    title: str = "",
    cell: float = 0.62,
) -> Any:
    """Draw rows of pictures (h, w), dark where large, or (h, w, 3) in colours 0 to 1; a Figure.

    Parameters
    ----------
    grid : rows of arrays
        None leaves a place empty. Rows may differ in length.
    titles, row_titles : sequence of str or None
        Above the columns, left of the rows.
    signed : bool
        Blue below zero, white at zero, orange above; each picture on a scale of its own.
    value_range : (float, float) or None
        What is white and what is black; None is the range of all pictures together.
    title : str
        Above the whole.
    cell : float
        Side of a picture in inches.
    """
    pictures = [[None if item is None else _picture(item) for item in row] for row in grid]
    n_rows, n_columns = len(pictures), max((len(row) for row in pictures), default=0)
    if not n_rows or not n_columns:
        raise InvalidInput("there is nothing to draw: give at least one picture")
    for names, count, what in ((titles, n_columns, "columns"), (row_titles, n_rows, "rows")):
        if names is not None and len(names) != count:
            raise InvalidInput(f"{len(names)} titles for {count} {what}: give one each")
    low, high = value_range or _range(pictures)
    left = 0.0 if row_titles is None else 0.085 * max(len(name) for name in row_titles) + 0.15
    top = (0.25 if titles is not None else 0.0) + (0.3 if title else 0.0)
    width, height = left + n_columns * cell, top + n_rows * cell
    with canvas((width, height), layout="none") as figure:
        # One pair of axes for all pictures: hundreds of axes would take seconds.
        axes = figure.add_axes((left / width, 0, 1 - left / width, 1 - top / height))
        axes.set_axis_off()
        for r, row in enumerate(pictures):
            for c, picture in enumerate(row):
                if picture is not None:
                    _draw(axes, picture, r, c, (low, high), signed)
        axes.set(xlim=(0, n_columns), ylim=(n_rows, 0), aspect="auto")
        for c, name in enumerate(titles or ()):
            axes.text(c + 0.5, -0.12, name, ha="center", va="bottom", fontsize=9)
        for r, name in enumerate(row_titles or ()):
            axes.text(-0.12, r + 0.5, name, ha="right", va="center", fontsize=9)
        if title:
            figure.text(0, 1, title, ha="left", va="top", fontsize=10.5, fontweight="bold")
    return figure


def _draw(
    axes: Any,
    picture: NDArray[np.float64],
    row: int,
    column: int,
    limits: tuple[float, float],
    signed: bool,
) -> None:
    low, high = limits
    if signed:
        high = float(np.abs(picture).max()) or 1.0
        low = -high
    half = _GAP / 2
    extent = (column + half, column + 1 - half, row + 1 - half, row + half)
    axes.imshow(
        np.clip(picture, 0, 1) if picture.ndim == 3 else picture,
        extent=extent,
        cmap="PuOr_r" if signed else "gray_r",
        vmin=low,
        vmax=high,
        interpolation="none",
        aspect="auto",
    )
    x, y = (extent[0], extent[1]), (extent[3], extent[2])
    axes.plot(
        (x[0], x[1], x[1], x[0], x[0]), (y[0], y[0], y[1], y[1], y[0]), color=GRID, linewidth=0.6
    )


def _picture(item: ArrayLike) -> NDArray[np.float64]:
    picture = np.asarray(item, dtype=np.float64)
    if picture.ndim != 2 and (picture.ndim != 3 or picture.shape[2] != 3):
        raise InvalidInput(
            f"a picture has shape (height, width) or (height, width, 3), got {picture.shape}: "
            "reshape the vectors"
        )
    return picture


def _range(pictures: Sequence[Sequence[NDArray[np.float64] | None]]) -> tuple[float, float]:
    grey = [p for row in pictures for p in row if p is not None and p.ndim == 2]
    if not grey:
        return 0.0, 1.0
    return min(float(p.min()) for p in grey), max(float(p.max()) for p in grey)
