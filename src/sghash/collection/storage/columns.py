"""Metadata: named columns of whole numbers, numbers, truth values or text, with gaps allowed.

None is a gap, and so is NaN in a column of pandas, which has no other. Dates are stored as text in
ISO 8601, lists as JSON text. Elsewhere NaN is a number like others, stored as it came: it equals
nothing, not even itself. No number is ever rounded: one that its column cannot hold exactly is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.storage.plain_values import (
    is_of_pandas,
    items_of_pandas,
    mapping_of,
    plain,
)
from sghash.collection.storage.texts import Texts, empty_texts, join_texts, texts_of
from sghash.errors import InvalidDtype, InvalidInput

#: Kind of column -> how its values are stored.
KINDS: dict[str, np.dtype[Any]] = {
    "int": np.dtype(np.int64),
    "float": np.dtype(np.float64),
    "bool": np.dtype(np.bool_),
    "text": np.dtype(object),
}
#: Words of conditions: no column may be called so.
RESERVED = frozenset({"and", "or", "not", "in", "is", "None", "True", "False"})


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

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Its arrays by the names they have in a file, where the column is called `name`."""
        values = self.values
        arrays: dict[str, NDArray[Any]] = {}
        if isinstance(values, Texts):
            arrays[f"{name}:offsets"], arrays[f"{name}:blob"] = values
        else:
            arrays[f"{name}:values"] = values
        if not self.present.all():
            arrays[f"{name}:present"] = self.present
        return arrays


def columns_of(metadata: Mapping[str, Any] | None, n: int) -> dict[str, Column]:
    """Check `metadata`, a mapping of column names to n values each; None is a gap."""
    if metadata is None:
        return {}
    metadata = mapping_of(metadata)
    if not isinstance(metadata, Mapping):
        raise InvalidDtype(
            "metadata must map column names to sequences of values, as in {'year': [1999, 2024]}, "
            f"got {type(metadata).__name__}"
        )
    columns = {}
    for name, values in metadata.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise InvalidInput(f"a metadata column must be named like a variable, got {name!r}")
        if name in RESERVED:
            raise InvalidInput(
                f"a metadata column must not be named {name!r}, a word of conditions: "
                "choose another name"
            )
        _check_length(name, values, n)
        columns[name] = _column(name, values)
    return columns


def filled_columns(metadata: Mapping[str, Any] | None, n: int) -> dict[str, Column]:
    """The same without columns of gaps alone, which do not say of what kind they will be."""
    return {name: own for name, own in columns_of(metadata, n).items() if own.present.any()}


def _check_length(name: str, values: Any, n: int) -> None:
    unordered = isinstance(values, (str, bytes, AbstractSet, Mapping))
    n_axes = getattr(values, "ndim", 1)
    if unordered or n_axes == 0 or not hasattr(values, "__len__"):
        raise InvalidDtype(
            f"metadata column {name!r} must be a sequence of values, got {type(values).__name__}"
        )
    if n_axes != 1:
        raise InvalidInput(
            f"metadata column {name!r} has {n_axes} dimensions: give one value per row, "
            "and one column for each further value"
        )
    if len(values) != n:
        raise InvalidInput(
            f"metadata column {name!r} has {len(values)} values for {n} rows: give one per row"
        )


def _column(name: str, values: Any) -> Column:
    if isinstance(values, np.ma.MaskedArray):
        values = values.tolist()  # what is masked becomes None, a gap
    if is_of_pandas(values):
        values = items_of_pandas(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return _column_of_array(name, values)
    items = [plain(name, value) for value in values]
    kind = _kind_of(name, items)
    present = np.fromiter((item is not None for item in items), dtype=np.bool_, count=len(items))
    if kind == "text":
        # None and "" are both stored as an empty text; `present` tells them apart.
        return Column(
            kind, texts_of((v or "" for v in items), f"metadata column {name!r}"), present
        )
    if kind == "float":
        for item in items:
            if isinstance(item, int) and not _fits_a_float(item):
                raise _inexact(name, item)
    try:
        stored = np.asarray([0 if item is None else item for item in items], dtype=KINDS[kind])
    except OverflowError as error:
        raise InvalidInput(f"metadata column {name!r} holds numbers beyond int64") from error
    return Column(kind, stored, present)


def _column_of_array(name: str, values: NDArray[Any]) -> Column:
    kind = {"b": "bool", "i": "int", "u": "int", "f": "float"}[values.dtype.kind]
    if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(np.int64).max:
        raise InvalidInput(f"metadata column {name!r} holds numbers beyond int64")
    if values.dtype.itemsize > 8:
        raise InvalidDtype(
            f"metadata column {name!r} holds {values.dtype}: numbers are stored as float64, "
            "give them as that"
        )
    stored = np.ascontiguousarray(values, dtype=KINDS[kind])
    return Column(kind, stored, np.ones(len(values), dtype=np.bool_))


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


def _fits_a_float(number: int) -> bool:
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def _inexact(name: str, number: int) -> InvalidInput:
    shown = str(number) if abs(number) < 10**40 else f"a number of {number.bit_length()} bits"
    return InvalidInput(
        f"metadata column {name!r} holds numbers with a fraction (float64), which cannot hold "
        f"{shown} exactly: keep large whole numbers in a column of their own, or as text"
    )


def gaps(kind: str, n: int) -> Column:
    """A column without any value."""
    values = empty_texts(n) if kind == "text" else np.zeros(n, dtype=KINDS[kind])
    return Column(kind, values, np.zeros(n, dtype=np.bool_))


def fit_kinds(columns: Mapping[str, Column], kinds: Mapping[str, str]) -> dict[str, Column]:
    """Refuse columns of another kind than before; numbers may be whole, or all of them be whole."""
    fitted = dict(columns)
    for name, column in columns.items():
        before = kinds.get(name, column.kind)
        if before == column.kind:
            continue
        if not column.present.any():
            fitted[name] = gaps(before, len(column.present))
        elif before == "float" and column.kind == "int":
            fitted[name] = _as_floats(name, column)
        elif before == "int" and column.kind == "float" and _are_whole(column):
            # Tables make whole numbers with gaps into floats.
            whole = np.where(column.present, np.asarray(column.values), 0.0)
            fitted[name] = Column("int", whole.astype(np.int64), column.present)
        else:
            raise InvalidDtype(
                f"metadata column {name!r} holds {before} values, and these are {column.kind}: "
                "keep one kind per column"
            )
    return fitted


def _are_whole(column: Column) -> bool:
    values = np.asarray(column.values)[column.present]
    # Beyond 2**53 a float may stand for several whole numbers.
    return bool(np.all((np.abs(values) <= 2.0**53) & (values == np.rint(values))))


def _as_floats(name: str, column: Column) -> Column:
    whole = np.asarray(column.values)
    floats = whole.astype(np.float64)
    # Rounding may lead to 2**63, which is no int64: never equal, and not to be turned back.
    inside = floats < 2.0**63
    exact = inside & (np.where(inside, floats, 0).astype(np.int64) == whole)
    if not exact.all():
        raise _inexact(name, int(whole[np.argmin(exact)]))
    return Column("float", floats, column.present)


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
