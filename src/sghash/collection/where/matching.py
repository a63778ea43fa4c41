"""Which values of a column satisfy a comparison, exactly as Python would decide one by one.

Numbers of different types are never made equal by rounding; texts are compared as their bytes,
which order as they do, a few at a time.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sghash.collection.storage.columns import Column
from sghash.collection.storage.texts import Texts

_Mask: TypeAlias = NDArray[np.bool_]
_Number: TypeAlias = int | float
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# A number that no column holds, on either side of all that they do.
_BEYOND = 1 << 2000
# Rows looked at, and bytes of them compared, at a time.
_ROWS = 1 << 16
_BYTES = 1 << 16
# Texts longer than this are few for their bytes: they are compared one by one.
_LONG = 64


def compare(column: Column, op: str, value: Any) -> _Mask:
    """Which values satisfy == != < <= > >= with a constant that fits their kind."""
    values = column.values
    if isinstance(values, Texts):
        if op in ("==", "!="):
            return among(column, [value]) ^ (op == "!=")
        compared, encoded = _OPERATORS[op], value.encode()
        found = (compared(text, encoded) for text in values.raw())
        return np.fromiter(found, dtype=np.bool_, count=len(values))
    if column.kind == "bool":
        # Two values only: compare these, then look up.
        answers = [bool(_OPERATORS[op](truth, value)) for truth in (False, True)]
        return np.where(values, answers[1], answers[0])
    exact = _compare_floats if column.kind == "float" else _compare_ints
    return exact(values, op, value)


def among(column: Column, wanted: Sequence[Any]) -> _Mask:
    """Which values equal one of these constants, which all fit their kind."""
    values = column.values
    if isinstance(values, Texts):
        return _texts_among(values, {text.encode() for text in wanted})
    if column.kind == "bool":
        return np.where(values, True in wanted, False in wanted)
    make = float if column.kind == "float" else int
    held = [make(number) for number in wanted if _is_held(number, column.kind)]
    return np.isin(values, np.asarray(held, dtype=values.dtype))


def _is_held(number: _Number, kind: str) -> bool:
    """Whether a column of this kind can hold exactly this number."""
    if kind == "float":
        return _nearest_float(number) == number
    return -(1 << 63) <= number < 1 << 63 and number == math.floor(number)


def _compare_ints(values: NDArray[np.int64], op: str, value: _Number) -> _Mask:
    if isinstance(value, float):
        if math.isinf(value):
            value = int(math.copysign(1, value)) * _BEYOND
        elif value.is_integer():
            value = int(value)
        elif op in ("==", "!="):
            value = _BEYOND
        else:  # below 2.5 is at most 2, above 2.5 is above 2
            op, value = "<=" if op in ("<", "<=") else ">", math.floor(value)
    if not -(1 << 63) <= value < 1 << 63:
        return np.full(len(values), _OPERATORS[op](0, value))
    return np.asarray(_OPERATORS[op](values, np.int64(value)))


def _compare_floats(values: NDArray[np.float64], op: str, value: _Number) -> _Mask:
    nearest = _nearest_float(value)
    if nearest != value:
        if op in ("==", "!="):
            return np.full(len(values), op == "!=")
        # No float lies between the number and the one nearest to it.
        if op in ("<", "<="):
            op = "<=" if nearest < value else "<"
        else:
            op = ">" if nearest < value else ">="
    return np.asarray(_OPERATORS[op](values, nearest))


def _nearest_float(number: _Number) -> float:
    try:
        return float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -sys.float_info.max


def _texts_among(texts: Texts, wanted: set[bytes]) -> _Mask:
    found = np.zeros(len(texts), dtype=np.bool_)
    by_length: dict[int, list[bytes]] = {}
    for value in wanted:
        by_length.setdefault(len(value), []).append(value)
    offsets = texts.check()
    for first in range(0, len(texts), _ROWS):
        edges = offsets[first : first + _ROWS + 1]
        lengths = np.diff(edges)
        for length, values in by_length.items():
            rows = np.flatnonzero(lengths == length)
            n_rows = max(1, _BYTES // max(1, length))
            for start in range(0, len(rows), n_rows):
                some = rows[start : start + n_rows]
                found[first + some] = _equal_any(texts.blob, edges[some], values)
    return found


def _equal_any(blob: NDArray[np.uint8], starts: NDArray[np.int64], values: list[bytes]) -> _Mask:
    """Whether the bytes from each start on are one of these values, all of one length."""
    length = len(values[0])
    if length == 0:
        return np.ones(len(starts), dtype=np.bool_)
    if length > _LONG:
        known, data = set(values), np.ascontiguousarray(blob).data
        equal = (bytes(data[start : start + length]) in known for start in starts.tolist())
        return np.fromiter(equal, dtype=np.bool_, count=len(starts))
    # Fixed-width bytes drop zeros at the end; all have one length here, so none is confused.
    there = blob[starts[:, None] + np.arange(length)].view(f"S{length}")[:, 0]
    return np.isin(there, np.asarray(values, dtype=f"S{length}"))
