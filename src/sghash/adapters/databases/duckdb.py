"""DuckDB: codes as UBIGINT columns of a table, or of Parquet files that stay where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from sghash.adapters.databases.base import (
    ARRIVING,
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
from sghash.adapters.words import from_words, to_words, word_names
from sghash.errors import InvalidInput, StorageError
from sghash.optional import require
from sghash.validation import Codes, Ids, check_codes, check_n_bits

_MAKE_NOTES = (
    f"CREATE TABLE IF NOT EXISTS {NOTES} (name VARCHAR PRIMARY KEY, format INTEGER, "
    "n_bits INTEGER, fingerprint VARCHAR, next_id BIGINT)"
)


class DuckDBIndex(DatabaseIndex):
    """Codes in a table of DuckDB: `id BIGINT`, and `w0`, `w1`, ... UBIGINT for 64 bits each.

    Make one with `create`, come back with `open`, or look into Parquet files with `over_parquet`.
    Other columns may be added to the table and joined; the SQL is what `explain` prints.

    Writers never wait for each other, they are refused. Every change begins by writing its table's
    row of notes as it is. DuckDB refuses to write a row that another transaction has written since
    this one began, committed or not: the second writer gets a `StorageError`, nothing of it is
    changed, and it may try again. What a change finds out after that no other writer can make
    untrue. Only one process at a time can have a file open for writing.
    """

    def __init__(self, connection: Any, table: str, note: Note, *, own: bool, source: str) -> None:
        super().__init__(table, note)
        self.connection = connection
        self._own, self._source = own, source
        self._names = word_names(note.n_bits)

    @classmethod
    def create(cls, database: Any, table: str, *, n_bits: int, fingerprint: str) -> DuckDBIndex:
        """Make a table for the codes of one model in `database`: a path, or a connection."""
        check_table_name(table)
        note = Note(check_n_bits(n_bits), check_fingerprint(fingerprint), 0)
        connection, own = _connected(database)
        columns = ", ".join(f"{name} UBIGINT NOT NULL" for name in word_names(note.n_bits))
        index = cls(connection, table, note, own=own, source=f'"{table}"')
        with closing_on_failure(index), index._transaction():
            if _has_table(connection, table):
                raise InvalidInput(f"there is a table {table!r} already: open it, or take a name")
            connection.execute(_MAKE_NOTES)
            connection.execute(f'CREATE TABLE "{table}" (id BIGINT PRIMARY KEY, {columns})')
            connection.execute(f"DELETE FROM {NOTES} WHERE name = ?", [table])
            connection.execute(f"INSERT INTO {NOTES} VALUES (?, ?, ?, ?, ?)",
                               [table, FORMAT, *note])  # fmt: skip
        return index

    @classmethod
    def open(cls, database: Any, table: str, *, fingerprint: str | None = None) -> DuckDBIndex:
        """Open a table that `create` made; `fingerprint`, if given, must be its model's."""
        check_table_name(table)
        connection, own = _connected(database, existing=True)
        index = cls(connection, table, Note(8, "", 0), own=own, source=f'"{table}"')
        with closing_on_failure(index), index._told():
            found = None
            if _has_table(connection, NOTES) and _has_table(connection, table):
                found = connection.execute(
                    f"SELECT format, n_bits, fingerprint, next_id FROM {NOTES} WHERE name = ?",
                    [table],
                ).fetchone()
            version, note = (found[0], Note(*found[1:])) if found else (None, None)
            note = check_note(table, note, version, fingerprint)
            index.n_bits, index.fingerprint = note.n_bits, note.fingerprint
            index._names = word_names(note.n_bits)
            wanted = {"id": "BIGINT", **dict.fromkeys(index._names, "UBIGINT")}
            check_columns(table, index._columns(), wanted)
        return index

    @classmethod
    def over_parquet(
        cls, path: str | os.PathLike[str], *, fingerprint: str | None = None, database: Any = None
    ) -> DuckDBIndex:
        """Search codes where they lie: in a Parquet file that `write_codes` made, layout "words".

        The index is for reading. `database` is a connection to search by; None makes one.
        """
        from sghash.adapters.exports.arrow import IPC_ENDINGS, describe_codes

        file = Path(path)
        if file.suffix.lower() in IPC_ENDINGS:
            raise InvalidInput(f"{file} is Arrow's own file, which DuckDB does not read: write it "
                               "with the ending .parquet")  # fmt: skip
        resolved = os.fspath(file.resolve())
        if set(resolved) & set("*?["):
            raise InvalidInput(
                f"DuckDB takes * ? and [ for patterns of many files, and {resolved} has one: give "
                "the file, or its folder, another name"
            )
        about = describe_codes(path)
        note = check_note(os.fspath(path), Note(about.n_bits, about.fingerprint, 0), FORMAT,
                          fingerprint)  # fmt: skip
        if about.layout != "words":
            raise InvalidInput(
                f"{path} holds codes as bytes, which DuckDB cannot count: write it with "
                'layout="words"'
            )
        connection, own = _connected(":memory:" if database is None else database)
        quoted = resolved.replace("'", "''")
        return cls(connection, file.name, note, own=own, source=f"read_parquet('{quoted}')")

    @classmethod
    def has(cls, database: Any, table: str) -> bool:
        """Whether there is such a table in `database`, of codes or not."""
        check_table_name(table)
        connection, own = _connected(database, existing=True)
        index = cls(connection, table, Note(8, "", 0), own=own, source="")
        with index, index._told():
            return _has_table(connection, table)

    def close(self) -> None:
        """Close the connection, where it was opened here."""
        with self._guard.lock:
            if self._own:
                self.connection.close()

    def __len__(self) -> int:
        return int(self._numbers(f"SELECT count(*) FROM {self._source}", [])[0][0])

    def explain(self, k: int = 10) -> str:
        """The statement that a search runs: its parameters are the words of the query's code."""
        return self._statement(k, "")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        duckdb = require("duckdb", extra="duckdb")
        if self._source.startswith("read_parquet"):
            raise InvalidInput("Parquet files are for reading: create a table to change codes")
        with self._guard.lock:
            with told(duckdb.Error, "DuckDB cannot begin a change", "open the index again"):
                self._refuse_within_transaction()
                self.connection.execute("BEGIN TRANSACTION")
            try:
                with told(duckdb.Error, "DuckDB refused, and nothing was changed"):
                    yield
                    with self._told_of_another_writer():
                        self.connection.execute("COMMIT")
            except BaseException:
                # DuckDB ends a transaction by itself when a commit fails.
                with suppress(duckdb.Error):
                    self.connection.execute("ROLLBACK")
                raise

    def _refuse_within_transaction(self) -> None:
        # A second BEGIN would end the user's own transaction, and nothing of it would stay. Outside
        # of one, each question has a number of its own.
        first, second = (
            self.connection.execute("SELECT txid_current()").fetchone()[0] for _ in range(2)
        )
        if first == second:
            raise InvalidInput(
                "the connection is in a transaction already, and a change of codes is one by "
                "itself: end it first, or give the index a connection.cursor() of its own"
            )

    @contextmanager
    def _told_of_another_writer(self) -> Iterator[None]:
        duckdb = require("duckdb", extra="duckdb")
        try:
            yield
        except (duckdb.TransactionException, duckdb.ConstraintException) as error:
            raise StorageError(
                f"another writer has changed the table {self.table!r} meanwhile; nothing was "
                "changed here: try again"
            ) from error

    def _told(self) -> AbstractContextManager[None]:
        """What DuckDB does not answer, as an error of ours."""
        duckdb = require("duckdb", extra="duckdb")
        remedy = "open the index again, and look whether the table is as create made it"
        return told(duckdb.Error, f"DuckDB could not read {self.table!r}", remedy)

    def _next_id(self) -> int:
        # Written as it is, so that of two writers the second is refused here (see the class).
        with self._told_of_another_writer():
            found = self.connection.execute(
                f"UPDATE {NOTES} SET next_id = next_id WHERE name = ? RETURNING next_id",
                [self.table],
            ).fetchone()
        if found is None:
            raise InvalidInput(f"the table {self.table!r} is no longer one of codes")
        return int(found[0])

    def _note_next_id(self, next_id: int) -> None:
        self.connection.execute(
            f"UPDATE {NOTES} SET next_id = ? WHERE name = ?", [next_id, self.table]
        )

    def _known(self, ids: Ids) -> Ids:
        statement = f"SELECT id FROM {self._source} WHERE id IN (SELECT unnest(?))"
        return np.asarray(self._numbers(statement, [ids.tolist()])[0], dtype=np.int64)

    def _insert(self, ids: Ids, codes: Codes) -> None:
        self._put(ids, codes, "")

    def _replace(self, ids: Ids, codes: Codes) -> None:
        new = ", ".join(f"{name} = excluded.{name}" for name in self._names)
        self._put(ids, codes, f" ON CONFLICT (id) DO UPDATE SET {new}")

    def _put(self, ids: Ids, codes: Codes, at_conflict: str) -> None:
        words = to_words(codes)
        rows = {"id": ids} | {name: words[:, i].copy() for i, name in enumerate(self._names)}
        columns = ", ".join(rows)
        # DuckDB reads the arrays of a registered view where they lie. After a failure the end of
        # the transaction takes the view away: trying it here would hide what has failed.
        self.connection.register(ARRIVING, rows)
        self.connection.execute(
            f'INSERT INTO "{self.table}" ({columns}) SELECT {columns} FROM {ARRIVING}{at_conflict}'
        )
        self.connection.unregister(ARRIVING)

    def _remove(self, ids: Ids) -> None:
        self.connection.execute(
            f'DELETE FROM "{self.table}" WHERE id IN (SELECT unnest(?))', [ids.tolist()]
        )

    def _rows(self, ids: Ids | None) -> Found:
        only = "" if ids is None else " WHERE id IN (SELECT unnest(?))"
        columns = self._numbers(
            f"SELECT id, {', '.join(self._names)} FROM {self._source}{only} ORDER BY id",
            [] if ids is None else [ids.tolist()],
        )
        words = np.stack(columns[1:], axis=1).astype(np.uint64)
        return Found(columns[0].astype(np.int64), check_codes(from_words(words, self.n_bits),
                                                              self.n_bits))  # fmt: skip

    def _all_ids(self) -> Ids:
        found = self._numbers(f"SELECT id FROM {self._source} ORDER BY id", [])
        return np.asarray(found[0], dtype=np.int64)

    def _nearest(self, queries: Codes, k: int, allowed: Ids | None) -> Iterator[tuple[Ids, Ids]]:
        only = "" if allowed is None else " WHERE id IN (SELECT unnest(?))"
        statement = self._statement(k, only)
        for words in to_words(queries).tolist():
            values = words if allowed is None else [*words, allowed.tolist()]
            ids, distances = self._numbers(statement, values)
            yield ids, distances

    def _statement(self, k: int, only: str) -> str:
        # bit_count gives numbers of one byte, whose sum would not fit one.
        terms = " + ".join(f"bit_count(xor({name}, ?))::INTEGER" for name in self._names)
        return (
            f"SELECT id, {terms} AS distance FROM {self._source}{only} "
            f"ORDER BY distance, id LIMIT {k}"
        )

    def _numbers(self, statement: str, values: list[Any]) -> list[Any]:
        with self._guard.lock, self._told():
            found = self.connection.execute(statement, values).fetchnumpy()
        return [np.asarray(column) for column in found.values()]

    def _columns(self) -> dict[str, str]:
        statement = (
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND table_name = ?"
        )
        return dict(self.connection.execute(statement, [self.table]).fetchall())


def _connected(database: Any, *, existing: bool = False) -> tuple[Any, bool]:
    """A connection, and whether it was opened here."""
    duckdb = require("duckdb", extra="duckdb")
    if isinstance(database, duckdb.DuckDBPyConnection):
        return database, False
    if not isinstance(database, (str, os.PathLike)):
        raise InvalidInput(
            f"database must be a path or a connection of DuckDB, got {type(database).__name__}"
        )
    path = os.fspath(database)
    if existing and path != ":memory:" and not Path(path).exists():
        raise InvalidInput(f"there is no database at {path}: make it with create")
    try:
        return duckdb.connect(path), True
    except duckdb.Error as error:
        raise StorageError(f"DuckDB cannot open {path}: {str(error).splitlines()[0]}") from error


def _has_table(connection: Any, table: str) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM information_schema.tables "
        "WHERE table_schema = current_schema() AND lower(table_name) = lower(?)", [table],
    ).fetchone()  # fmt: skip
    return bool(found[0])
