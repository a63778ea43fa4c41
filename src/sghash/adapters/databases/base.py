"""What every index in a database shares: the verbs, the checks, and the note of whose codes it has.

A table of codes has a note beside it, in one row of the table `sghash_indexes` of the same
database: bits of a code, the model's fingerprint, and the next id. Nothing is done to a table
without a note, and nothing with one of another model's.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sghash.errors import InvalidInput, StorageError
from sghash.guards import Guard
from sghash.neighbors import Neighbors, empty_neighbors
from sghash.validation import (
    Codes,
    Ids,
    check_codes,
    check_ids,
    check_k,
    check_mask,
    check_threads,
    n_bytes_of,
    next_ids,
)

#: The table of notes, and the version of what stands in it.
NOTES, FORMAT = "sghash_indexes", 1
#: The name under which rows arrive that go to a table.
ARRIVING = "sghash_rows"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,54}")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


class Note(NamedTuple):
    """What is known of a table of codes: bits of a code, whose they are, the next id."""

    n_bits: int
    fingerprint: str
    next_id: int


class Found(NamedTuple):
    """Rows of a table, in the order that was asked for."""

    ids: Ids
    codes: Codes


def check_table_name(name: object) -> str:
    """Return the name of a table: letters, digits and _, so that it can do no harm in SQL."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in (NOTES, ARRIVING):
        # An address given in the place of a name may hold a password.
        got = "what looks like an address" if set(str(name)) & set(":@=") else repr(str(name)[:80])
        raise InvalidInput(
            f"the table's name must be up to 55 letters, digits and _, a letter first, and not "
            f"{NOTES} or {ARRIVING}; got {got}"
        )
    return name


def check_fingerprint(fingerprint: object) -> str:
    """Return a model's fingerprint, or say where one comes from."""
    if not isinstance(fingerprint, str) or not _FINGERPRINT.fullmatch(fingerprint):
        raise InvalidInput(
            "fingerprint must be that of the model that makes the codes: give model.fingerprint_"
        )
    return fingerprint


def check_note(table: str, note: Note | None, version: int | None, fingerprint: str | None) -> Note:
    """Return the note of a table that may be used; the sentence says why another may not."""
    if note is None:
        raise InvalidInput(
            f"there is no table of codes {table!r} that sghash made: make one with create, or "
            "give the name of one"
        )
    if version != FORMAT:
        raise InvalidInput(
            f"the table {table!r} was made by a later version of sghash (format {version}, this "
            f"one knows {FORMAT}): upgrade sghash"
        )
    if fingerprint is not None and check_fingerprint(fingerprint) != note.fingerprint:
        raise InvalidInput(
            f"the codes in {table!r} are those of another model (fingerprint "
            f"{note.fingerprint[:12]}, yours {fingerprint[:12]}): use the model that made them"
        )
    return note


class DatabaseIndex(ABC):
    """Abstract: codes in a table of a database, with stable int64 ids; answers by (distance, id).

    Each change is one transaction. `threads` is taken as every index takes it; how many the
    database uses is its own affair. Any number of threads may use one index; what they ask of the
    database, which has one connection, happens one after the other.
    """

    def __init__(self, table: str, note: Note, guard: Guard | None = None) -> None:
        self.table, self.n_bits, self.fingerprint = table, note.n_bits, note.fingerprint
        # Held by a transaction, and from a question to the last row of its answer.
        self._guard = Guard(reentrant=True) if guard is None else guard

    @property
    def n_bytes(self) -> int:
        """Bytes of a code."""
        return n_bytes_of(self.n_bits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table!r}) with {len(self)} codes of {self.n_bits} bits"

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def close(self) -> None:
        """Give up the connection, where the index has opened it."""

    def __enter__(self) -> DatabaseIndex:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[object]:
        """All that happens within happens, or nothing."""

    @abstractmethod
    def _next_id(self) -> int:
        """The next id; within a transaction, where no other writer may take it too."""

    @abstractmethod
    def _note_next_id(self, next_id: int) -> None: ...

    @abstractmethod
    def _known(self, ids: Ids) -> Ids:
        """Those of `ids` that are in the table."""

    @abstractmethod
    def _insert(self, ids: Ids, codes: Codes) -> None: ...

    @abstractmethod
    def _remove(self, ids: Ids) -> None: ...

    @abstractmethod
    def _rows(self, ids: Ids | None) -> Found:
        """Rows of these ids, or all, in rising order of ids."""

    @abstractmethod
    def _all_ids(self) -> Ids:
        """All ids, rising, without their codes."""

    @abstractmethod
    def _nearest(self, queries: Codes, k: int, allowed: Ids | None) -> Iterator[tuple[Ids, Ids]]:
        """(ids, distances) of each query, nearest first; only among `allowed`, if given."""

    @property
    def ids(self) -> Ids:
        """All ids, rising; a mask is aligned with them."""
        return self._all_ids()

    @property
    def codes(self) -> Codes:
        """All codes, in the order of `ids`."""
        return self._rows(None).codes

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Ids:
        """Add codes and return their ids (n,) int64, in the order given, all of them or none.

        Without `ids` they get the next numbers never used before.
        """
        return self._add_rows(check_codes(codes, self.n_bits), ids, self._insert)

    def _add_rows(
        self, rows: Codes, ids: ArrayLike | None, insert: Callable[[Ids, Codes], None]
    ) -> Ids:
        """Number checked codes and let `insert` put them into the table, in one transaction."""
        given = None if ids is None else check_ids(ids, len(rows))
        if given is not None:
            refuse_twice(given)
        with self._transaction():
            following = self._next_id()
            numbers = next_ids(following, len(rows)) if given is None else given
            if len(rows):
                known = self._known(numbers) if given is not None else numbers[:0]
                if len(known):
                    raise InvalidInput(
                        f"id {known.min()} is in the index already: delete it first or choose "
                        "another"
                    )
                # The note first: without transactions a number may be lost, never used twice.
                self._note_next_id(max(following, int(numbers.max()) + 1))
                insert(numbers, rows)
        return numbers.copy()

    def upsert(self, codes: ArrayLike, ids: ArrayLike) -> Ids:
        """Like `add`, but the code of an id that is there is replaced: all of them or none.

        Columns that were added to the table keep what they hold.
        """
        return self._upsert_rows(check_codes(codes, self.n_bits), ids, self._replace)

    def _upsert_rows(
        self, rows: Codes, ids: ArrayLike, replace: Callable[[Ids, Codes], None]
    ) -> Ids:
        """Let `replace` put checked codes into the table, in one transaction."""
        numbers = check_ids(ids, len(rows))
        refuse_twice(numbers)
        with self._transaction():
            following = self._next_id()
            if len(rows):
                self._note_next_id(max(following, int(numbers.max()) + 1))
                replace(numbers, rows)
        return numbers.copy()

    def _replace(self, ids: Ids, codes: Codes) -> None:
        """Put these rows in the place of those with the same ids, inside a transaction."""
        self._remove(self._known(ids))
        self._insert(ids, codes)

    def delete(self, ids: ArrayLike) -> None:
        """Remove the codes with these ids; all other ids stay as they are."""
        chosen = np.unique(check_ids(ids))
        with self._transaction():
            self._next_id()  # one writer at a time
            self._refuse_unknown(chosen, self._known(chosen))
            if len(chosen):
                self._remove(chosen)

    def codes_of(self, ids: ArrayLike) -> Codes:
        """Return the codes of these ids, in the order given."""
        chosen = check_ids(ids)
        found = self._rows(np.unique(chosen))
        self._refuse_unknown(chosen, found.ids)
        return np.asarray(found.codes[np.searchsorted(found.ids, chosen)], dtype=np.uint8)

    def search(
        self,
        query_codes: ArrayLike,
        k: int = 10,
        *,
        mask: ArrayLike | None = None,
        threads: int | None = None,
    ) -> Neighbors:
        """Return the k nearest codes of each query: distances int32 and ids int64, (n_queries, k).

        `mask` (len(index),) bool allows the rows of `ids` where it is True. Where fewer than k
        rows are allowed, the rest is id -1. A 1-D query is one query.
        """
        queries = check_codes(query_codes, self.n_bits, name="query_codes")
        k = check_k(k)
        check_threads(threads)
        allowed = None
        if mask is not None:
            everyone = self.ids
            allowed = everyone[check_mask(mask, len(everyone))]
        return gathered(self._nearest(queries, k, allowed), len(queries), k)

    def _refuse_unknown(self, wanted: Ids, known: Ids) -> None:
        missing = np.setdiff1d(wanted, known)
        if len(missing):
            raise InvalidInput(f"id {missing[0]} is not in the index")


@contextmanager
def closing_on_failure(index: DatabaseIndex) -> Iterator[None]:
    """What fails within leaves no connection behind."""
    try:
        yield
    except BaseException:
        index.close()
        raise


def check_columns(table: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Refuse a table whose columns are not those that `create` makes."""
    for name, kind in wanted.items():
        if found.get(name) != kind:
            raise InvalidInput(
                f"column {name} of {table!r} is {found.get(name, 'missing')}, not {kind}: it is "
                "not the table that sghash made"
            )


@contextmanager
def told(kinds: Any, failed: str, remedy: str = "") -> Iterator[None]:
    """What a driver raises within, as one sentence of ours: what failed, why, and the remedy."""
    try:
        yield
    except kinds as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise StorageError(f"{failed}: {reason}{remedy and '; '}{remedy}") from error


def refuse_twice(ids: Ids) -> None:
    """Refuse ids of which one is given twice."""
    numbers, counts = np.unique(ids, return_counts=True)
    if len(numbers) < len(ids):
        raise InvalidInput(
            f"id {numbers[counts > 1][0]} is given twice: every code needs an id of its own"
        )


def gathered(
    rows: Iterator[tuple[Ids, Any]], n_queries: int, k: int, kind: type = np.int32
) -> Neighbors:
    """Answers to each query, as one; padded where fewer than k rows were found."""
    found = empty_neighbors(n_queries, k, kind)
    for row, (ids, distances) in enumerate(rows):
        found.ids[row, : len(ids)] = ids
        found.distances[row, : len(ids)] = distances
    return found
