"""Rows of a collection, in memory or mapped: ids, codes, and what was given with them.

Rows stand in rising order of their ids, so that the row order of a kernel is the id order of the
answer, and an id is found by bisection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.lists.stored import Lists
from sghash.collection.looking_up import LookUp
from sghash.collection.storage.columns import KINDS, Column, join_columns
from sghash.collection.storage.texts import KeyTable, Texts, empty_texts, join_texts, key_table
from sghash.errors import BadFile
from sghash.index import CodeIndex, TableIndex
from sghash.index.rows import RowIds, row_ids
from sghash.kernels.vectors.kinds import KINDS as KEPT_KINDS, row_columns
from sghash.validation import MAX_ID, Codes, Ids

#: Length of a shortlist, the recall it has, and the standard error of that.
Measured = tuple[tuple[int, float, float], ...]


@dataclass(frozen=True, eq=False)
class Rows:
    """Codes and ids in an index; `vectors` (of any kind), `keys` and `lists` may be None."""

    index: CodeIndex
    vectors: NDArray[Any] | None = None
    keys: Texts | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    stored_keys: KeyTable | None = None
    lists: Lists | None = None
    _table: KeyTable | None = field(default=None, init=False, repr=False)
    _scored: tuple[TableIndex, TableIndex] | None = field(default=None, init=False, repr=False)
    _measured: Measured | None = field(default=None, init=False, repr=False)
    _look_up: LookUp | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def codes(self) -> Codes:
        """All codes (n, n_bytes)."""
        return self.index.codes

    @property
    def keys_by_hash(self) -> KeyTable | None:
        """Where each key is; kept in segments, computed once for rows in memory."""
        if self.keys is None or self.stored_keys is not None:
            return self.stored_keys
        if self._table is None:
            object.__setattr__(self, "_table", key_table(self.keys))
        return self._table

    def scored_by(self, like: TableIndex) -> TableIndex:
        """The same codes in an index like this one; made once, for what it computes is kept.

        `like` is empty, and the same at every call for the rows of one model.
        """
        kept = self._scored
        if kept is None or kept[0] is not like:
            kept = like, like.over(self.codes, self.index.row_ids)
            object.__setattr__(self, "_scored", kept)
        return kept[1]

    def look_up(self, n_bits: int) -> LookUp:
        """The codes, which are bits, with tables of keys where these pay; made once."""
        if self._look_up is None:
            object.__setattr__(self, "_look_up", LookUp(self.codes, n_bits))
        assert self._look_up is not None
        return self._look_up

    @property
    def measured(self) -> Measured | None:
        """What was found out about searching these rows without lists; None before."""
        return self._measured

    def remember(self, measured: Measured) -> None:
        """Keep what was found out: these rows never change."""
        object.__setattr__(self, "_measured", measured)

    def ids_at(self, rows: NDArray[np.int64] | slice) -> Ids:
        """Ids of these rows."""
        return self.index.row_ids.at(rows)

    def find(self, ids: Ids) -> NDArray[np.int64]:
        """Row of each id, -1 where it is not here."""
        return self.index.row_ids.find(ids)

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """Return these rows, which must rise, as rows of their own in memory."""
        return make_rows(
            self.index,
            self.ids_at(rows),
            self.codes[rows],
            vectors=None if self.vectors is None else self.vectors[rows],
            keys=None if self.keys is None else self.keys.take(rows),
            columns={name: column.take(rows) for name, column in self.columns.items()},
        )


def make_rows(
    like: CodeIndex,
    ids: Ids,
    codes: Codes,
    *,
    vectors: NDArray[Any] | None = None,
    keys: Texts | None = None,
    columns: Mapping[str, Column] | None = None,
) -> Rows:
    """Rows in any order of ids, all different, in an index of the kind of `like`."""
    if np.any(ids[1:] < ids[:-1]):
        order = np.argsort(ids, kind="stable")
        ids, codes = ids[order], codes[order]
        vectors = None if vectors is None else vectors[order]
        keys = None if keys is None else keys.take(order)
        columns = {name: column.take(order) for name, column in (columns or {}).items()}
    return Rows(like.over(codes, row_ids(ids)), vectors, keys, columns or {})


def join_rows(parts: Sequence[Rows]) -> Rows:
    """All rows of several parts in memory, which hold different ids."""
    everything = slice(None)
    keys = None
    if any(part.keys is not None for part in parts):
        keys = join_texts([part.keys or empty_texts(len(part)) for part in parts])
    vectors = [part.vectors for part in parts if part.vectors is not None]
    return make_rows(
        parts[0].index,
        np.concatenate([part.ids_at(everything) for part in parts]),
        np.concatenate([part.codes for part in parts]),
        vectors=np.concatenate(vectors) if vectors else None,
        keys=keys,
        columns=join_columns([(len(part), part.columns) for part in parts]),
    )


def rows_to_arrays(rows: Rows) -> dict[str, NDArray[Any]]:
    """Name every array of `rows`, for a segment or a record of the log."""
    arrays: dict[str, NDArray[Any]] = {"codes": rows.codes}
    if rows.index.row_ids.ids is not None:
        arrays["ids"] = rows.index.row_ids.ids
    if rows.vectors is not None:
        arrays["vectors"] = rows.vectors
    if rows.keys is not None:
        arrays["keys.offsets"], arrays["keys.blob"] = rows.keys
    for name, column in rows.columns.items():
        arrays |= column.arrays(name)
    return arrays


def describe_rows(rows: Rows) -> dict[str, Any]:
    """What must be known beside the arrays."""
    kinds = {name: column.kind for name, column in rows.columns.items()}
    return {"n": len(rows), "first": rows.index.row_ids.first, "kinds": kinds}


class Shape(NamedTuple):
    """What all rows of a collection have in common, as its manifest says.

    `like` is an empty index of their kind.
    """

    like: CodeIndex
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
        codes = _array(arrays, "codes", "u1", (n, shape.like.n_bytes))
        ids = _array(arrays, "ids", "i8", (n,)) if "ids" in arrays else None
        vectors = None
        if shape.keep_vectors is not None:
            kept = KEPT_KINDS[shape.keep_vectors]
            vectors = _array(arrays, "vectors", kept.str, (n, row_columns(kept, shape.width)))
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
    index = shape.like.over(codes, RowIds(n, first, ids))
    return Rows(index, vectors, keys, columns, stored)


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
