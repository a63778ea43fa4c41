"""What a page is made of, before anybody decides how it looks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A heading that begins a part."""

    title: str


@dataclass(frozen=True)
class Text:
    """Paragraphs, parted by blank lines; words in backticks are code."""

    text: str


@dataclass(frozen=True)
class Code:
    """Lines shown as they are."""

    text: str


@dataclass(frozen=True)
class Table:
    """Headings, and rows of as many cells."""

    headings: list[str]
    rows: list[list[str]]
    caption: str


@dataclass(frozen=True)
class Figure:
    """Pictures (bytes of SVG or PNG) under one caption, and what they show in words."""

    pictures: list[bytes]
    caption: str
    alt: str


@dataclass(frozen=True)
class Definition:
    """A word and its meaning."""

    term: str
    meaning: str


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it "agrees", "differs" or stays "open", and why."""

    claim: str
    verdict: str
    why: str


Piece = Section | Text | Code | Table | Figure | Definition | Verdict
