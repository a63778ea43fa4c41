"""The few things a collection does to a disk, each durable when it returns.

Every write goes through these functions and the `os` calls they name, so that tests can stop a
writer after each one of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sghash.errors import StorageError
from sghash.files import storage_errors, sync_folder

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_OLD = os.O_RDWR | getattr(os, "O_BINARY", 0)


def write_all(handle: int, data: Any) -> None:
    """Write every byte of a buffer; a disk may take fewer than asked at a time."""
    view = memoryview(data).cast("B")
    while len(view):
        view = view[os.write(handle, view) :]


def sync_file(handle: int) -> None:
    """Wait until the bytes and the length of a file are on the disk."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(handle)
    else:
        os.fsync(handle)


def write_new(path: Path, pieces: Iterable[Any]) -> None:
    """Write a file that nobody refers to yet, and wait for the disk; remove it if that fails."""
    with storage_errors(path):
        # A crash may have left half of a file under this name: no manifest knew it.
        with suppress(FileNotFoundError):
            os.unlink(path)
        handle = os.open(path, _NEW, 0o666)
        try:
            try:
                for piece in pieces:
                    write_all(handle, piece)
                sync_file(handle)
            finally:
                os.close(handle)
        except BaseException:
            remove(path)
            raise


def replace_file(path: Path, data: bytes) -> None:
    """Put a small file in the place of another: readers see the old one or the new one.

    If the disk cannot promise to keep the new one, the old one is put back.
    """
    before = path.read_bytes() if path.exists() else None
    temporary = path.with_name(f"{path.name}.new")
    write_new(temporary, [data])
    with storage_errors(path):
        os.replace(temporary, path)
    try:
        with storage_errors(path):
            sync_folder(path.parent)
    except StorageError:
        # No sync here: this disk refuses it, and either content is a whole one.
        with suppress(OSError):
            if before is not None:
                temporary.write_bytes(before)
                os.replace(temporary, path)
        raise


def remove(path: Path) -> None:
    """Remove a file that is no longer needed; where the system refuses, a later writer tries."""
    with suppress(OSError):
        os.unlink(path)


def open_to_append(path: Path) -> int:
    """Return a handle for reading and writing a file that exists."""
    with storage_errors(path):
        return os.open(path, _OLD)


class WriterLock:
    """The right to write, held by at most one process; the system frees it when that one dies."""

    def __init__(self, path: Path) -> None:
        with storage_errors(path):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(self._handle)
        except OSError as error:
            os.close(self._handle)
            raise StorageError(
                error.errno,
                f"{path.parent} is open for writing elsewhere: close that writer first, "
                "or open it here with writable=False",
            ) from error

    def release(self) -> None:
        """Let another writer in."""
        os.close(self._handle)


def _lock(handle: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
