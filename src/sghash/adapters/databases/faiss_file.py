"""A file of FAISS as a table of codes: `IndexBinaryFlat` with ids, and a note beside it.

    faiss.read_index_binary("photos.faiss")

The note, `photos.faiss.json`, says whose codes they are. FAISS knows no changes of a part of a
file: each change writes all of it anew, beside the old one, and puts it in its place. Writers hold
a lock on the empty file `photos.faiss.lock` meanwhile.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sghash.adapters.databases.base import (
    FORMAT,
    DatabaseIndex,
    Found,
    Note,
    check_fingerprint,
    check_note,
    check_table_name,
)
from sghash.adapters.databases.locking import writing_alone
from sghash.adapters.exports.faiss import from_faiss, to_faiss
from sghash.errors import BadFile, InvalidInput, StorageError
from sghash.files import storage_errors, write_atomically
from sghash.index import HammingIndex
from sghash.optional import require
from sghash.validation import Codes, Ids, check_n_bits

#: What tells a file from the one that takes its place.
_State = tuple[int, int, int]


class FaissFileIndex(DatabaseIndex):
    """Codes in one file that FAISS reads: an `IndexBinaryFlat` in an `IndexBinaryIDMap2`.

    Make one with `create`, come back with `open`. All codes are in memory; searches are exact. A
    change that finds the file changed by another writer is refused.
    """

    def __init__(
        self, path: Path, table: str, note: Note, rows: HammingIndex, seen: _State | None
    ) -> None:
        super().__init__(table, note)
        self.path, self._following = path, note.next_id
        self._codes, self._seen = rows, seen

    @classmethod
    def create(
        cls, database: str | os.PathLike[str], table: str, *, n_bits: int, fingerprint: str
    ) -> FaissFileIndex:
        """Make a file for the codes of one model; `table` is what the note calls them."""
        check_table_name(table)
        require("faiss", extra="faiss")
        note = Note(check_n_bits(n_bits), check_fingerprint(fingerprint), 0)
        path = Path(os.fspath(database))
        index = cls(path, table, note, HammingIndex(note.n_bits), None)
        with writing_alone(path):
            if path.exists():
                raise InvalidInput(f"there is a file {path} already: open it, or take a name")
            _refuse_foreign_note(path)
            index._write()
        return index

    @classmethod
    def open(
        cls, database: str | os.PathLike[str], table: str, *, fingerprint: str | None = None
    ) -> FaissFileIndex:
        """Open a file that `create` made; `fingerprint`, if given, must be its model's."""
        check_table_name(table)
        path = Path(os.fspath(database))
        if not path.is_file():
            raise InvalidInput(f"there is no database at {path}: make it with create")
        # What another writer does from here on is seen by the first change.
        seen = _state_of(path)
        version, name, note = _read_note(path)
        note = check_note(table, note if name == table else None, version, fingerprint)
        return cls(path, table, note, _read_codes(path, note.n_bits), seen)

    @classmethod
    def has(cls, database: str | os.PathLike[str], table: str) -> bool:
        """Whether there is such a file, of codes or not."""
        check_table_name(table)
        return Path(os.fspath(database)).exists()

    def close(self) -> None:
        """Everything is written already."""

    def __len__(self) -> int:
        with self._guard.lock:
            return len(self._codes)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._guard.lock, writing_alone(self.path):
            if _state_of(self.path) != self._seen:
                raise StorageError(
                    f"another writer has changed {self.path}; nothing was changed here: open it "
                    "again"
                )
            before, following = self._copied(), self._following
            try:
                yield
                self._write()
            except BaseException:
                self._codes, self._following = before, following
                raise

    def _copied(self) -> HammingIndex:
        copied = HammingIndex(self.n_bits)
        copied.add(self._codes.codes, ids=self._codes.ids)
        return copied

    def _write(self) -> None:
        """The note, then the codes: a number may be lost between them, never used again."""
        faiss = require("faiss", extra="faiss")
        said = {"format": FORMAT, "table": self.table, "n_bits": self.n_bits,
                "fingerprint": self.fingerprint, "next_id": self._following}  # fmt: skip
        text = json.dumps(said, indent=2) + "\n"
        data = faiss.serialize_index_binary(to_faiss(self._codes)).tobytes()
        write_atomically(_note_path(self.path), lambda stream: stream.write(text.encode()))
        write_atomically(self.path, lambda stream: stream.write(data))
        self._seen = _state_of(self.path)

    def _next_id(self) -> int:
        return self._following

    def _note_next_id(self, next_id: int) -> None:
        self._following = next_id

    def _known(self, ids: Ids) -> Ids:
        return np.intersect1d(ids, self._codes.ids)

    def _insert(self, ids: Ids, codes: Codes) -> None:
        self._codes.add(codes, ids=ids)

    def _remove(self, ids: Ids) -> None:
        self._codes.delete(ids)

    def _rows(self, ids: Ids | None) -> Found:
        with self._guard.lock:
            if ids is None:
                return Found(self._codes.ids.copy(), self._codes.codes.copy())
            known = self._known(ids)
            return Found(known, self._codes.codes_of(known))

    def _all_ids(self) -> Ids:
        with self._guard.lock:
            return self._codes.ids.copy()

    def _nearest(self, queries: Codes, k: int, allowed: Ids | None) -> Iterator[tuple[Ids, Ids]]:
        with self._guard.lock:
            mask = None if allowed is None else np.isin(self._codes.ids, allowed)
            found = self._codes.search(queries, k, mask=mask)
        for ids, distances in zip(found.ids, found.distances, strict=True):
            real = ids >= 0
            yield ids[real], distances[real].astype(np.int64)


def _note_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _refuse_foreign_note(path: Path) -> None:
    """Before a file is made: a note that a cut-off `create` left may be replaced, nothing else."""
    try:
        _read_note(path)
    except (BadFile, OSError):
        raise InvalidInput(
            f"there is a file {_note_path(path)} already, where the note about the codes would "
            "stand, and it is no such note: take another name, or move it away"
        ) from None


def _state_of(path: Path) -> _State | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read_note(path: Path) -> tuple[int | None, str, Note | None]:
    try:
        with storage_errors(_note_path(path), doing="read"):
            text = _note_path(path).read_text(encoding="utf-8")
        said = json.loads(text)
        numbers = [said["format"], said["n_bits"], said["next_id"]]
        if not all(type(number) is int for number in numbers):
            raise ValueError("numbers are missing")
        note = Note(check_n_bits(numbers[1]), check_fingerprint(said["fingerprint"]), numbers[2])
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None, "", None
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{_note_path(path)} is not the note of a file of codes") from error
    return numbers[0], str(said["table"]), note


def _read_codes(path: Path, n_bits: int) -> HammingIndex:
    faiss = require("faiss", extra="faiss")
    try:
        read: Any = faiss.read_index_binary(str(path))
    except RuntimeError as error:
        raise BadFile(f"{path} is no file of a binary index of FAISS") from error
    if read.d != 8 * (-(-n_bits // 8)):
        raise BadFile(f"{path} holds codes of {read.d} bits, its note says {n_bits}")
    found = from_faiss(read, n_bits=n_bits)
    if not isinstance(found, HammingIndex):
        raise BadFile(f"{path} is not the flat index that sghash wrote")
    return found
