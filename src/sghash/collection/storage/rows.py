"""Rows of a collection, in memory or mapped: ids, codes, and what was given with them.

Rows stand in rising order of their ids, so that the row order of a kernel is the id order of the
answer, and an id is found by bisection.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.storage.columns import KINDS, Column, join_columns
from sghash.collection.storage.texts import KeyTable, Texts, empty_texts, join_texts, key_table
from sghash.errors import BadFile
from sghash.validation import MAX_ID, Codes, Ids, Vectors, n_bytes_of

if TYPE_CHECKING:
    from sghash.kernels.tables.search import Terms


# Held while terms are computed, of any rows: two threads must not do the same work at once.
_terms_guard = threading.Lock()


def _renew_guard() -> None:
    global _terms_guard
    _terms_guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    # A fork may happen while another thread holds it: in the child nobody would free it.
    os.register_at_fork(after_in_child=_renew_guard)


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
    _table: KeyTable | None = field(default=None, init=False, repr=False)
    _terms: Terms | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def keys_by_hash(self) -> KeyTable | None:
        """Where each key is; kept in segments, computed once for rows in memory."""
        if self.keys is None or self.stored_keys is not None:
            return self.stored_keys
        if self._table is None:
            object.__setattr__(self, "_table", key_table(self.keys))
        return self._table

    def terms(self, gram: Vectors, threads: int) -> Terms:
        """What each code adds to scores by itself, a byte per row; computed once, kept in memory.

        `gram` are the tables of the collection's decoder, the same at every call.
        """
        with _terms_guard:
            if self._terms is None:
                from sghash.kernels.tables.search import make_terms
                from sghash.kernels.tables.terms import code_terms

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


class Shape(NamedTuple):
    """What all rows of a collection have in common, as its manifest says."""

    n_bits: int
    width: int
    keep_vectors: str | None


def checked_rows(
    path: Path, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], shape: Shape
) -> Rows:
    """Put together what `describe_rows` and `rows_to_arrays` took apart, without copying.

    Types and shapes are compared with what they must be before anything relies on them; what the
    arrays hold is not read.
    """
    try:
        n, first, kinds = about["n"], about["first"], dict(about["kinds"])
        if any(type(number) is not int for number in (n, first)):
            raise ValueError("its numbers are not valid")
        if not (0 <= n <= MAX_ID and first >= 0 and first + n <= MAX_ID + 1):
            raise ValueError("its numbers are not valid")
        codes = _array(arrays, "codes", "u1", (n, n_bytes_of(shape.n_bits)))
        ids = _array(arrays, "ids", "i8", (n,)) if "ids" in arrays else None
        vectors = None
        if shape.keep_vectors is not None:
            vectors = _array(arrays, "vectors", shape.keep_vectors, (n, shape.width))
        keys = _texts(arrays, "keys.", n) if "keys.offsets" in arrays else None
        stored = None
        if "keys.hashes" in arrays:
            n_keys = arrays["keys.hashes"].shape[0]
            stored = KeyTable(
                _array(arrays, "keys.hashes", "u8", (n_keys,)),
                _array(arrays, "keys.rows", "i8", (n_keys,)),
            )
        columns = {name: _column(arrays, name, kind, n) for name, kind in kinds.items()}
        _refuse_unknown(arrays, columns, shape)
    except (KeyError, ValueError, TypeError) as error:
        raise BadFile(f"{path} is damaged ({error}): restore it from a copy") from error
    return Rows(first, ids, codes, vectors, keys, columns, stored)


def _refuse_unknown(
    arrays: Mapping[str, NDArray[Any]], columns: Mapping[str, Column], shape: Shape
) -> None:
    """Refuse arrays that nothing refers to: something that did refer to them was lost."""
    known = {"codes", "ids", "keys.offsets", "keys.blob", "keys.hashes", "keys.rows"}
    known |= {"vectors"} if shape.keep_vectors is not None else set()
    for name in arrays:
        if name not in known and name.rpartition(":")[0] not in columns:
            raise ValueError(f"its {name} belong to nothing")


def _array(
    arrays: Mapping[str, NDArray[Any]], name: str, kind: str, shape: tuple[int, ...]
) -> NDArray[Any]:
    array = arrays[name]
    if array.dtype != np.dtype(kind).newbyteorder("<") or array.shape != shape:
        raise ValueError(f"its {name} are {array.dtype} {array.shape}, not {kind} {shape}")
    return array


def _texts(arrays: Mapping[str, NDArray[Any]], prefix: str, n: int) -> Texts:
    blob = arrays[f"{prefix}blob"]
    return Texts(
        _array(arrays, f"{prefix}offsets", "i8", (n + 1,)),
        _array(arrays, f"{prefix}blob", "u1", (blob.size,)),
    )


def _column(arrays: Mapping[str, NDArray[Any]], name: str, kind: str, n: int) -> Column:
    if kind == "text":
        values: Any = _texts(arrays, f"{name}:", n)
    else:
        values = _array(arrays, f"{name}:values", KINDS[kind].str, (n,))
    present = np.broadcast_to(np.True_, (n,))
    if f"{name}:present" in arrays:
        present = _array(arrays, f"{name}:present", "?", (n,))
    return Column(kind, values, present)
