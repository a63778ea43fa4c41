"""Milvus Lite: codes as a binary vector field in a file that Milvus's own client opens.

`milvus-lite` before version 3 has binary vectors; it runs its engine beside this process.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sghash.adapters.databases.base import (
    FORMAT,
    NOTES,
    DatabaseIndex,
    Found,
    Note,
    check_fingerprint,
    check_note,
    check_table_name,
    closing_on_failure,
)
from sghash.errors import InvalidInput, StorageError
from sghash.guards import Guard
from sghash.optional import require
from sghash.validation import Codes, Ids, check_codes, check_n_bits

#: Rows that Milvus gives at once, and that are sent at once.
_MOST_ROWS, _SENT_ROWS = 16_000, 50_000
#: Answers of one request: queries times k.
_MOST_ANSWERS = 200_000
_SECONDS = 60
_FIELDS = ["name", "format", "n_bits", "fingerprint", "next_id"]


class _Engines:
    """One engine per file of this process, stopped when its last user leaves."""

    def __init__(self) -> None:
        self.guard = Guard(reentrant=True)
        self._users: dict[str, list[Any]] = {}

    def client(self, path: str) -> Any:
        with self.guard.lock:
            if path not in self._users:
                self._users[path] = [_started(path), 0]
            self._users[path][1] += 1
            return self._users[path][0]

    def leave(self, path: str) -> None:
        with self.guard.lock:
            self._users[path][1] -= 1
            if not self._users[path][1]:
                client, _ = self._users.pop(path)
                client.close()
                manager = require("milvus_lite.server_manager", extra="milvus")
                manager.server_manager_instance.release_server(path)


_engines = _Engines()


class MilvusIndex(DatabaseIndex):
    """Codes in a collection of Milvus Lite: `id` INT64, `code` BINARY_VECTOR, index BIN_FLAT.

    Make one with `create`, come back with `open`. Distances are exact; of rows that tie for the
    last places Milvus chooses which it gives. It gives 16,000 rows at most. It has no
    transactions: where its engine is killed during a change, the change may be there in part, and
    rows that were being replaced may be missing until `upsert` is repeated. Only one process at a
    time can have a file open.
    """

    def __init__(self, path: str, client: Any, table: str, note: Note) -> None:
        super().__init__(table, note, _engines.guard)
        self.path, self.client = path, client
        self._open, self._counters = True, list[str]()

    @classmethod
    def create(
        cls, database: str | os.PathLike[str], table: str, *, n_bits: int, fingerprint: str
    ) -> MilvusIndex:
        """Make a collection for the codes of one model in the file `database`, named *.db."""
        check_table_name(table)
        note = Note(check_n_bits(n_bits), check_fingerprint(fingerprint), 0)
        path = _path_of(database)
        index = cls(path, _engines.client(path), table, note)
        with closing_on_failure(index), index._transaction():
            if index.client.has_collection(table):
                raise InvalidInput(f"there is a table {table!r} already: open it, or take a name")
            if not index.client.has_collection(NOTES):
                _make(index.client, NOTES, 8)
            # The note comes first: a collection is never without one.
            index._read_note()
            index._forget()
            index._write_note(note, table)
            _make(index.client, table, 8 * index.n_bytes)
        return index

    @classmethod
    def open(
        cls, database: str | os.PathLike[str], table: str, *, fingerprint: str | None = None
    ) -> MilvusIndex:
        """Open a collection that `create` made; `fingerprint`, if given, must be its model's."""
        check_table_name(table)
        path = _path_of(database)
        if not Path(path).exists():
            raise InvalidInput(f"there is no database at {database}: make it with create")
        index = cls(path, _engines.client(path), table, Note(8, "", 0))
        with closing_on_failure(index), _told():
            version, note = None, None
            if index.client.has_collection(NOTES) and index.client.has_collection(table):
                version, note = index._read_note()
            note = check_note(table, note, version, fingerprint)
            index.n_bits, index.fingerprint = note.n_bits, note.fingerprint
            index._check_fields()
            index._complete()
        return index

    @classmethod
    def has(cls, database: str | os.PathLike[str], table: str) -> bool:
        """Whether there is such a collection in `database`, of codes or not."""
        check_table_name(table)
        path = _path_of(database)
        if not Path(path).exists():
            return False  # Milvus would make the file
        client = _engines.client(path)
        try:
            with _told():
                return bool(client.has_collection(table))
        finally:
            _engines.leave(path)

    def close(self) -> None:
        """Leave the file, and stop the engine if nobody else in this process uses it."""
        if self._open:
            self._open = False
            _engines.leave(self.path)

    def __len__(self) -> int:
        with _told():
            return int(self._query("", ["count(*)"], None)[0]["count(*)"])

    def explain(self, k: int = 10) -> str:
        """The call of Milvus's client that a search makes; `query` is the query's code in bytes."""
        return (
            f'client.search("{self.table}", data=[query], anns_field="code", limit={k}, '
            'search_params={"metric_type": "HAMMING"})'
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._guard.lock, _told():
            yield

    def _query(self, condition: str, fields: list[str], limit: int | None) -> list[Any]:
        options = {} if limit is None else {"limit": limit}
        return list(
            self.client.query(
                self.table, filter=condition, output_fields=fields, timeout=_SECONDS, **options
            )
        )

    def _read_note(self) -> tuple[int | None, Note | None]:
        # The note is written once. Milvus replaces a row by deleting it and adding it, between
        # which an engine may end: the next id is a row of its own, and the highest one counts.
        name = self.table
        found = self.client.query(
            NOTES, filter=f'name == "{name}" or name like "{name}/%"', output_fields=_FIELDS,
            timeout=_SECONDS,
        )  # fmt: skip
        # To Milvus, _ stands for any letter: the notes of other names come along.
        found = [row for row in found if row["name"].partition("/")[0] == name]
        own = [row for row in found if row["name"] == name]
        if not own:
            return None, None
        following = max(int(row["next_id"]) for row in found)
        note = Note(int(own[0]["n_bits"]), str(own[0]["fingerprint"]), following)
        self._counters = [row["name"] for row in found if row["name"] != name]
        return int(own[0]["format"]), note

    def _write_note(self, note: Note, name: str) -> None:
        row = {"name": name, "format": FORMAT, "code": b"\0", **note._asdict()}
        self.client.upsert(NOTES, [row], timeout=_SECONDS)

    def _forget(self) -> None:
        """Delete the notes of a collection of this name that was dropped."""
        self.client.delete(NOTES, ids=[self.table, *self._counters], timeout=_SECONDS)

    def _next_id(self) -> int:
        _, note = self._read_note()
        if note is None:
            raise InvalidInput(f"the table {self.table!r} is no longer one of codes")
        return note.next_id

    def _note_next_id(self, next_id: int) -> None:
        name = f"{self.table}/{next_id}"
        if name not in self._counters:
            self._write_note(Note(self.n_bits, self.fingerprint, next_id), name)
        old = [other for other in self._counters if other != name]
        if old:
            self.client.delete(NOTES, ids=old, timeout=_SECONDS)

    def _known(self, ids: Ids) -> Ids:
        found: list[int] = []
        for start in range(0, len(ids), _MOST_ROWS):
            some = ids[start : start + _MOST_ROWS]
            rows = self._query(_among(some), ["id"], _MOST_ROWS)
            found += [int(row["id"]) for row in rows]
        return np.asarray(found, dtype=np.int64)

    def _insert(self, ids: Ids, codes: Codes) -> None:
        for start in range(0, len(ids), _SENT_ROWS):
            some = slice(start, start + _SENT_ROWS)
            rows = [
                {"id": number, "code": code.tobytes()}
                for number, code in zip(ids[some].tolist(), codes[some], strict=True)
            ]
            # Milvus's insert would keep a second row with the same id.
            self.client.upsert(self.table, rows, timeout=_SECONDS)

    def _replace(self, ids: Ids, codes: Codes) -> None:
        self._insert(ids, codes)

    def _remove(self, ids: Ids) -> None:
        for start in range(0, len(ids), _MOST_ROWS):
            some = ids[start : start + _MOST_ROWS].tolist()
            self.client.delete(self.table, ids=some, timeout=_SECONDS)

    def _rows(self, ids: Ids | None) -> Found:
        with _told():
            found = list(self._pages(["id", "code"]) if ids is None else self._pages_of(ids))
        found.sort(key=lambda row: int(row["id"]))
        numbers = np.asarray([int(row["id"]) for row in found], dtype=np.int64)
        codes = np.frombuffer(b"".join(row["code"][0] for row in found), dtype=np.uint8)
        return Found(numbers, check_codes(codes.reshape(len(found), self.n_bytes), self.n_bits))

    def _all_ids(self) -> Ids:
        with _told():
            found = [int(row["id"]) for row in self._pages(["id"])]
        return np.sort(np.asarray(found, dtype=np.int64))

    def _pages_of(self, ids: Ids) -> Iterator[Any]:
        for start in range(0, len(ids), _MOST_ROWS):
            some = ids[start : start + _MOST_ROWS]
            yield from self._query(_among(some), ["id", "code"], _MOST_ROWS)

    def _pages(self, fields: list[str]) -> Iterator[Any]:
        # Rows come in rising order of their ids, as many as asked for.
        following = 0
        while True:
            page = self._query(f"id >= {following}", fields, _MOST_ROWS)
            yield from page
            if len(page) < _MOST_ROWS:
                return
            following = 1 + max(int(row["id"]) for row in page)

    def _nearest(self, queries: Codes, k: int, allowed: Ids | None) -> Iterator[tuple[Ids, Ids]]:
        if k > _MOST_ROWS and len(self) > _MOST_ROWS:
            raise InvalidInput(
                f"Milvus gives {_MOST_ROWS} rows at most, k is {k}: give a smaller k"
            )
        if allowed is not None and not len(allowed):
            return
        limit = min(k, _MOST_ROWS)
        step = max(1, _MOST_ANSWERS // limit)
        for start in range(0, len(queries), step):
            data = [query.tobytes() for query in queries[start : start + step]]
            with _told():
                answers = self.client.search(
                    self.table, data=data, anns_field="code", limit=limit, timeout=_SECONDS,
                    search_params={"metric_type": "HAMMING"},
                    filter="" if allowed is None else _among(allowed),
                )  # fmt: skip
            for answer in answers:
                ids = np.asarray([int(row["id"]) for row in answer], dtype=np.int64)
                distances = np.asarray([row["distance"] for row in answer]).astype(np.int64)
                order = np.lexsort((ids, distances))
                yield ids[order], distances[order]

    def _check_fields(self) -> None:
        about = self.client.describe_collection(self.table)
        found = {field["name"]: (field["type"].name, field["params"]) for field in about["fields"]}
        wanted = {"id": ("INT64", {}), "code": ("BINARY_VECTOR", {"dim": 8 * self.n_bytes})}
        for name, kind in wanted.items():
            if found.get(name) != kind:
                raise InvalidInput(
                    f"field {name} of {self.table!r} is {found.get(name, 'missing')}, not {kind}: "
                    "it is not the collection that sghash made"
                )

    def _complete(self) -> None:
        """What a `create` that was cut off has left out."""
        if not self.client.list_indexes(self.table):
            self.client.create_index(self.table, _index_of(self.client))
        self.client.load_collection(self.table)


def _among(ids: Ids) -> str:
    # Milvus Lite knows no parameters; numbers can do no harm.
    return f"id in {ids.tolist()}"


def _path_of(database: object) -> str:
    if not isinstance(database, (str, os.PathLike)) or not os.fspath(database).endswith(".db"):
        raise InvalidInput("Milvus Lite keeps its data in a file named *.db: give such a path")
    return os.fspath(Path(os.fspath(database)).absolute())


def _started(path: str) -> Any:
    with warnings.catch_warnings():
        # Milvus Lite looks for its own version in a way that setuptools is about to give up.
        warnings.filterwarnings("ignore", message="pkg_resources is deprecated")
        pymilvus = require("pymilvus", extra="milvus")
        require("milvus_lite", extra="milvus")
        # Errors are raised with a sentence of ours; Milvus would print them with their stacks too.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        try:
            return pymilvus.MilvusClient(path)
        except pymilvus.MilvusException as error:
            raise StorageError(
                f"Milvus Lite cannot open {path}: it is open elsewhere, or no file of Milvus "
                f"({error.message})"
            ) from error


@contextmanager
def _told() -> Iterator[None]:
    """What Milvus refuses, as an error of ours."""
    pymilvus = require("pymilvus", extra="milvus")
    grpc = require("grpc", extra="milvus")
    try:
        yield
    except (pymilvus.MilvusException, grpc.RpcError) as error:
        text = " ".join(str(error).split())[:200]
        raise StorageError(f"Milvus Lite could not do it: {text}") from error


def _make(client: Any, name: str, dim: int) -> None:
    """A collection for codes of `dim` bits, or for notes."""
    kinds = require("pymilvus", extra="milvus").DataType
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    if name == NOTES:
        schema.add_field("name", kinds.VARCHAR, is_primary=True, max_length=128)
        schema.add_field("fingerprint", kinds.VARCHAR, max_length=64)
        for number in ("format", "n_bits", "next_id"):
            schema.add_field(number, kinds.INT64)
    else:
        schema.add_field("id", kinds.INT64, is_primary=True)
    schema.add_field("code", kinds.BINARY_VECTOR, dim=dim)
    options = {"index_params": _index_of(client), "consistency_level": "Strong"}
    client.create_collection(name, schema=schema, **options)


def _index_of(client: Any) -> Any:
    index = client.prepare_index_params()
    index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
    return index
