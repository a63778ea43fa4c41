"""Conditions on metadata in text: `year >= 2000 and lang in ("de", "en") and not draft`.

The text is read as a Python expression of names, constants, comparisons, `in`, `and`, `or`, `not`
and nothing else; it is never run. A gap satisfies no comparison; `column == None` finds gaps.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.collection.columns import Column
from sghash.errors import InvalidInput

_Mask = NDArray[np.bool_]
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}


def parse(text: str, kinds: Mapping[str, str]) -> ast.expr:
    """Check a condition: its form, and that it names columns of `kinds` only."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise InvalidInput(
            f"cannot read the condition {text!r} ({reason}): write it as in year >= 2000"
        ) from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in kinds:
            known = ", ".join(sorted(kinds)) or "none"
            raise InvalidInput(f"there is no metadata column {node.id!r}: the columns are {known}")
    return tree


def mask_of(tree: ast.expr, columns: Mapping[str, Column], n: int) -> _Mask:
    """Rows of n that satisfy a condition; a column that these rows lack is all gaps."""
    if isinstance(tree, ast.BoolOp):
        masks = [mask_of(value, columns, n) for value in tree.values]
        both = isinstance(tree.op, ast.And)
        combined: _Mask = np.logical_and.reduce(masks) if both else np.logical_or.reduce(masks)
        return combined
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        return ~mask_of(tree.operand, columns, n)
    if isinstance(tree, ast.Name):
        return _compare(tree.id, ast.Eq(), True, columns, n)
    if isinstance(tree, ast.Compare):
        sides = [tree.left, *tree.comparators]
        masks = [
            _comparison(left, op, right, columns, n)
            for left, op, right in zip(sides[:-1], tree.ops, sides[1:], strict=True)
        ]
        chained: _Mask = np.logical_and.reduce(masks)
        return chained
    raise _refusal(tree)


def _comparison(
    left: ast.expr, op: ast.cmpop, right: ast.expr, columns: Mapping[str, Column], n: int
) -> _Mask:
    if isinstance(left, ast.Name):
        return _compare(left.id, op, _constant(right), columns, n)
    if isinstance(right, ast.Name) and not isinstance(op, (ast.In, ast.NotIn)):
        mirrored = _MIRRORED.get(type(op), type(op))()
        return _compare(right.id, mirrored, _constant(left), columns, n)
    raise _refusal(left)


def _compare(name: str, op: ast.cmpop, value: Any, columns: Mapping[str, Column], n: int) -> _Mask:
    column = columns.get(name)
    present = np.zeros(n, dtype=np.bool_) if column is None else column.present
    if value is None:
        if isinstance(op, (ast.Eq, ast.Is)):
            return ~present
        if isinstance(op, (ast.NotEq, ast.IsNot)):
            return present.copy()
    if column is None:
        return present
    values = column.as_array()
    try:
        if isinstance(op, (ast.In, ast.NotIn)):
            inside = (
                np.isin(values, list(value)) if column.kind != "text" else _among(values, value)
            )
            found = inside if isinstance(op, ast.In) else ~inside
        elif type(op) in _COMPARISONS:
            found = np.asarray(_COMPARISONS[type(op)](values, value), dtype=np.bool_)
        else:
            raise InvalidInput(f"cannot compare column {name!r} that way: use == != < <= > >= in")
    except TypeError as error:
        raise InvalidInput(
            f"column {name!r} holds {column.kind} values, they cannot be compared with {value!r}"
        ) from error
    return found & present


def _among(values: NDArray[Any], wanted: Any) -> _Mask:
    allowed = set(wanted)
    return np.fromiter((value in allowed for value in values), dtype=np.bool_, count=len(values))


def _constant(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise _refusal(node) from error


def _refusal(node: ast.expr) -> InvalidInput:
    return InvalidInput(
        f"a condition compares columns with constants and joins them by and, or, not; "
        f"it cannot hold {ast.unparse(node)!r}"
    )
