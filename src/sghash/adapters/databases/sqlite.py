"""SQLite with sqlite-vec: codes as bit vectors in a table of a file that needs no server."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sghash.adapters.databases.base import (
    FORMAT,
    NOTES,
    DatabaseIndex,
    Found,
    Note,
    check_columns,
    check_fingerprint,
    check_note,
    check_table_name,
    closing_on_failure,
    told,
)
from sghash.errors import InvalidInput, MissingExtra, StorageError
from sghash.optional import require
from sghash.validation import Codes, Ids, check_codes, check_n_bits

_MAKE_NOTES = (
    f"CREATE TABLE IF NOT EXISTS {NOTES} (name TEXT PRIMARY KEY, format INTEGER, "
    "n_bits INTEGER, fingerprint TEXT, next_id INTEGER)"
)
_CHOSEN = "SELECT value FROM json_each(?)"


class SQLiteIndex(DatabaseIndex):
    """Codes in a table of SQLite: `id INTEGER PRIMARY KEY`, `code BLOB`, a bit vector.

    Make one with `create`, come back with `open`. Other columns may be added to the table and
    joined; the SQL is what `explain` prints, with sqlite-vec's functions.
    """

    def __init__(self, connection: Any, table: str, note: Note) -> None:
        super().__init__(table, note)
        self.connection = connection

    @classmethod
    def create(
        cls, database: str | os.PathLike[str], table: str, *, n_bits: int, fingerprint: str
    ) -> SQLiteIndex:
        """Make a table for the codes of one model in the file `database` (":memory:" is none)."""
        check_table_name(table)
        note = Note(check_n_bits(n_bits), check_fingerprint(fingerprint), 0)
        index = cls(_connected(database), table, note)
        with closing_on_failure(index), index._transaction():
            if _has_table(index.connection, table):
                raise InvalidInput(f"there is a table {table!r} already: open it, or take a name")
            index.connection.execute(_MAKE_NOTES)
            index.connection.execute(
                f'CREATE TABLE "{table}" (id INTEGER PRIMARY KEY, code BLOB NOT NULL)'
            )
            index.connection.execute(
                f"INSERT OR REPLACE INTO {NOTES} VALUES (?, ?, ?, ?, ?)", [table, FORMAT, *note]
            )
        return index

    @classmethod
    def open(
        cls, database: str | os.PathLike[str], table: str, *, fingerprint: str | None = None
    ) -> SQLiteIndex:
        """Open a table that `create` made; `fingerprint`, if given, must be its model's."""
        check_table_name(table)
        if not Path(database).exists():
            raise InvalidInput(f"there is no database at {database}: make it with create")
        index = cls(_connected(database), table, Note(8, "", 0))
        with closing_on_failure(index), index._told():
            found = None
            if _has_table(index.connection, NOTES) and _has_table(index.connection, table):
                found = index.connection.execute(
                    f"SELECT format, n_bits, fingerprint, next_id FROM {NOTES} WHERE name = ?",
                    [table],
                ).fetchone()
            version, note = (found[0], Note(*found[1:])) if found else (None, None)
            note = check_note(table, note, version, fingerprint)
            index.n_bits, index.fingerprint = note.n_bits, note.fingerprint
            rows = index.connection.execute(f'PRAGMA table_info("{table}")').fetchall()
            columns = {row[1]: row[2] for row in rows}
            check_columns(table, columns, {"id": "INTEGER", "code": "BLOB"})
        return index

    @classmethod
    def has(cls, database: str | os.PathLike[str], table: str) -> bool:
        """Whether there is such a table in `database`, of codes or not."""
        check_table_name(table)
        if not Path(database).exists():
            return False  # SQLite would make the file
        index = cls(_connected(database), table, Note(8, "", 0))
        with index, index._told():
            return _has_table(index.connection, table)

    def close(self) -> None:
        """Close the file."""
        with self._guard.lock:
            self.connection.close()

    def __len__(self) -> int:
        return int(self._ask(f'SELECT count(*) FROM "{self.table}"', [])[0][0])

    def _ask(self, statement: str, values: list[Any]) -> list[Any]:
        """All rows of the answer, before another thread asks."""
        with self._guard.lock, self._told():
            return list(self.connection.execute(statement, values).fetchall())

    def _told(self) -> AbstractContextManager[None]:
        """What SQLite does not answer, as an error of ours."""
        remedy = "open the index again, and look whether the table is as create made it"
        return told(_module().Error, f"SQLite could not read {self.table!r}", remedy)

    def explain(self, k: int = 10) -> str:
        """The statement that a search runs: its parameter is the query's code, a blob."""
        return self._statement(k, "")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._guard.lock:
            errors = _module().Error
            remedy = "wait for the other writer, or open the index again"
            with told(errors, "SQLite cannot write now", remedy):
                self.connection.execute("BEGIN IMMEDIATE")
            try:
                with told(errors, "SQLite refused, and nothing was changed"):
                    yield
                    self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # a full disk ends it
                    self.connection.execute("ROLLBACK")
                raise

    def _next_id(self) -> int:
        found = self._ask(f"SELECT next_id FROM {NOTES} WHERE name = ?", [self.table])
        if not found:
            raise InvalidInput(f"the table {self.table!r} is no longer one of codes")
        return int(found[0][0])

    def _note_next_id(self, next_id: int) -> None:
        self.connection.execute(
            f"UPDATE {NOTES} SET next_id = ? WHERE name = ?", [next_id, self.table]
        )

    def _known(self, ids: Ids) -> Ids:
        found = self._ask(f'SELECT id FROM "{self.table}" WHERE id IN ({_CHOSEN})', [_listed(ids)])
        return np.asarray([row[0] for row in found], dtype=np.int64)

    def _insert(self, ids: Ids, codes: Codes) -> None:
        self._put(ids, codes, "")

    def _replace(self, ids: Ids, codes: Codes) -> None:
        self._put(ids, codes, " ON CONFLICT (id) DO UPDATE SET code = excluded.code")

    def _put(self, ids: Ids, codes: Codes, at_conflict: str) -> None:
        rows = zip(ids.tolist(), (row.tobytes() for row in codes), strict=True)
        self.connection.executemany(
            f'INSERT INTO "{self.table}" (id, code) VALUES (?, ?){at_conflict}', rows
        )

    def _remove(self, ids: Ids) -> None:
        self.connection.execute(
            f'DELETE FROM "{self.table}" WHERE id IN ({_CHOSEN})', [_listed(ids)]
        )

    def _rows(self, ids: Ids | None) -> Found:
        only = "" if ids is None else f" WHERE id IN ({_CHOSEN})"
        found = self._ask(
            f'SELECT id, code FROM "{self.table}"{only} ORDER BY id',
            [] if ids is None else [_listed(ids)],
        )
        for number, code in found:
            if not isinstance(code, bytes) or len(code) != self.n_bytes:
                raise InvalidInput(f"the code of id {number} in {self.table!r} is none")
        codes = np.frombuffer(b"".join(code for _, code in found), dtype=np.uint8)
        numbers = np.asarray([number for number, _ in found], dtype=np.int64)
        return Found(numbers, check_codes(codes.reshape(len(found), self.n_bytes), self.n_bits))

    def _all_ids(self) -> Ids:
        found = self._ask(f'SELECT id FROM "{self.table}" ORDER BY id', [])
        return np.asarray([row[0] for row in found], dtype=np.int64)

    def _nearest(self, queries: Codes, k: int, allowed: Ids | None) -> Iterator[tuple[Ids, Ids]]:
        only = "" if allowed is None else f" WHERE id IN ({_CHOSEN})"
        statement = self._statement(k, only)
        for query in queries:
            values: list[Any] = [query.tobytes()]
            if allowed is not None:
                values.append(_listed(allowed))
            found = self._ask(statement, values)
            rows = np.asarray(found, dtype=np.float64).reshape(-1, 2)
            ids = np.asarray([row[0] for row in found], dtype=np.int64)
            yield ids, rows[:, 1].astype(np.int64)

    def _statement(self, k: int, only: str) -> str:
        return (
            "SELECT id, vec_distance_hamming(vec_bit(code), vec_bit(?)) AS distance "
            f'FROM "{self.table}"{only} ORDER BY distance, id LIMIT {k}'
        )


def _module() -> Any:
    """Python's sqlite3, or pysqlite3 where Python's own was built to load no extensions.

    A process must not open one file by both: they would not see each other's locks.
    """
    if "enable_load_extension" in dir(sqlite3.Connection):
        return sqlite3
    if importlib.util.find_spec("pysqlite3") is None:
        raise MissingExtra(
            "this Python's sqlite3 loads no extensions, which sqlite-vec is: "
            "pip install pysqlite3-binary, or use another Python"
        )
    return require("pysqlite3.dbapi2", extra="sqlite")


def _connected(database: str | os.PathLike[str]) -> Any:
    """A connection that knows sqlite-vec's functions; transactions are begun by hand."""
    extension, module = require("sqlite_vec", extra="sqlite"), _module()
    try:
        connection = module.connect(
            os.fspath(database), isolation_level=None, check_same_thread=False
        )
    except (module.Error, TypeError) as error:
        raise StorageError(f"SQLite cannot open {database}: {error}") from error
    try:
        connection.enable_load_extension(True)
        extension.load(connection)
        connection.enable_load_extension(False)
        connection.execute("PRAGMA schema_version").fetchone()
    except module.DatabaseError as error:
        connection.close()
        raise StorageError(f"{database} is no database of SQLite ({error})") from error
    return connection


def _listed(ids: Ids) -> str:
    """Ids as one parameter: a statement takes only some thousands of them."""
    return str(ids.tolist())


def _has_table(connection: Any, table: str) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM sqlite_master WHERE lower(name) = lower(?)", [table]
    ).fetchone()
    return bool(found[0])
