"""Conditions on metadata in text: `year >= 2000 and lang in ("de", "en") and not draft`.

A condition compares columns with constants of their kind: text with text, numbers and truth values
with each other, as Python compares them (True is 1, NaN differs from all). A gap satisfies no
comparison; `column == None` finds gaps, and `not` turns any condition round, for gaps as well.
The form of conditions stands in `sghash.collection.where.grammar`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.collection.storage.columns import Column
from sghash.collection.where.grammar import Comparison, Joined, Name, Node, Not, read
from sghash.collection.where.matching import among, compare
from sghash.collection.where.words import hint
from sghash.errors import BadFile, InvalidInput

_Mask = NDArray[np.bool_]


def parse(text: str, kinds: Mapping[str, str]) -> Node:
    """Check a condition: its form, and that it compares columns of `kinds` with what fits them."""
    tree = read(text)
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Joined):
            waiting += reversed(node.parts)
        elif isinstance(node, Not):
            waiting.append(node.part)
        elif isinstance(node, Name):
            if _kind(node.column, kinds) != "bool":
                raise InvalidInput(
                    f"column {node.column!r} holds {kinds[node.column]} values, no truth values: "
                    f"compare it with a constant, or with None"
                )
        elif isinstance(node, Comparison):
            _check(node, _kind(node.column, kinds))
    return tree


def _kind(column: str, kinds: Mapping[str, str]) -> str:
    if column not in kinds:
        known = f"the columns are {', '.join(sorted(kinds))}" if kinds else "there are none yet"
        raise InvalidInput(f"there is no metadata column {column!r}{hint(column)}: {known}")
    return kinds[column]


def _check(node: Comparison, kind: str) -> None:
    """Refuse a constant that cannot be compared with values of this kind."""
    listed = node.op in ("in", "not in")
    if not listed and node.value is None and node.op in ("==", "!="):
        return
    for value in node.value if listed else [node.value]:
        if value is None:
            raise InvalidInput(
                f"None marks a gap and cannot be compared by {node.op}: "
                f"write {node.column} == None by itself"
            )
        if not _fits(value, kind):
            shown = repr(value) if len(str(value)) < 40 else f"{str(value)[:40]!r}..."
            raise InvalidInput(
                f"column {node.column!r} holds {kind} values, they cannot be compared with {shown}"
            )


def _fits(value: Any, kind: str) -> bool:
    return isinstance(value, str) == (kind == "text")


def mask_of(tree: Node, columns: Mapping[str, Column], n: int) -> _Mask:
    """Rows of n that satisfy a checked condition; a column that these rows lack is all gaps."""
    if isinstance(tree, Joined):
        mask = mask_of(tree.parts[0], columns, n)
        for part in tree.parts[1:]:
            if tree.op == "and":
                mask &= mask_of(part, columns, n)
            else:
                mask |= mask_of(part, columns, n)
        return mask
    if isinstance(tree, Not):
        return ~mask_of(tree.part, columns, n)
    if isinstance(tree, Name):
        tree = Comparison(tree.column, "==", True)
    assert isinstance(tree, Comparison)  # `parse` let nothing else through
    return _satisfying(tree, columns.get(tree.column), n)


def _satisfying(node: Comparison, column: Column | None, n: int) -> _Mask:
    present = np.zeros(n, dtype=np.bool_) if column is None else column.present
    if node.value is None:
        return ~present if node.op == "==" else present.copy()
    if column is None:
        return present
    listed = node.op in ("in", "not in")
    if not all(_fits(value, column.kind) for value in (node.value if listed else [node.value])):
        raise BadFile(
            f"stored metadata is damaged: column {node.column!r} has {column.kind} values in some "
            "rows and others elsewhere; restore it from a copy"
        )
    if not listed:
        return compare(column, node.op, node.value) & present
    inside = among(column, node.value)
    return (inside if node.op == "in" else ~inside) & present
