"""THE table of colours: how each method looks in every plot, page and terminal.

One colour serves light and dark paper: each stands out by 3 : 1 at least from both. Colours alone
do not tell so many methods apart for everybody, so no two share both marker and line either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from sghash.errors import InvalidInput

#: What is drawn in these follows the theme of the page: text, lesser text, grid lines, paper.
INK, FAINT, GRID, PAPER = "#1f2328", "#656c76", "#d9dce1", "#ffffff"
#: The same on dark paper.
DARK_INK, DARK_FAINT, DARK_GRID, DARK_PAPER = "#e8eaed", "#9aa2ad", "#32373f", "#15171c"


class MethodStyle(NamedTuple):
    """How a method is drawn: colour "#rrggbb", marker and line as Matplotlib names them."""

    colour: str
    marker: str
    line: str


#: Every method that is compared anywhere, by the name it has in result rows.
METHODS: dict[str, MethodStyle] = {
    "SGH": MethodStyle("#d55e00", "o", "-"),
    "SGH.paper": MethodStyle("#a87900", "D", "--"),
    "SGH.authors_script": MethodStyle("#9c6b3c", "X", ":"),
    "ScaleInvariantSGH": MethodStyle("#c25a45", "o", "--"),
    "GeneralSGH": MethodStyle("#b0603a", "D", "-."),
    "DeepSGH": MethodStyle("#b3474f", "s", "--"),
    "GenerativeQuantizer": MethodStyle("#9a5fd0", "D", "-"),
    "ITQ": MethodStyle("#0072b2", "s", "-"),
    "SignHashing": MethodStyle("#7a7f87", "v", "-."),
    "LSH": MethodStyle("#009e73", "^", "--"),
    "PCAHashing": MethodStyle("#c766a0", "P", "-."),
    "SpectralHashing": MethodStyle("#7b61c9", "<", ":"),
    "SphericalHashing": MethodStyle("#0b8a8a", ">", "--"),
    "KMeansHashing": MethodStyle("#d1495b", "h", "-."),
    "GraphHashing": MethodStyle("#5a8f00", "d", ":"),
    "BinaryAutoencoder": MethodStyle("#2a86d1", "p", "--"),
    "ProductQuantizer": MethodStyle("#c44ecb", "*", "-"),
    "OPQ": MethodStyle("#a85fb5", "H", "-."),
    "RaBitQ": MethodStyle("#8a7a00", "8", ":"),
    "IVFFlat": MethodStyle("#3a7ca5", "v", "-"),
    "HNSWFlat": MethodStyle("#6b8a1f", "^", "-"),
    "PCAReconstruction": MethodStyle("#4f8f8b", "x", "-"),
    "exact": MethodStyle(FAINT, ".", "-"),
}

# For series that are not methods (lengths, batch sizes): in this order.
_SPARE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#c766a0", "#a87900", "#7b61c9", "#7a7f87")
_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "d")


def method_style(name: str) -> MethodStyle:
    """Colour, marker and line of a method; "SGH(n_steps=9)" or "SGH, asymmetric" look like SGH."""
    style = _known(name)
    if style is None:
        raise InvalidInput(
            f"there is no colour for the method {name!r}: add a line to METHODS, or use one of "
            f"{', '.join(METHODS)}"
        )
    return style


def series_styles(names: Sequence[str]) -> list[MethodStyle]:
    """A style per name, all different: methods as in `METHODS`, others in the order they come.

    What is no method keeps off the colours of the methods beside it. A second variant of one
    method keeps its colour and takes another line and marker.
    """
    styles: list[MethodStyle] = []
    n_unknown = 0
    known = [style.colour for style in map(_known, names) if style is not None]
    spare = [colour for colour in _SPARE_COLOURS if colour not in known] or _SPARE_COLOURS
    for name in names:
        style = _known(name)
        if style is None:
            style = MethodStyle(
                spare[n_unknown % len(spare)],
                _MARKERS[n_unknown % len(_MARKERS)],
                _LINES[n_unknown // len(spare) % len(_LINES)],
            )
            n_unknown += 1
        styles.append(_unlike(style, styles))
    return styles


def _known(name: str) -> MethodStyle | None:
    while name:
        if name in METHODS:
            return METHODS[name]
        # One part less: "SGH.paper(n_steps=9)", "SGH.paper", "SGH".
        name = re.sub(r"(^|[^A-Za-z0-9_]+)[A-Za-z0-9_]*[^A-Za-z0-9_]*$", "", name)
    return None


def _unlike(style: MethodStyle, taken: Sequence[MethodStyle]) -> MethodStyle:
    if style not in taken:
        return style
    others = (MethodStyle(style.colour, marker, line) for line, marker in product(_LINES, _MARKERS))
    used = {other.line for other in taken if other.colour == style.colour}
    choices = [other for other in others if other not in taken]
    return next((other for other in choices if other.line not in used), choices[0])
