"""Which columns of a table with named columns are the vectors.

A column of lists holds one vector per row. Else there is one column per dimension: those that a key
names, those that are numbered (d0, d1, ...), or all, if nothing but coordinates is there.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sghash.errors import InvalidInput
from sghash.frames import is_id

#: Tried in this order where no key is given and several columns could be it.
USUAL_KEYS = ("embedding", "embeddings", "vector", "vectors", "emb", "values")
_NUMBERED = re.compile(r"(.*?)(\d+)", re.DOTALL)
#: So many numbered columns of floats beside metadata are a vector.
LEAST_NUMBERED = 8
_MAX_LISTED = 20


class Column(NamedTuple):
    """A column: `kind` is "list" (of numbers), "float", "int" or "other"."""

    name: str
    kind: str


class Chosen(NamedTuple):
    """One column of lists, or one column per dimension."""

    names: tuple[str, ...]
    is_list: bool


def choose(path: Path | str, columns: Sequence[Column], key: str | None) -> Chosen:
    """Choose the columns of the vectors; where that is not clear, say which there are."""
    lists = [column.name for column in columns if column.kind == "list"]
    numbers = [column.name for column in columns if column.kind in ("float", "int")]
    if key is not None:
        if key in lists:
            return Chosen((key,), True)
        matched = [name for name in numbers if fnmatch.fnmatchcase(name, key)]
        if not matched:
            raise InvalidInput(
                f"{path} has no column {key!r} of numbers or of lists of numbers, it has "
                f"{_listed(columns)}: choose one as key, or several as in 'd*'"
            )
        return Chosen(_in_order(matched), False)
    usual = [name for name in USUAL_KEYS if name in lists]
    if len(lists) == 1 or usual:
        return Chosen(((usual or lists)[0],), True)
    if lists:
        raise InvalidInput(
            f"{path} has no single column of lists of numbers, it has {', '.join(lists)}: give one "
            "as key"
        )
    return _per_dimension(path, columns, numbers)


def _per_dimension(path: Path | str, columns: Sequence[Column], numbers: list[str]) -> Chosen:
    kinds = {column.kind for column in columns}
    if len(kinds) == 1 and not any(is_id(name) for name in numbers) and numbers:
        return Chosen(_in_order(numbers), False)
    numbered: dict[str, list[str]] = {}
    for column in columns:
        match = _NUMBERED.fullmatch(column.name)
        if match and column.kind == "float":
            numbered.setdefault(match[1], []).append(column.name)
    groups = [names for names in numbered.values() if len(names) > 1]
    if len(groups) == 1:
        return Chosen(_in_order(groups[0]), False)
    raise InvalidInput(
        f"{path} has columns that are no coordinates of vectors, it has {_listed(columns)}: give "
        "the column of lists as key, or a pattern for one column per dimension, as in 'd*'"
    )


def is_coordinate(column: Column, columns: Sequence[Column]) -> bool:
    """Whether a column is one of many numbered coordinates of a vector, and no metadata."""
    match = _NUMBERED.fullmatch(column.name)
    if column.kind != "float" or match is None:
        return False
    stems = [_NUMBERED.fullmatch(other.name) for other in columns if other.kind == "float"]
    return sum(1 for other in stems if other and other[1] == match[1]) >= LEAST_NUMBERED


def _in_order(names: Sequence[str]) -> tuple[str, ...]:
    """Numbered columns by their numbers (d2 before d10), others as they stand."""
    matches = [_NUMBERED.fullmatch(name) for name in names]
    if all(matches) and len({match[1] for match in matches if match}) == 1:
        return tuple(sorted(names, key=lambda name: int(re.findall(r"\d+", name)[-1])))
    return tuple(names)


def _listed(columns: Sequence[Column]) -> str:
    shown = [f"{column.name} ({column.kind})" for column in columns[:_MAX_LISTED]]
    more = f" and {len(columns) - _MAX_LISTED} more" if len(columns) > _MAX_LISTED else ""
    return (", ".join(shown) or "none") + more
