"""How the files of a data set are known: by size, by published checksum, or as they first were.

Where no checksum is published, the SHA-256 that a file has when it is first used is written to a
small record beside it, and the file must have it from then on. Large files have such a record, too:
as long as size and time of change are those in the record, they need not be read again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from sghash.errors import BadFile, StorageError
from sghash.files import write_atomically

_log = logging.getLogger(__name__)
_BLOCK = 1 << 20
# Larger files are read whole once; then size and time of change must do.
HASHED_BYTES = 1 << 28
# Reading more than this only to remember it would take minutes that nobody asked for.
RECORDED_BYTES = 1 << 34
_MAX_RECORD_BYTES = 1 << 12


class RemoteFile(NamedTuple):
    """A file of a data set: its name here, its public address, and how to know it.

    `size` in bytes, `sha256` and `md5` in hexadecimal; None where no reliable value is published.
    `first_rows`: only that many rows of a big-ann file at `url` are fetched.
    """

    name: str
    url: str | None = None
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    first_rows: int | None = None

    @property
    def has_checksum(self) -> bool:
        """Whether a checksum of the content is published."""
        return self.sha256 is not None or self.md5 is not None


class Record(NamedTuple):
    """What a file was when it was first used; `modified` in nanoseconds since 1970."""

    sha256: str
    size: int
    modified: int


def record_path(path: Path) -> Path:
    """Where the record of the file `path` lies."""
    return path.with_name(path.name + ".record.json")


def verify(path: Path, file: RemoteFile) -> None:
    """Refuse `path` unless it is `file`; without a published checksum, unless it is as it was."""
    status, record = path.stat(), read_record(path)
    check_size(path, status.st_size, file)
    is_large = status.st_size > HASHED_BYTES
    if is_large:
        if record is not None and record[1:] == (status.st_size, status.st_mtime_ns):
            return
        if record is None and not file.has_checksum and status.st_size > RECORDED_BYTES:
            _log.info("%s is too large to be read for a checksum that nobody published", path)
            return
    elif file.has_checksum:
        check_digests(path, digests(path, _published(file)), file)
        return
    found = digests(path, ["sha256", *_published(file)])
    check_digests(path, found, file)
    if not file.has_checksum:
        check_record(path, found["sha256"], record, path)
    now = Record(found["sha256"], status.st_size, status.st_mtime_ns)
    if now != record:
        write_record(path, now, is_new=record is None and not file.has_checksum)


def check_size(path: Path, size: int, file: RemoteFile) -> None:
    """Refuse a file of another size than `file` must have."""
    if file.size is not None and size != file.size:
        raise BadFile(f"{path} has {size} bytes, expected {file.size}: download it again")


def check_digests(path: Path, found: dict[str, str], file: RemoteFile) -> None:
    """Refuse a file whose checksums are not the published ones."""
    for name in _published(file):
        expected = getattr(file, name)
        if found[name] != expected:
            raise BadFile(
                f"{path} has {name} {found[name]}, expected {expected}: download it again, and "
                "if that does not help, the file at its address has changed"
            )


def check_record(path: Path, sha256: str, record: Record | None, target: Path) -> None:
    """Refuse content that is not what `target` was when it was first used."""
    if record is not None and record.sha256 != sha256:
        raise BadFile(
            f"{path} has sha256 {sha256}, and {record.sha256} when it was first used: restore it, "
            f"or delete {record_path(target)} if the change is meant"
        )


def digests(path: Path, names: Iterable[str]) -> dict[str, str]:
    """Checksums of a file by name ("sha256", "md5"), in hexadecimal, in one pass."""
    made = {name: hashlib.new(name, usedforsecurity=False) for name in names}
    with open(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            for digest in made.values():
                digest.update(block)
    return {name: digest.hexdigest() for name, digest in made.items()}


def _published(file: RemoteFile) -> list[str]:
    return [name for name in ("sha256", "md5") if getattr(file, name) is not None]


def read_record(path: Path) -> Record | None:
    """The record of the file `path`, or None; one that cannot be read is refused."""
    place = record_path(path)
    if not place.is_file():
        return None
    try:
        with open(place, "rb") as stream:
            found: Any = json.loads(stream.read(_MAX_RECORD_BYTES))
        record = Record(found["sha256"], found["size"], found["modified"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadFile(
            f"{place} is damaged, it says what {path.name} was when it was first used: "
            "delete it if you trust that file"
        ) from error
    return record


def write_record(path: Path, record: Record, *, is_new: bool) -> None:
    """Keep what the file `path` is, and say so in one line the first time."""
    place = record_path(path)
    text = json.dumps(record._asdict()).encode()
    try:
        write_atomically(place, lambda stream: stream.write(text))
    except StorageError as error:
        # A folder that only others may write to: its files are checked by size alone.
        _log.info("the checksum of %s cannot be kept (%s)", path, error.strerror)
        return
    if is_new:
        _log.warning(
            "no checksum of %s is published: its sha256 %s is kept in %s, and checked from now on",
            path, record.sha256, place.name,
        )  # fmt: skip
