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
#: What each becomes on a dark page.
DARK = {INK: DARK_INK, FAINT: DARK_FAINT, GRID: DARK_GRID, PAPER: DARK_PAPER}


class MethodStyle(NamedTuple):
    """How a method is drawn: colour "#rrggbb", marker and line as Matplotlib names them."""

    colour: str
    marker: str
    line: str


#: Every method that is compared anywhere, by the name it has in result rows.
METHODS: dict[str, MethodStyle] = {
    "SGH": MethodStyle("#d55e00", "o", "-"),
    "SGH(neighbors=10)": MethodStyle("#d81b60", "*", "-"),
    "SGH, asymmetric": MethodStyle("#9a5330", "X", "-."),
    "SGH.paper": MethodStyle("#a87900", "D", "--"),
    "SGH.authors_script": MethodStyle("#9c6b3c", "X", ":"),
    "ScaleInvariantSGH": MethodStyle("#c25a45", "o", "--"),
    "GeneralSGH": MethodStyle("#b0603a", "D", "-."),
    "DeepSGH": MethodStyle("#5c6fe0", "s", "--"),
    "GenerativeQuantizer": MethodStyle("#a438e0", "D", "-"),
    "ITQ": MethodStyle("#0072b2", "s", "-"),
    "SignHashing": MethodStyle("#7a7f87", "v", "-."),
    "LSH": MethodStyle("#009e73", "^", "--"),
    "PCAHashing": MethodStyle("#c766a0", "P", "-."),
    "SpectralHashing": MethodStyle("#6f62cc", "<", ":"),
    "SphericalHashing": MethodStyle("#5f7a94", ">", "--"),
    "KMeansHashing": MethodStyle("#8c6d5a", "h", "-."),
    "GraphHashing": MethodStyle("#5a8f00", "d", ":"),
    "BinaryAutoencoder": MethodStyle("#00a0c5", "p", "--"),
    "ProductQuantizer": MethodStyle("#2f9a1f", "P", "-"),
    "OPQ": MethodStyle("#0b8f8f", "H", "-."),
    "RaBitQ": MethodStyle("#8a7a00", "8", ":"),
    "rabitqlib": MethodStyle("#b88a1e", "8", "-"),
    "turbovec": MethodStyle("#c43c3c", "d", "-"),
    "usearch": MethodStyle("#b0509a", "<", "--"),
    "IVFFlat": MethodStyle("#7a5fd8", "v", "-"),
    "HNSWFlat": MethodStyle("#c2478f", "^", "-"),
    "PCAReconstruction": MethodStyle("#4f8f8b", "x", "-"),
    "exact": MethodStyle(FAINT, ".", "-"),
}

# For series that are not methods (lengths, batch sizes), in this order: none is a method's.
_SPARE_COLOURS = ("#4477aa", "#cc6677", "#228844", "#a9722f", "#8866cc", "#5f8388", "#b05fae")
_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "d")


def method_style(name: str) -> MethodStyle:
    """Colour, marker and line of a method; "SGH(n_steps=9)" or "SGH, sharpened" look like SGH."""
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
    """The style, or one of its colour that shares neither marker nor line with those taken."""
    if style not in taken:
        return style
    alike = [other for other in taken if other.colour == style.colour]
    others = [MethodStyle(style.colour, marker, line) for line, marker in product(_LINES, _MARKERS)]
    free = [other for other in others if other not in taken]

    def shared(other: MethodStyle) -> int:
        return sum((other.marker == one.marker) + (other.line == one.line) for one in alike)

    return min(free, key=shared)
