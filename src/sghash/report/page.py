"""`Page`: what a report says, piece by piece; written as HTML or as Markdown."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from sghash.errors import InvalidInput
from sghash.files import write_atomically
from sghash.report import html, markdown
from sghash.report.pictures import on_paper, picture_bytes
from sghash.report.pieces import Code, Definition, Figure, Piece, Section, Table, Text, Verdict
from sghash.validation import check_choice

#: What a verdict may be: the claim holds, does not hold, or cannot be decided with this data.
VERDICTS = ("agrees", "differs", "open")


class Page:
    """One report: add pieces in reading order, then `save`.

    All text is taken literally (`<` stays `<`), but for words in `backticks`, which become code;
    a blank line parts paragraphs. Every method returns the page, so calls can be chained.

    Parameters
    ----------
    title : str
        Stands on top and in the browser's tab.
    summary : str
        One or two sentences below it.
    """

    def __init__(self, title: str, summary: str = "") -> None:
        if not title:
            raise InvalidInput("a page needs a title")
        self.title, self.summary = title, summary
        self.pieces: list[Piece] = []

    def section(self, title: str, text: str = "") -> Self:
        """Begin a section; all sections are listed on top of a long page."""
        self.pieces.append(Section(title))
        return self.text(text) if text else self

    def text(self, text: str) -> Self:
        """Add paragraphs."""
        self.pieces.append(Text(text))
        return self

    def code(self, text: str) -> Self:
        """Add commands or terminal output, as they are."""
        self.pieces.append(Code(text))
        return self

    def table(
        self, headings: Sequence[str], rows: Sequence[Sequence[object]], caption: str = ""
    ) -> Self:
        """Add a table; a cell in the first column that names a method shows its colour."""
        cells = [[str(cell) for cell in row] for row in rows]
        wrong = [row for row in cells if len(row) != len(headings)]
        if wrong or not headings:
            raise InvalidInput(f"every row of this table must have {len(headings)} cells")
        self.pieces.append(Table([str(h) for h in headings], cells, caption))
        return self

    def figure(self, figure: Any, caption: str, alt: str) -> Self:
        """Add a figure (Matplotlib's, or bytes of an SVG or PNG), or several that flow in a row.

        `caption` stands below; `alt` says in words what is to be seen.
        """
        if not alt:
            raise InvalidInput(
                "a figure needs alt: what is to be seen, for those who do not see it"
            )
        figures = figure if isinstance(figure, list | tuple) else [figure]
        if not figures:
            raise InvalidInput("give at least one figure")
        self.pieces.append(Figure([picture_bytes(one) for one in figures], caption, alt))
        return self

    def definition(self, term: str, meaning: str) -> Self:
        """Say what a word of the report means."""
        self.pieces.append(Definition(term, meaning))
        return self

    def verdict(self, claim: str, verdict: str, why: str) -> Self:
        """Say whether a `claim` "agrees", "differs" or stays "open", and why."""
        self.pieces.append(Verdict(claim, check_choice(verdict, VERDICTS, name="verdict"), why))
        return self

    def html(self) -> str:
        """The page as one HTML document that asks for nothing else."""
        return html.render(self.title, self.summary, self.pieces)

    def markdown(self, *, figures: str = "figures") -> str:
        """The same in Markdown; pictures are links into the folder `figures`, see `pictures`."""
        return markdown.render(self.title, self.summary, self.pieces, figures)

    def pictures(self) -> Mapping[str, bytes]:
        """File name -> content of every picture that `markdown` links to."""
        return markdown.pictures(self.pieces)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the HTML, whole or not at all; returns where it is."""
        target = Path(path)
        content = self.html().encode("utf-8")
        write_atomically(target, lambda stream: _write(stream, content))
        return target

    def save_markdown(self, path: str | os.PathLike[str], *, figures: str = "figures") -> Path:
        """Write the Markdown, and its pictures into the folder `figures` beside it."""
        target = Path(path)
        folder = target.parent / figures
        if self.pictures():
            folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.pictures().items():
            write_atomically(folder / name, lambda stream, data=content: _write(stream, data))  # type: ignore[misc]
        text = self.markdown(figures=figures).encode("utf-8")
        write_atomically(target, lambda stream: _write(stream, text))
        return target


def save_picture(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure (Matplotlib's, or bytes of an SVG or PNG) that is readable on any page.

    An SVG follows its reader's choice of light or dark.
    """
    target = Path(path)
    content = on_paper(picture_bytes(figure))
    write_atomically(target, lambda stream: _write(stream, content))
    return target


def _write(stream: Any, content: bytes) -> None:
    stream.write(content)
