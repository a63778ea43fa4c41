"""What a worker needs to know to encode some rows of a file: plain values, which travel anywhere.

A job divides files into parts, each of one file. Ids follow the files in their order, then the
rows: they do not depend on who encodes what, nor when.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

from sghash.collection.jobs.fields import kinds_of
from sghash.collection.storage.manifest import MAX_JOB, is_job_name
from sghash.collection.storage.state import State
from sghash.data import files_of, parts_of
from sghash.errors import InvalidInput
from sghash.files import check_plain_file, storage_errors
from sghash.validation import MAX_ID, check_count

#: What is encoded: a file, a folder of files, or several files.
Source: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_MARKED_BYTES = 1 << 20


@dataclass(frozen=True)
class Plain:
    """Abstract: a record of plain values, which is also a line of JSON."""

    def to_json(self) -> str:
        """All fields as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote."""
        try:
            values = json.loads(text)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{str(text)[:40]!r} is no {cls.__name__} in JSON") from error
        return cls.of(values)

    @classmethod
    def of(cls, values: Any) -> Self:
        """A record, or its fields by name, as a record."""
        if isinstance(values, cls):
            return values
        if isinstance(values, str):
            return cls.from_json(values)
        kinds = {field.name: str(field.type) for field in fields(cls)}
        right = isinstance(values, Mapping) and set(values) == set(kinds)
        if not right or not all(_is_of(values[name], kind) for name, kind in kinds.items()):
            raise InvalidInput(
                f"expected a {cls.__name__} or its fields by name, got {type(values).__name__}"
            )
        return cls(**values)


def _is_of(value: Any, kind: str) -> bool:
    if kind == "int":
        return type(value) is int and 0 <= value < 1 << 63
    if kind.startswith("dict"):
        texts = [*value, *value.values()] if isinstance(value, dict) else [None]
        return all(isinstance(text, str) for text in texts)
    return isinstance(value, str) or (value is None and kind.endswith("None"))


@dataclass(frozen=True)
class Task(Plain):
    """Rows `start` to `stop` - 1 of `file`, for `folder`, with ids from `first` on.

    `fingerprint` is that of the model, `version` that of sghash where the job was prepared, both
    to be those of the worker. `digest` stands for all parts of the job, of which this is number
    `part` of `n_parts`. The file had `file_bytes` bytes, and was last changed at `file_time`
    (nanoseconds). `key` chooses its vectors; `keys` is the column of the rows' keys, `kinds` are
    the columns of their metadata with the kind of each.
    """

    folder: str
    identity: str
    job: str
    digest: str
    part: int
    n_parts: int
    file: str
    key: str | None
    start: int
    stop: int
    first: int
    file_bytes: int
    file_time: int
    fingerprint: str
    version: str
    keys: str | None
    kinds: dict[str, str]


@dataclass(frozen=True)
class Staged(Plain):
    """What a worker has written for one task: a segment that nobody sees before it is committed.

    `file` is its name among the staged files of the job, None where the job was committed before.
    """

    job: str
    digest: str
    part: int
    n_parts: int
    first: int
    n: int
    file: str | None
    identity: str
    checksum: int


def check_job(job: Any) -> str:
    """The name of a job, or one sentence."""
    if not is_job_name(job):
        raise InvalidInput(
            f"job must be a name of 1 to {MAX_JOB} characters without line breaks, got {job!r}"
        )
    return str(job)


def refuse_version(version: str) -> None:
    """Refuse to work for who has another version of sghash."""
    from sghash import __version__

    if version != __version__:
        raise InvalidInput(
            f"this worker has sghash {__version__}, its work was prepared with {version}: install "
            "the same version everywhere"
        )


class Wanted(NamedTuple):
    """What a job takes of its files: which vectors, the column of keys, those of metadata.

    `first` is the id of its first row, None for the next one.
    """

    key: str | None = None
    keys: str | None = None
    metadata: Sequence[str] = ()
    first: int | None = None

    def check(self) -> Wanted:
        """The same, or one sentence about a name that is none."""
        names = self.metadata
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise InvalidInput("metadata must be a list of names of columns")
        if not isinstance(self.keys, str | None):
            raise InvalidInput(f"keys must be the name of a column, got {self.keys!r}")
        return self._replace(metadata=tuple(names))


def _first_id(state: State, job: str, wanted: int | None) -> int:
    """The first id of a job: the one it had, the one asked for, or the next."""
    done = state.manifest.jobs.get(job)
    if wanted is None:
        return state.next_id if done is None else int(done["first"])
    check_count(wanted, name="first", least=0)
    if done is None and wanted < state.next_id:
        raise InvalidInput(
            f"ids from {wanted} on were given to other rows: let first be {state.next_id} or more, "
            "or leave it out"
        )
    return int(wanted)


class Stamp(NamedTuple):
    """What tells a file from what it was before somebody wrote to it."""

    n_bytes: int
    time: int


def stamp_of(path: str | os.PathLike[str]) -> Stamp:
    """Length of a file, and when it was last changed."""
    with storage_errors(path, doing="read"):
        status = os.stat(path)
    return Stamp(status.st_size, max(0, status.st_mtime_ns))


def tasks_of(
    folder: Path, state: State, source: Source, wanted: Wanted, *, job: str, rows_per_part: int
) -> list[Task]:
    """Divide files into tasks; a job that was committed before gets the ids that it had then."""
    from sghash import __version__

    check_count(rows_per_part, name="rows_per_part", least=1)
    manifest, (key, keys, metadata, _) = state.manifest, wanted.check()
    first = _first_id(state, check_job(job), wanted.first)
    files = _measured(source, key, manifest.width)
    kinds = kinds_of([file.path for file in files], keys, metadata, state.kinds)
    blank = Task(
        str(folder), manifest.identity, job, "", 0, 0, "", key, 0, 0, first, 0, 0,
        manifest.fingerprint, __version__, keys, kinds,
    )  # fmt: skip
    tasks: list[Task] = []
    marks: list[Any] = [[keys, kinds]]
    for path, n_rows, seen in files:
        content = _content_mark(path)
        n_parts = -(-n_rows // rows_per_part)
        limits = [part * n_rows // n_parts for part in range(n_parts + 1)]
        for start, stop in pairwise(limits):
            task = replace(blank, part=len(tasks), file=os.path.abspath(path))
            task = replace(task, start=start, stop=stop, first=first)
            tasks.append(replace(task, file_bytes=seen.n_bytes, file_time=seen.time))
            marks.append([path.name, key, start, stop, first, *seen, content])
            first += stop - start
    if first > MAX_ID + 1:
        raise InvalidInput(f"the job brings ids beyond {MAX_ID}: there are no more")
    digest = hashlib.sha256(json.dumps(marks).encode()).hexdigest()[:32]
    return [replace(task, digest=digest, n_parts=len(tasks)) for task in tasks]


def _content_mark(path: Path) -> int:
    """CRC-32 of the beginning and of the end of a file: names, sizes and times are often alike.

    Files of an archive have one time, and parts of every month the same names.
    """
    with storage_errors(path, doing="read"), open(path, "rb") as stream:
        mark = zlib.crc32(stream.read(_MARKED_BYTES))
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(_MARKED_BYTES, size - _MARKED_BYTES))
        return zlib.crc32(stream.read(_MARKED_BYTES), mark)


class _Measured(NamedTuple):
    path: Path
    n_rows: int
    seen: Stamp


def _measured(source: Source, key: str | None, width: int) -> list[_Measured]:
    """Every file with its number of rows; all must be tables of one width and one type."""
    found: list[_Measured] = []
    kind = None
    paths = files_of(source)
    for path in paths:
        check_plain_file(path)
    # Before rows are counted: who writes meanwhile is found out by the workers.
    seen = {path: stamp_of(path) for path in paths}
    for path, vectors in parts_of(paths, key=key):
        if vectors.shape[1] != width:
            raise InvalidInput(
                f"{path} holds vectors of {vectors.shape[1]} columns, the collection is for "
                f"{width}: use vectors of the same kind"
            )
        kind = kind or vectors.dtype
        if vectors.dtype != kind:
            raise InvalidInput(
                f"{path} holds {vectors.dtype}, {found[0].path} holds {kind}: files of one job "
                "must be of one type, convert them first"
            )
        found.append(_Measured(path, vectors.shape[0], seen[path]))
    if not found:
        raise InvalidInput("the job has no files: give at least one")
    return found
