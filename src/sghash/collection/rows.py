"""Rows of a collection, in memory or mapped: ids, codes, and what was given with them.

Rows stand in rising order of their ids, so that the row order of a kernel is the id order of the
answer, and an id is found by bisection.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sghash.collection.columns import Column, join_columns
from sghash.collection.texts import KeyTable, Texts, empty_texts, join_texts, key_table
from sghash.validation import Codes, Ids, Vectors

if TYPE_CHECKING:
    from sghash.kernels.asymmetric import Terms


@dataclass(frozen=True, eq=False)
class Rows:
    """`ids` is None where they are `first`, `first` + 1, ...; `vectors` and `keys` may be None."""

    first: int
    ids: Ids | None
    codes: Codes
    vectors: NDArray[Any] | None = None
    keys: Texts | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    stored_keys: KeyTable | None = None
    _terms: Terms | None = field(default=None, init=False, repr=False)
    _terms_guard: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def keys_by_hash(self) -> KeyTable | None:
        """Where each key is; kept in segments, computed for rows in memory."""
        if self.keys is None or self.stored_keys is not None:
            return self.stored_keys
        return key_table(self.keys)

    def terms(self, gram: Vectors, threads: int) -> Terms:
        """What each code adds to scores by itself, a byte per row; computed once, kept in memory.

        `gram` are the tables of the collection's decoder, the same at every call.
        """
        with self._terms_guard:
            if self._terms is None:
                from sghash.kernels.asymmetric import make_terms
                from sghash.kernels.code_terms import code_terms

                values = code_terms(self.codes, gram, threads=threads)
                object.__setattr__(self, "_terms", make_terms(values, gram))
            assert self._terms is not None
            return self._terms

    def ids_at(self, rows: NDArray[np.int64] | slice) -> Ids:
        """Ids of these rows."""
        if self.ids is not None:
            return np.asarray(self.ids[rows], dtype=np.int64)
        if isinstance(rows, slice):
            return np.arange(self.first, self.first + len(self), dtype=np.int64)[rows]
        return rows + self.first

    def find(self, ids: Ids) -> NDArray[np.int64]:
        """Row of each id, -1 where it is not here."""
        n = len(self)
        if self.ids is None:
            rows = ids - self.first
            return np.where((rows >= 0) & (rows < n), rows, -1)
        if n == 0:
            return np.full(len(ids), -1, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.ids, ids), n - 1)
        return np.where(self.ids[rows] == ids, rows, -1)

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """Return these rows, which must rise, as rows of their own in memory."""
        return make_rows(
            self.ids_at(rows),
            self.codes[rows],
            vectors=None if self.vectors is None else self.vectors[rows],
            keys=None if self.keys is None else self.keys.take(rows),
            columns={name: column.take(rows) for name, column in self.columns.items()},
        )


def make_rows(
    ids: Ids,
    codes: Codes,
    *,
    vectors: NDArray[Any] | None = None,
    keys: Texts | None = None,
    columns: Mapping[str, Column] | None = None,
) -> Rows:
    """Rows in any order of ids, all different, as `Rows`; ids without gaps take no memory."""
    n = len(ids)
    if n and np.any(ids[1:] < ids[:-1]):
        order = np.argsort(ids, kind="stable")
        ids, codes = ids[order], codes[order]
        vectors = None if vectors is None else vectors[order]
        keys = None if keys is None else keys.take(order)
        columns = {name: column.take(order) for name, column in (columns or {}).items()}
    first = int(ids[0]) if n else 0
    without_gaps = n == 0 or int(ids[-1]) - first == n - 1
    return Rows(first, None if without_gaps else ids, codes, vectors, keys, columns or {})


def join_rows(parts: Sequence[Rows]) -> Rows:
    """All rows of several parts in memory, which hold different ids."""
    everything = slice(None)
    keys = None
    if any(part.keys is not None for part in parts):
        keys = join_texts([part.keys or empty_texts(len(part)) for part in parts])
    vectors = [part.vectors for part in parts if part.vectors is not None]
    return make_rows(
        np.concatenate([part.ids_at(everything) for part in parts]),
        np.concatenate([part.codes for part in parts]),
        vectors=np.concatenate(vectors) if vectors else None,
        keys=keys,
        columns=join_columns([(len(part), part.columns) for part in parts]),
    )


def rows_to_arrays(rows: Rows) -> dict[str, NDArray[Any]]:
    """Name every array of `rows`, for a segment or a record of the log."""
    arrays: dict[str, NDArray[Any]] = {"codes": rows.codes}
    if rows.ids is not None:
        arrays["ids"] = rows.ids
    if rows.vectors is not None:
        arrays["vectors"] = rows.vectors
    if rows.keys is not None:
        arrays["keys.offsets"], arrays["keys.blob"] = rows.keys
    for name, column in rows.columns.items():
        values = column.values
        if isinstance(values, Texts):
            arrays[f"{name}:offsets"], arrays[f"{name}:blob"] = values
        else:
            arrays[f"{name}:values"] = values
        if not column.present.all():
            arrays[f"{name}:present"] = column.present
    return arrays


def describe_rows(rows: Rows) -> dict[str, Any]:
    """What must be known beside the arrays."""
    kinds = {name: column.kind for name, column in rows.columns.items()}
    return {"n": len(rows), "first": rows.first, "kinds": kinds}


def rows_from_arrays(about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Rows:
    """Put together what `describe_rows` and `rows_to_arrays` took apart, without copying."""
    columns = {}
    for name, kind in about["kinds"].items():
        values: Any = (
            Texts(arrays[f"{name}:offsets"], arrays[f"{name}:blob"])
            if kind == "text"
            else arrays[f"{name}:values"]
        )
        present = arrays.get(f"{name}:present")
        if present is None:
            present = np.broadcast_to(np.True_, (about["n"],))
        columns[name] = Column(kind, values, present)
    keys = stored = None
    if "keys.offsets" in arrays:
        keys = Texts(arrays["keys.offsets"], arrays["keys.blob"])
    if "keys.hashes" in arrays:
        stored = KeyTable(arrays["keys.hashes"], arrays["keys.rows"])
    return Rows(
        about["first"], arrays.get("ids"), arrays["codes"], arrays.get("vectors"), keys,
        columns, stored,
    )  # fmt: skip
