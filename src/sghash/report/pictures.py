"""Figures in a page or a file of their own: SVG whose ink follows the theme, or PNG as it is."""

from __future__ import annotations

import base64
import re
from io import BytesIO
from typing import Any

from sghash.colours import DARK, FAINT, GRID, INK, PAPER
from sghash.errors import InvalidInput
from sghash.optional import require

_PNG = b"\x89PNG\r\n\x1a\n"
_THEMED = {INK: "var(--ink)", FAINT: "var(--faint)", GRID: "var(--grid)", PAPER: "var(--paper)"}
# In a dark page every theme colour that a drawing names gives way to its dark twin. The light ones
# stay written where they are, for programs that know no style sheets.
_DARK_STYLE = (
    "<style>@media (prefers-color-scheme: dark) { "
    + " ".join(
        f'[style*="{name}: {light}"] {{ {name}: {dark} !important; }}'
        for light, dark in DARK.items()
        for name in ("fill", "stroke")
    )
    + " }</style>"
)
_WIDE_POINTS = 450
_ACTIVE = re.compile(r"<script|<foreignObject|\son\w+\s*=|javascript:", re.IGNORECASE)
_OUTSIDE = re.compile(
    r"(?:href|src)\s*=\s*[\"'](?!#|data:)|url\(\s*[\"']?(?!#|data:)", re.IGNORECASE
)


def picture_bytes(figure: Any) -> bytes:
    """SVG of a Matplotlib figure (anything with `savefig`), or the bytes of an SVG or PNG."""
    if hasattr(figure, "savefig"):
        buffer = BytesIO()
        no_facts = {"Date": None, "Creator": None}
        # No date and names by content: the same figure gives the same bytes.
        with require("matplotlib", extra="plots").rc_context({"svg.hashsalt": "sghash"}):
            figure.savefig(buffer, format="svg", metadata=no_facts, transparent=True)
        return buffer.getvalue()
    if isinstance(figure, bytes) and (figure.startswith(_PNG) or b"<svg" in figure[:1000]):
        return figure
    raise InvalidInput(
        "a figure is a Matplotlib figure or the bytes of an SVG or PNG, "
        f"got {type(figure).__name__}"
    )


def is_png(picture: bytes) -> bool:
    """Whether `picture_bytes` are a PNG; else they are an SVG."""
    return picture.startswith(_PNG)


def on_paper(picture: bytes) -> bytes:
    """A picture for a file of its own: a drawing lies on paper, light or dark as its reader has it.

    A PNG stays as it is.
    """
    if is_png(picture):
        return picture
    paper = f'{_DARK_STYLE}<rect width="100%" height="100%" style="fill: {PAPER}"/>'.encode("ascii")
    return re.sub(rb"<svg\b[^>]*>", lambda opening: opening[0] + paper, picture, count=1)


def is_wide(picture: bytes) -> bool:
    """Whether a drawing is too wide for a phone, unless it were shrunk beyond reading."""
    width = re.search(rb'<svg\b[^>]*?\bwidth="([\d.]+)pt"', picture)
    return width is not None and float(width[1]) > _WIDE_POINTS


def inline_html(picture: bytes, *, alt: str, number: int) -> str:
    """The picture as an element of a page; `alt` is escaped text, `number` keeps ids apart."""
    if is_png(picture):
        data = base64.b64encode(picture).decode("ascii")
        return f'<img src="data:image/png;base64,{data}" alt="{alt}">'
    text = picture.decode("utf-8")
    if _ACTIVE.search(text) or _OUTSIDE.search(_without_names(text)):
        raise InvalidInput("an SVG in a page must hold neither scripts nor addresses: draw it anew")
    svg = _without_names(text)
    svg = re.sub(r'\bid="', f'id="f{number}-', svg)
    svg = re.sub(r'href="#', f'href="#f{number}-', svg)
    svg = re.sub(r"url\(#", f"url(#f{number}-", svg)
    for colour, name in _THEMED.items():
        svg = re.sub(colour, name, svg, flags=re.IGNORECASE)
    return re.sub(r"<svg\b", f'<svg role="img" aria-label="{alt}"', svg, count=1)


def _without_names(text: str) -> str:
    """From the svg element on, without the metadata (it names addresses that nobody asks)."""
    start = re.search(r"<svg\b", text)
    body = text[start.start() :] if start else text
    return re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
