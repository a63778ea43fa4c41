"""The one way to the terminal: whatever comes from files, names or hosts is made visible first.

A name or a text can hold codes that move the cursor, rename the window or fake other lines. Nothing
here prints such a code; JSON writes them as escapes anyway.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import click

MAX_SENTENCE = 600


def say(*lines: str, err: bool = False) -> None:
    """Print lines on stdout or stderr, each as one line whatever it holds."""
    for line in lines:
        click.echo(printable(line), err=err)


def show(
    result: Any,
    text: str | Sequence[str],
    *,
    as_json: bool,
    err: bool = False,
    styled: bool = False,
) -> None:
    """Print a result on stdout, or on stderr where stdout is full of data: as JSON, or as text.

    `text` is one line or a sequence of lines; `styled` is for pictures made of codes of our own.
    """
    if as_json:
        click.echo(json_text(result, indent=2), err=err)
    elif styled:
        click.echo(text if isinstance(text, str) else "\n".join(text), err=err)
    else:
        say(*([text] if isinstance(text, str) else text), err=err)


def json_text(value: Any, **options: Any) -> str:
    """JSON in printable ASCII."""
    # The one control character that JSON leaves as it is.
    return json.dumps(value, **options).replace("\x7f", "\\u007f")


def printable(text: str, *, keep: str = "") -> str:
    """The text with control characters, which could confuse a terminal, written out."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def shortened(text: str) -> str:
    """The text without its middle, if it is longer than anybody would read."""
    if len(text) <= MAX_SENTENCE:
        return text
    return f"{text[: MAX_SENTENCE // 2]} ... {text[-MAX_SENTENCE // 2 :]}"


class PrintableFormatter(logging.Formatter):
    """Log lines, and below them where something failed, without codes for the terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        """The way to an error, indented: none of its lines can pass for one of ours."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).split("\n"))
