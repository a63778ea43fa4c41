"""Metadata: named columns of whole numbers, numbers, truth values or text, with gaps allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.texts import Texts, empty_texts, join_texts, texts_of
from sghash.errors import InvalidDtype, InvalidInput

#: Kind of column -> how its values are stored.
KINDS: dict[str, np.dtype[Any]] = {
    "int": np.dtype(np.int64),
    "float": np.dtype(np.float64),
    "bool": np.dtype(np.bool_),
    "text": np.dtype(object),
}


class Column(NamedTuple):
    """Values of `kind` for n rows, and where there is one; a gap holds zero or an empty text."""

    kind: str
    values: NDArray[Any] | Texts
    present: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> Column:
        """Return the values of these rows, in that order."""
        values = self.values
        chosen = values.take(rows) if isinstance(values, Texts) else values[rows]
        return Column(self.kind, chosen, self.present[rows])

    def at(self, row: int) -> Any:
        """One value as a plain Python object, None for a gap."""
        if not self.present[row]:
            return None
        values = self.values
        return values.at(row) if isinstance(values, Texts) else values[row].item()

    def as_array(self) -> NDArray[Any]:
        """All values for comparing: numbers, or strings as objects."""
        if isinstance(self.values, Texts):
            return np.asarray(self.values.to_list(), dtype=object)
        return self.values


def columns_of(metadata: Mapping[str, Any] | None, n: int) -> dict[str, Column]:
    """Check `metadata`, a mapping of column names to n values each; None is a gap."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidDtype(
            f"metadata must map column names to sequences of values, got {type(metadata).__name__}"
        )
    columns = {}
    for name, values in metadata.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise InvalidInput(f"a metadata column must be named like a variable, got {name!r}")
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            raise InvalidDtype(f"metadata column {name!r} must be a sequence of values")
        if len(values) != n:
            raise InvalidInput(f"metadata column {name!r} has {len(values)} values for {n} rows")
        columns[name] = _column(name, values)
    return columns


def _column(name: str, values: Any) -> Column:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        kind = {"b": "bool", "i": "int", "u": "int", "f": "float"}[values.dtype.kind]
        if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(np.int64).max:
            raise InvalidInput(f"metadata column {name!r} holds numbers beyond int64")
        stored = np.ascontiguousarray(values.reshape(len(values)), dtype=KINDS[kind])
        return Column(kind, stored, np.ones(len(values), dtype=np.bool_))
    items = [v.item() if isinstance(v, np.generic) else v for v in values]
    kind = _kind_of(name, items)
    present = np.asarray([item is not None for item in items], dtype=np.bool_)
    if kind == "text":
        return Column(kind, texts_of([item or "" for item in items]), present)
    try:
        stored = np.asarray([item or 0 for item in items], dtype=KINDS[kind])
    except OverflowError as error:
        raise InvalidInput(f"metadata column {name!r} holds numbers beyond int64") from error
    return Column(kind, stored, present)


def _kind_of(name: str, items: Sequence[Any]) -> str:
    kinds = {type(item) for item in items if item is not None}
    for kind, allowed in (
        ("bool", {bool}),
        ("int", {int}),
        ("float", {int, float}),
        ("text", {str}),
    ):
        if kinds <= allowed:
            return kind if kinds else "text"
    listed = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise InvalidDtype(
        f"metadata column {name!r} holds {listed}: give whole numbers, numbers, "
        "truth values or text, one kind per column"
    )


def gaps(kind: str, n: int) -> Column:
    """A column without any value."""
    values = empty_texts(n) if kind == "text" else np.zeros(n, dtype=KINDS[kind])
    return Column(kind, values, np.zeros(n, dtype=np.bool_))


def fit_kinds(columns: Mapping[str, Column], kinds: Mapping[str, str]) -> dict[str, Column]:
    """Refuse columns of another kind than before; whole numbers may enter a column of numbers."""
    fitted = dict(columns)
    for name, column in columns.items():
        before = kinds.get(name, column.kind)
        if before == column.kind:
            continue
        if not column.present.any():
            fitted[name] = gaps(before, len(column.present))
        elif before == "float" and column.kind == "int":
            fitted[name] = Column("float", np.asarray(column.values, np.float64), column.present)
        else:
            raise InvalidDtype(
                f"metadata column {name!r} holds {before} values, {column.kind} came: "
                "keep one kind per column"
            )
    return fitted


def join_columns(parts: Sequence[tuple[int, Mapping[str, Column]]]) -> dict[str, Column]:
    """Columns of parts, each with its number of rows, one after the other; absent ones are gaps."""
    kinds = {name: column.kind for _, columns in parts for name, column in columns.items()}
    joined = {}
    for name, kind in kinds.items():
        pieces = [columns.get(name) or gaps(kind, n) for n, columns in parts]
        present = np.concatenate([piece.present for piece in pieces])
        if kind == "text":
            values: Any = join_texts([p.values for p in pieces if isinstance(p.values, Texts)])
        else:
            values = np.concatenate([piece.values for piece in pieces])
        joined[name] = Column(kind, values, present)
    return joined
