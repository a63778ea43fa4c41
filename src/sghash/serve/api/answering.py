"""Answers out: JSON, one JSON object per row (NDJSON), `.npy` and Arrow, as `Accept` says."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.neighbors import padding_distance
from sghash.serve.api import arrow
from sghash.serve.api.reading import ARROW, JSON, NDJSON, NPY
from sghash.serve.refusals import Refusal

#: Whole numbers beyond this are no numbers in JavaScript: they are written as texts.
MAX_EXACT = 2**53
# The distance beside id -1: no Hamming distance is as large.
_PADDING = int(padding_distance(np.dtype(np.int32)))
_ANY = ("*/*", "application/*", "")
KINDS = (JSON, NDJSON, NPY, ARROW)


@dataclass(frozen=True)
class Answer:
    """Columns with a value per row, and facts about all of them.

    A column is an array, with codes as uint8, or a list. A mapping holds columns of its own. Those
    named in `numbers` are what a `.npy` of it holds.
    """

    columns: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    numbers: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return self.facts | {name: _plain(column) for name, column in self.columns.items()}

    def render(self, kind: str) -> bytes:
        """The bytes of an answer of this kind."""
        if kind == JSON:
            return json_bytes(self.plain())
        if kind == NDJSON:
            plain = {name: _rows(c) for name, c in self.columns.items() if not _is_nothing(c)}
            rows = zip(*plain.values(), strict=True)
            return b"".join(json_bytes(dict(zip(plain, row, strict=True))) + b"\n" for row in rows)
        if kind == ARROW:
            return arrow.write_table(_flat(self.columns))
        return _npy({name: self.columns[name] for name in self.numbers})


def negotiate(accept: str, *, numbers: bool = True, tables: bool = True) -> str:
    """The kind of answer that is wanted most of those there are."""
    kinds = [kind for kind in KINDS if kind == JSON or (tables and (numbers or kind != NPY))]
    if accept in _ANY or accept == JSON:
        return JSON
    best, kind = 0.0, ""
    for part in accept.split(",")[:32]:
        name, *parameters = (text.strip().lower() for text in part.split(";"))
        weight = _weight(parameters)
        name = JSON if name in _ANY else name
        if weight > best and name in kinds:
            best, kind = weight, name
    if not kind:
        raise Refusal(406, f"there is no answer of that kind: ask for {', '.join(kinds)}")
    return kind


def _weight(parameters: Iterable[str]) -> float:
    for text in parameters:
        if text.startswith("q="):
            try:
                weight = float(text[2:])
            except ValueError:
                return 0.0
            return weight if 0 <= weight <= 1 else 0.0
    return 1.0


def json_bytes(value: Any) -> bytes:
    """JSON as it goes over the wire."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _plain(column: Any) -> Any:
    if isinstance(column, Mapping):
        return {name: _plain(inner) for name, inner in column.items()}
    return column if column is None else _rows(column)


def _rows(column: Any) -> list[Any]:
    """The values of a column, row by row, as JSON can hold them."""
    if isinstance(column, Mapping):
        plain = [_rows(inner) for inner in column.values()]
        return [dict(zip(column, row, strict=True)) for row in zip(*plain, strict=True)]
    if not isinstance(column, np.ndarray):
        return [_value(value) for value in column]
    if column.dtype == np.uint8 and column.ndim == 2:
        text, width = column.tobytes().hex(), 2 * column.shape[1]
        return [text[i * width : (i + 1) * width] for i in range(len(column))]
    return plain_numbers(column)


def plain_numbers(array: NDArray[Any]) -> list[Any]:
    """Numbers as JSON can hold them: None for what is not finite, texts for large ids."""
    if array.dtype == np.int64 and array.size and int(array.max()) > MAX_EXACT:
        return _changed(array, lambda number: str(number) if number > MAX_EXACT else number)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return _changed(array, lambda number: number if math.isfinite(number) else None)
    if array.dtype == np.int32 and array.size and int(array.max()) == _PADDING:
        return _changed(array, lambda number: None if number == _PADDING else number)
    listed: list[Any] = array.tolist()
    return listed


def _changed(array: NDArray[Any], change: Any) -> list[Any]:
    if array.ndim == 1:
        return [change(number) for number in array.tolist()]
    return [[change(number) for number in row] for row in array.tolist()]


def _value(value: Any) -> Any:
    """One value of metadata, or a list of them; what JSON has no number for is a text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if type(value) is int and abs(value) > MAX_EXACT:
        return str(value)
    if isinstance(value, list):
        return [_value(inner) for inner in value]
    return value


def _flat(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of columns beside the others; a name that is taken gets one of its own."""
    flat = {name: c for name, c in columns.items() if c is not None and not _is_group(c)}
    for group in filter(_is_group, columns.values()):
        for name, column in group.items():
            flat[name if name not in flat else f"metadata_{name}"] = column
    return flat


def _is_group(column: Any) -> bool:
    return isinstance(column, Mapping)


def _is_nothing(column: Any) -> bool:
    """Whether a column has no values for any row, as the metadata of rows that have none."""
    return column is None or (_is_group(column) and not column)


def _npy(arrays: dict[str, NDArray[Any]]) -> bytes:
    """One array as it is; several as one array with a field for each."""
    out = io.BytesIO()
    if len(arrays) == 1:
        (array,) = arrays.values()
    else:
        shape = next(iter(arrays.values())).shape
        array = np.empty(shape, dtype=[(name, a.dtype) for name, a in arrays.items()])
        for name, values in arrays.items():
            array[name] = values
    np.lib.format.write_array(out, np.ascontiguousarray(array), allow_pickle=False)
    return out.getvalue()
