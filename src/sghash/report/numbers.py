"""Which cells of a table are numbers, and stand flush right."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[-+−]?[\d.,\u202f ]*\d[\d.,]*(?:e[-+]?\d+)?(?:\s*±\s*[\d.,e+-]+)?\s?[%×x]?")
_NOTHING = ("", "-", "–", "—")


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number, perhaps with its interval or a sign for parts or times."""
    return cell.strip() in _NOTHING or _NUMBER.fullmatch(cell.strip()) is not None
