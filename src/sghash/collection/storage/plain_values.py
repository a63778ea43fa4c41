"""Values as people have them, as a column stores them: dates as ISO 8601 text, lists as JSON text.

Such texts sort as their dates do, so `day >= '2024-05-01'` asks what it says. Times with a zone are
brought to UTC first.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from sghash.errors import InvalidDtype
from sghash.frames import columns_of


def plain(name: str, value: Any) -> Any:
    """A value of a metadata column as an int, float, bool, str or None; others as they are."""
    if type(value) in (bool, int, float, str) or value is None:
        return value
    if type(value).__name__ == "NAType":  # what pandas calls missing, in columns of its own kinds
        return None
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(np.datetime_as_string(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (datetime.date, datetime.time)):
        return _iso(value)
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        return _json(name, [plain(name, item) for item in items])
    return value


def _iso(value: datetime.date | datetime.time) -> str | None:
    if isinstance(value, datetime.datetime):
        if value != value:  # what pandas calls NaT
            return None
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC)
    return value.isoformat()


def _json(name: str, items: list[Any]) -> str:
    try:
        return json.dumps(items, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidDtype(
            f"metadata column {name!r} holds a list of other things than plain values ({error}): "
            "give text, numbers or dates"
        ) from error


def mapping_of(metadata: Any) -> Any:
    """A table with named columns as a mapping of its columns; anything else as it is."""
    if isinstance(metadata, Mapping) or columns_of(metadata) is None:
        return metadata
    names = getattr(metadata, "column_names", None) or list(metadata.columns)
    return {name: _items_of(metadata[name]) for name in names}


def is_of_pandas(values: Any) -> bool:
    """Whether values are a column of pandas, in which NaN says that one is missing."""
    return type(values).__module__.partition(".")[0] == "pandas" and hasattr(values, "to_list")


def items_of_pandas(column: Any) -> list[Any]:
    """Its values, None where one is missing."""
    items = column.to_list()
    return [None if isinstance(item, float) and item != item else item for item in items]


def _items_of(column: Any) -> Any:
    if is_of_pandas(column):
        return items_of_pandas(column)
    to_list = getattr(column, "to_pylist", None) or column.to_list
    return to_list()
