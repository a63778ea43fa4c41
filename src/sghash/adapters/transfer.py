"""Collections to databases and back, block by block: an interrupted transfer is simply repeated.

A push looks at what is there and sends what is not: each block is one transaction, so that after
an interruption some blocks are there whole, the others not at all. (Milvus has no transactions:
where its engine is killed, a block may be there in part until the push is repeated.) Nothing comes
twice, since rows go by their ids.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sghash.adapters.databases.base import DatabaseIndex
from sghash.collection import Collection
from sghash.collection.reading import Reading, Snapshot
from sghash.errors import InvalidInput
from sghash.validation import Codes, Ids

#: Rows of a block.
BLOCK_ROWS = 50_000
Told = Callable[[int, int], object]
#: The class of each kind of place, and its module.
_KINDS = {
    "postgresql": ("PostgresIndex", "postgresql"),
    "duckdb": ("DuckDBIndex", "duckdb"),
    "sqlite": ("SQLiteIndex", "sqlite"),
    "milvus": ("MilvusIndex", "milvus"),
    "faiss": ("FaissFileIndex", "faiss_file"),
}


class Transferred(NamedTuple):
    """Rows that were not there, that were there with another code, and that were there."""

    added: int
    changed: int
    unchanged: int


class Place(NamedTuple):
    """Where codes go or come from: a kind of database, and its address or path."""

    kind: str
    address: str

    def __repr__(self) -> str:
        return f"Place(kind={self.kind!r})"  # the address may hold a password


def place_of(text: str) -> Place:
    """Read "postgresql://..." or one of KIND:FILE; nothing of it is repeated."""
    kind, colon, rest = text.partition(":")
    if colon and kind in ("postgresql", "postgres"):
        return Place("postgresql", text)
    if colon and rest and kind in _KINDS:
        return Place(kind, rest)
    # The text may hold a password, wherever it was meant to go.
    raise InvalidInput(
        "the address must begin with postgresql://, or be duckdb:FILE, sqlite:FILE, "
        "milvus:FILE.db or faiss:FILE"
    )


def open_place(place: Place, table: str, *, fingerprint: str | None = None) -> DatabaseIndex:
    """Open the table of codes at a place."""
    opened: DatabaseIndex = _kind_of(place).open(place.address, table, fingerprint=fingerprint)
    return opened


def push(
    collection: Collection,
    place: Place,
    table: str,
    *,
    dry_run: bool = False,
    callback: Told | None = None,
) -> Transferred:
    """Bring the codes of a collection to a table, which is made if it is not there.

    Rows of the table that the collection does not have stay. With `dry_run` nothing is changed.
    What is brought is of one moment, whatever changes the collection meanwhile.
    """
    moment = Snapshot(collection)
    kind = _kind_of(place)
    if not _exists(kind, place, table):
        if dry_run:
            return Transferred(len(moment), 0, 0)
        kind.create(
            place.address, table, n_bits=moment.n_bits, fingerprint=moment.fingerprint
        ).close()
    counts = np.zeros(3, dtype=np.int64)
    with open_place(place, table, fingerprint=moment.fingerprint) as index:
        there = index.ids
        # A file of FAISS is written as a whole, whatever changes.
        n_rows = max(1, len(moment)) if place.kind == "faiss" else BLOCK_ROWS
        for done, ids, codes in _blocks(moment, n_rows):
            counts += _send(index, ids, codes, np.isin(ids, there), dry_run=dry_run)
            if callback is not None:
                callback(done, len(moment))
    return Transferred(*counts.tolist())


def pull(
    place: Place,
    table: str,
    collection: Collection,
    *,
    dry_run: bool = False,
    callback: Told | None = None,
) -> Transferred:
    """Bring the codes of a table to a collection without kept vectors.

    Rows that are there with another code get that of the table, and keep their keys and metadata.
    Rows of the collection that the table does not have stay. With `dry_run` nothing is changed.
    """
    counts = np.zeros(3, dtype=np.int64)
    with open_place(place, table, fingerprint=collection.fingerprint) as index:
        everyone, have = index.ids, collection.ids
        for start in range(0, len(everyone), BLOCK_ROWS):
            ids = everyone[start : start + BLOCK_ROWS]
            codes, known = index.codes_of(ids), np.isin(ids, have)
            counts += _receive(collection, ids, codes, known, dry_run=dry_run)
            if callback is not None:
                callback(start + len(ids), len(everyone))
    return Transferred(*counts.tolist())


def _receive(
    collection: Collection, ids: Ids, codes: Codes, known: Any, *, dry_run: bool
) -> tuple[int, int, int]:
    """Take one block: rows that are new, then those whose codes have changed."""
    new, old = ~known, np.flatnonzero(known)
    changed = old[:0]
    if len(old):
        changed = old[(collection.get(ids[old]).codes != codes[old]).any(axis=1)]
    if not dry_run:
        whose = collection.fingerprint
        if new.any():
            collection.add_codes(codes[new], ids[new], fingerprint=whose)
        there = collection.get(ids[changed])
        has_key = np.asarray([key is not None for key in there.keys], dtype=np.bool_)
        for some in (np.flatnonzero(has_key), np.flatnonzero(~has_key)):
            if len(some):
                # By its key, where a row has one, or the key would be lost.
                names = [there.keys[row] or number for row, number in
                         zip(some.tolist(), there.ids[some].tolist(), strict=True)]  # fmt: skip
                columns = {name: [values[row] for row in some]
                           for name, values in there.metadata.items()}  # fmt: skip
                said = {name: own for name, own in columns.items() if set(own) != {None}}
                collection.add_codes(
                    codes[changed[some]], names, said or None, fingerprint=whose, replacing=True
                )
    return int(new.sum()), len(changed), len(old) - len(changed)


def _send(
    index: DatabaseIndex, ids: Ids, codes: Codes, known: Any, *, dry_run: bool
) -> tuple[int, int, int]:
    """Send one block: rows that are new and those whose codes have changed, at once."""
    new, old = ~known, np.flatnonzero(known)
    changed = old[:0]
    if len(old):
        changed = old[(index.codes_of(ids[old]) != codes[old]).any(axis=1)]
    sent = np.concatenate([np.flatnonzero(new), changed])
    if not dry_run and len(sent):
        index.upsert(codes[sent], ids[sent])  # one transaction: a row is the old one or the new one
    return int(new.sum()), len(changed), len(old) - len(changed)


def _blocks(moment: Reading, n_rows: int) -> Iterator[tuple[int, Ids, Codes]]:
    ids = moment.ids
    for start in range(0, len(ids), n_rows):
        some = ids[start : start + n_rows]
        yield start + len(some), some, moment.get(some).codes


def _exists(kind: Any, place: Place, table: str) -> bool:
    if place.kind != "postgresql" and not Path(os.fspath(place.address)).exists():
        return False
    return bool(kind.has(place.address, table))


def _kind_of(place: Place) -> Any:
    name, module = _KINDS[place.kind]
    return getattr(importlib.import_module(f"sghash.adapters.databases.{module}"), name)
