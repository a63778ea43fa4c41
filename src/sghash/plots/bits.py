"""What each bit of a code is worth: how often it is set, and how much it repeats others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sghash.colours import FAINT, method_style
from sghash.errors import InvalidInput
from sghash.plots.canvas import HALF, WIDE, canvas


def bit_report(
    shares: ArrayLike,
    *,
    correlations: ArrayLike | None = None,
    method: str = "SGH",
    title: str = "",
    size: tuple[float, float] = WIDE,
) -> Any:
    """Draw how often each bit is set, and how bits go together; a Figure.

    Parameters
    ----------
    shares : (n_bits,)
        Share of the vectors in which each bit is 1; a half is a full bit, 0 or 1 a wasted one.
    correlations : (n_bits, n_bits) or None
        Correlation of each pair of bits, drawn by its size; only the shares are drawn without.
    method : str
        Whose bits they are: gives the colour.
    title : str
        Above the shares.
    size : (float, float)
        Width and height in inches.
    """
    set_shares = np.asarray(shares, dtype=np.float64)
    n_bits = len(set_shares)
    if set_shares.ndim != 1 or not n_bits or set_shares.min() < 0 or set_shares.max() > 1:
        raise InvalidInput("shares must be one number between 0 and 1 per bit")
    table = None if correlations is None else np.abs(np.asarray(correlations, dtype=np.float64))
    if table is not None and table.shape != (n_bits, n_bits):
        raise InvalidInput(f"correlations must have shape {(n_bits, n_bits)}, got {table.shape}")
    with canvas(size) as figure:
        count = 1 if table is None else 2
        ratios = [1.0] if table is None else [1.45, 1.0]
        panels = figure.subplots(1, count, squeeze=False, width_ratios=ratios)[0]
        panels[0].bar(range(n_bits), set_shares, width=0.8, color=method_style(method).colour)
        panels[0].axhline(0.5, color=FAINT, linewidth=1, linestyle="--")
        panels[0].grid(visible=False, axis="x")
        panels[0].set(xlabel="bit", ylabel="share of vectors that set it", ylim=(0, 1))
        panels[0].set_title(title or "how often each bit is set")
        if table is not None:
            _draw_correlations(figure, panels[1], table, "")
    return figure


def bit_correlations(correlations: ArrayLike, *, title: str = "") -> Any:
    """Draw how bits go together alone, small enough for a phone; a Figure.

    `correlations` (n_bits, n_bits) as in `bit_report`.
    """
    table = np.abs(np.asarray(correlations, dtype=np.float64))
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not len(table):
        raise InvalidInput(f"correlations must be square, got shape {table.shape}")
    with canvas(HALF) as figure:
        _draw_correlations(figure, figure.add_subplot(), table, title)
    return figure


def _draw_correlations(figure: Any, axes: Any, table: Any, title: str) -> None:
    shown = np.where(np.eye(len(table), dtype=bool), np.nan, table)
    picture = axes.imshow(shown, cmap="cividis", vmin=0, vmax=1, interpolation="none")
    axes.grid(visible=False)
    axes.set(xlabel="bit", ylabel="bit")
    axes.set_title(title or "|correlation| of bits")
    figure.colorbar(picture, ax=axes, shrink=0.8)


def bit_values(
    recall_added: ArrayLike,
    error_without: ArrayLike,
    *,
    method: str = "SGH",
    title: str = "",
    size: tuple[float, float] = WIDE,
) -> Any:
    """Draw what each bit adds to recall and what decoding loses without it; a Figure.

    Parameters
    ----------
    recall_added : (n_bits,)
        Recall with all bits less recall without this one; below zero a bit does harm.
    error_without : (n_bits,)
        Factor by which the squared error grows without the bit.
    method, title, size
        As in `bit_report`.
    """
    added, errors = (np.asarray(v, dtype=np.float64) for v in (recall_added, error_without))
    if added.ndim != 1 or added.shape != errors.shape or not len(added):
        raise InvalidInput("recall_added and error_without must be one number per bit each")
    order = np.argsort(-added, kind="stable")
    with canvas(size) as figure:
        panels = figure.subplots(1, 2)
        colour = method_style(method).colour
        panels[0].bar(range(len(added)), added[order], width=0.8, color=colour)
        panels[0].axhline(0, color=FAINT, linewidth=1)
        panels[0].grid(visible=False, axis="x")
        panels[0].set(xlabel="bits, the most useful first", ylabel="recall it adds")
        panels[0].set_title(title or "what each bit adds to recall")
        panels[1].scatter(errors, added, s=18, color=colour)
        panels[1].set(xlabel="squared error without the bit (factor)", ylabel="recall it adds")
        panels[1].set_title("recall against reconstruction")
    return figure
