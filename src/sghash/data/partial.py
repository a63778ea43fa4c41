"""The partial file of a download: ours alone, and continued only if it is known what it is of."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from pathlib import Path
from typing import BinaryIO

from sghash.errors import StorageError
from sghash.files import storage_errors, write_atomically

_log = logging.getLogger(__name__)
_MAX_NOTES_BYTES = 1 << 14
# Systems without these have no links that a stranger could have planted.
_FLAGS = (
    os.O_RDWR
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


@contextmanager
def opened_part(part: Path) -> Iterator[BinaryIO]:
    """The partial file, open for this process alone where the system has locks.

    What is no plain file of its own (a link that would lead the download into another file, a
    pipe) is replaced by a new one.
    """
    while True:
        with storage_errors(part):
            stream = os.fdopen(_open(part), "rb+")
        with stream:
            _lock(stream, part)
            if not _is_still(stream, part):
                # Another process has just finished with it: what we hold has another name now.
                continue
            yield stream
            return


def _open(part: Path) -> int:
    try:
        handle = os.open(part, _FLAGS)
    except FileNotFoundError:
        return os.open(part, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        # A link (ELOOP, or EMLINK elsewhere), a socket or a pipe without a reader.
        if error.errno not in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise
        return _renewed(part)
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return handle
    os.close(handle)
    return _renewed(part)


def _renewed(part: Path) -> int:
    _log.warning("%s is a link or no file: replaced by a new file", part)
    part.unlink()
    return os.open(part, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)


def _lock(stream: BinaryIO, part: Path) -> None:
    if os.name != "posix":
        return
    import fcntl

    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StorageError(
            error.errno, f"another process is downloading {part.stem}: wait for it"
        ) from error


def _is_still(stream: BinaryIO, part: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.lstat(part))
    except FileNotFoundError:
        return False


def validator_of(headers: Message) -> str | None:
    """What tells a version of a file from the next: a strong ETag, else the time of change."""
    etag = headers.get("ETag") or ""
    # A weak ETag must not be used to continue a file.
    return etag if etag.startswith('"') else headers.get("Last-Modified")


def read_validator(part: Path, url: str) -> str | None:
    """The validator under which `part` was begun from `url`, or None: then begin anew."""
    try:
        handle = os.open(_notes(part), _FLAGS & ~os.O_RDWR | os.O_RDONLY)
        with os.fdopen(handle, "rb") as stream:
            notes = json.loads(stream.read(_MAX_NOTES_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(notes, dict) or notes.get("url") != url:
        return None
    validator = notes.get("validator")
    # It goes back into a header: nothing but a line of plain text may.
    is_plain = isinstance(validator, str) and validator.isascii() and validator.isprintable()
    return validator if is_plain and validator else None


def write_validator(part: Path, url: str, validator: str | None) -> None:
    """Note of which version of `url` the file `part` is."""
    text = json.dumps({"url": url, "validator": validator}).encode()
    notes = _notes(part)
    if notes.is_fifo():  # nobody but us has a use for that name
        notes.unlink()
    write_atomically(notes, lambda stream: stream.write(text))


def forget(part: Path) -> None:
    """Remove the notes."""
    with suppress(FileNotFoundError):
        _notes(part).unlink()


def _notes(part: Path) -> Path:
    return part.with_name(part.name + ".json")
