"""Pieces as Markdown, for a repository's own pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sghash.report.numbers import is_number
from sghash.report.pictures import is_png, on_paper
from sghash.report.pieces import Code, Definition, Figure, Piece, Section, Table, Text, Verdict


def render(title: str, summary: str, pieces: Sequence[Piece], folder: str) -> str:
    """The whole page; pictures are links into `folder`."""
    parts = [f"# {_text(title)}", *([_text(summary)] if summary else [])]
    names = iter(_names(pieces))
    parts += [_piece(piece, folder, names) for piece in pieces]
    return "\n\n".join(parts) + "\n"


def pictures(pieces: Sequence[Piece]) -> dict[str, bytes]:
    """File name -> content of every picture."""
    shown = [picture for piece in pieces if isinstance(piece, Figure) for picture in piece.pictures]
    return dict(zip(_names(pieces), map(on_paper, shown), strict=True))


def _names(pieces: Sequence[Piece]) -> list[str]:
    """A file name per picture: by its section, numbered."""
    names: list[str] = []
    section = "page"
    for piece in pieces:
        if isinstance(piece, Section):
            section = re.sub(r"[^a-z0-9]+", "-", piece.title.lower()).strip("-")[:48] or "section"
        elif isinstance(piece, Figure):
            for picture in piece.pictures:
                number = 1 + sum(re.sub(r"-\d+\.\w+$", "", name) == section for name in names)
                names.append(f"{section}-{number}.{'png' if is_png(picture) else 'svg'}")
    return names


def _piece(piece: Piece, folder: str, names: Iterator[str]) -> str:
    if isinstance(piece, Section):
        return f"## {_text(piece.title)}"
    if isinstance(piece, Text):
        return _text(piece.text)
    if isinstance(piece, Code):
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", piece.text)), default=0))
        return f"{fence}\n{piece.text.rstrip()}\n{fence}"
    if isinstance(piece, Table):
        return _table(piece)
    if isinstance(piece, Figure):
        alt = _text(piece.alt).replace("]", r"\]").replace("\n", " ")
        links = [f"![{alt}]({folder}/{next(names)})" for _ in piece.pictures]
        return "\n".join(links) + (f"\n\n*{_text(piece.caption)}*" if piece.caption else "")
    if isinstance(piece, Definition):
        return f"- **{_text(piece.term)}**: {_text(piece.meaning)}"
    if isinstance(piece, Verdict):
        return f"> **{piece.verdict}**: {_line(piece.claim)}\n>\n> {_line(piece.why)}"
    raise TypeError(type(piece))


def _table(table: Table) -> str:
    numeric = [
        all(is_number(row[column]) for row in table.rows) for column in range(len(table.headings))
    ]
    lines = [table.headings, *table.rows]
    rule = ["---:" if right else "---" for right in numeric]
    text = ["| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines]
    text.insert(1, f"|{'|'.join(rule)}|")
    return "\n".join(text) + (f"\n\n*{_text(table.caption)}*" if table.caption else "")


def _cell(text: str) -> str:
    return _line(text).replace("|", r"\|")


def _line(text: str) -> str:
    return " ".join(_text(text).split())


def _text(text: str) -> str:
    """Escape what Markdown would take for markup; what stands in backticks is left alone."""
    parts = re.split(r"(`[^`\n]+`)", text)
    return "".join(
        part if part.startswith("`") and len(part) > 1 else re.sub(r"([\\`*_<\[\]])", r"\\\1", part)
        for part in parts
    )
