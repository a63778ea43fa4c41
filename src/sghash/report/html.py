"""Pieces as one HTML document: no script, no address, every style inside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from sghash.colours import method_style
from sghash.errors import InvalidInput
from sghash.report.look import STYLE
from sghash.report.numbers import is_number
from sghash.report.pictures import inline_html, is_wide
from sghash.report.pieces import Code, Definition, Figure, Piece, Section, Table, Text, Verdict

# From this many sections on, a page lists them on top.
_LISTED_SECTIONS = 4
# A cell of more letters is a sentence.
_LONG_CELL = 60
_MARKS = {"agrees": "✓ agrees", "differs": "≠ differs", "open": "? open"}


def render(title: str, summary: str, pieces: Sequence[Piece]) -> str:
    """The whole document."""
    body = [f"<h1>{_words(title)}</h1>"]
    if summary:
        body.append(f'<p class="summary">{_words(summary)}</p>')
    body.append(_contents([piece.title for piece in pieces if isinstance(piece, Section)]))
    body += _pieces(pieces)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        # No address of any kind may be asked for, whatever a piece holds.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "img-src data:; style-src 'unsafe-inline'\">\n"
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n'
        f"<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _pieces(pieces: Sequence[Piece]) -> list[str]:
    parts: list[str] = []
    n_sections = n_figures = 0
    for place, piece in enumerate(pieces):
        if isinstance(piece, Section):
            n_sections += 1
            parts.append(f'<h2 id="s{n_sections}">{_words(piece.title)}</h2>')
        elif isinstance(piece, Figure):
            parts.append(_figure(piece, n_figures))
            n_figures += len(piece.pictures)
        elif isinstance(piece, Definition):
            before = place and isinstance(pieces[place - 1], Definition)
            after = place + 1 < len(pieces) and isinstance(pieces[place + 1], Definition)
            row = f"<dt>{_words(piece.term)}</dt><dd>{_words(piece.meaning)}</dd>"
            parts.append(("" if before else "<dl>\n") + row + ("" if after else "\n</dl>"))
        else:
            parts.append(_plain(piece))
    return parts


def _plain(piece: Text | Code | Table | Verdict) -> str:
    if isinstance(piece, Text):
        paragraphs = [part for part in re.split(r"\n\s*\n", piece.text) if part.strip()]
        return "\n".join(f"<p>{_words(part)}</p>" for part in paragraphs)
    if isinstance(piece, Code):
        return f"<pre><code>{escape(piece.text.rstrip())}</code></pre>"
    if isinstance(piece, Table):
        return _table(piece)
    mark = f'<span class="mark">{_MARKS[piece.verdict]}</span>'
    return (
        f'<div class="verdict {piece.verdict}"><p>{mark} '
        f"<strong>{_words(piece.claim)}</strong></p><p>{_words(piece.why)}</p></div>"
    )


def _contents(titles: Sequence[str]) -> str:
    if len(titles) < _LISTED_SECTIONS:
        return ""
    links = [f'<a href="#s{n}">{_words(title)}</a>' for n, title in enumerate(titles, 1)]
    return f'<nav aria-label="sections">{" ".join(links)}</nav>'


def _figure(figure: Figure, first: int) -> str:
    alt = escape(figure.alt, quote=True)
    shown = [
        inline_html(picture, alt=alt, number=number)
        for number, picture in enumerate(figure.pictures, first)
    ]
    # A wide picture may scroll in its frame, which the keyboard must reach.
    opening = ('<div class="picture">', '<div class="picture wide" tabindex="0">')
    row = "\n".join(
        f"{opening[is_wide(picture)]}{element}</div>"
        for picture, element in zip(figure.pictures, shown, strict=True)
    )
    caption = f"<figcaption>{_words(figure.caption)}</figcaption>" if figure.caption else ""
    return f'<figure><div class="pictures">{row}</div>{caption}</figure>'


def _table(table: Table) -> str:
    right = [
        bool(table.rows) and all(is_number(row[column]) for row in table.rows)
        for column in range(len(table.headings))
    ]

    def line(cells: Sequence[str], tag: str) -> str:
        shown = []
        for column, cell in enumerate(cells):
            swatch = _swatch(cell) if tag == "td" and column == 0 else ""
            kind = "number" if right[column] else "method" if swatch else "words"
            # A sentence in a narrow column would be a ladder: the table scrolls instead.
            kind += " long" if kind == "words" and len(cell) > _LONG_CELL else ""
            shown.append(f'<{tag} class="{kind}">{swatch}{_words(cell)}</{tag}>')
        return f"<tr>{''.join(shown)}</tr>"

    caption = f"<caption>{_words(table.caption)}</caption>" if table.caption else ""
    rows = "\n".join(line(row, "td") for row in table.rows)
    head = line(table.headings, "th")
    return (
        f'<div class="table" tabindex="0"><table>{caption}<thead>{head}</thead>'
        f"\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _swatch(cell: str) -> str:
    try:
        colour = method_style(cell).colour
    except InvalidInput:
        return ""
    return f'<span class="swatch" style="background:{colour}"></span>'


def _words(text: str) -> str:
    """Escaped text; what stands in backticks becomes code."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text, quote=True))
