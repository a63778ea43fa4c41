"""The few things a collection does to a disk, each durable when it returns.

Every write goes through these functions and the `os` calls they name, so that tests can stop a
writer after each one of them.
"""

from __future__ import annotations

import errno
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sghash.errors import StorageError
from sghash.files import Place, place_of, storage_errors, sync_folder

LOCK = "writer.lock"
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_OLD = os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)


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
        handle = Handle(path, _NEW)
        try:
            try:
                for piece in pieces:
                    write_all(handle.number, piece)
                sync_file(handle.number)
            finally:
                handle.close()
        except BaseException:
            remove(path)
            raise


def replace_file(path: Path, data: bytes) -> None:
    """Put a small file in the place of another: readers see the old one or the new one.

    If the disk cannot promise to keep the new one, the old one is put back.
    """
    with storage_errors(path, doing="read"):
        before = path.read_bytes() if path.exists() else None
    temporary = path.with_name(f"{path.name}.new")
    write_new(temporary, [data])
    with storage_errors(path):
        os.replace(temporary, path)
    try:
        with storage_errors(path):
            sync_folder(path.parent)
    except StorageError:
        # No sync here: this disk refuses it. Before anything else is acknowledged the writer asks
        # for it again (`settle_file`): else a power cut might bring back what was replaced.
        with suppress(OSError):
            if before is not None:
                temporary.write_bytes(before)
                os.replace(temporary, path)
        raise


def settle_file(path: Path) -> None:
    """Wait until a file, and the name it has, are on the disk."""
    with storage_errors(path):
        handle = Handle(path)
        try:
            sync_file(handle.number)
        finally:
            handle.close()
        sync_folder(path.parent)


# What a file system answers that knows no second name for a file.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV)


def place_file(source: Path, target: Path) -> None:
    """Give a whole, synced file a second name; where that cannot be, copy it and wait."""
    with storage_errors(target):
        # A crash may have left something under this name: no manifest knew it.
        with suppress(FileNotFoundError):
            os.unlink(target)
        try:
            os.link(source, target)
            return
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
    with storage_errors(source, doing="read"), open(source, "rb") as stream:
        write_new(target, iter(lambda: stream.read(1 << 20), b""))


def remove(path: Path) -> None:
    """Remove a file that is no longer needed; where the system refuses, a later writer tries."""
    with suppress(OSError):
        os.unlink(path)


class Handle:
    """An open file that belongs to this process: a fork leaves its copy to nobody.

    The number is given back exactly once, whatever interrupts the giver: Ctrl-C comes before or
    after a call that is all C, so one such call opens and keeps, and one takes out and closes.
    """

    def __init__(self, path: Path, flags: int = _OLD, mode: int = 0o666) -> None:
        self._numbers = [-1]  # -1 is where taking out ends
        _open_handles.add(self)
        with storage_errors(path):
            self._numbers.extend(map(os.open, [path], [flags], [mode]))

    @property
    def number(self) -> int:
        """The handle that the system knows."""
        if not self._numbers or self._numbers[-1] < 0:
            raise StorageError("this file was closed: open the collection again")
        return self._numbers[-1]

    @property
    def place(self) -> Place:
        """Which file it is, whatever its name is by now."""
        return place_of(os.fstat(self.number))

    def close(self) -> None:
        """Close it, if it is open."""
        with suppress(OSError, IndexError):
            deque(map(os.close, iter(self._numbers.pop, -1)), maxlen=0)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # When Python ends, what `close` needs may be gone, and the system closes everything. A
        # Ctrl-C that comes in here is lost: be short.
        if self._numbers and not ending():
            self.close()


# Closed in the child of a fork, or the child would keep the parent's lock after its death.
_open_handles: weakref.WeakSet[Handle] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for handle in list(_open_handles):
        handle.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class WriterLock:
    """The right to write, held by at most one process; the system frees it when that one dies.

    The folder itself is locked where the system can do that, so that removing `writer.lock` lets
    nobody in; and the file in it, for systems that cannot. `shown` is what messages call it.
    """

    def __init__(self, folder: Path, *, shown: str | None = None) -> None:
        self.folder, self._process = folder, os.getpid()
        self._shown = shown or str(folder)
        self._folder_handle = _lock_folder(folder, self._shown)
        self._held = [] if self._folder_handle is None else [self._folder_handle]
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            self._handle = Handle(folder / LOCK, flags)
            self._held.append(self._handle)
            _lock(self._handle, self._shown)
            with storage_errors(folder):
                self._place = place_of(os.stat(folder))
            self.check()
        except BaseException:
            self.release()
            raise

    @property
    def is_own(self) -> bool:
        """Whether it was taken by this very process, not by one that forked it."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Refuse to write unless this process holds the lock of what stands at the path."""
        if not self.is_own:
            raise StorageError(
                f"{self._shown} was opened for writing by process {self._process}, which then "
                "forked: open it again in the process that shall write",
            )
        with storage_errors(self.folder):
            try:
                same = place_of(os.stat(self.folder)) == self._place
                if self._folder_handle is not None:
                    same = same and self._folder_handle.place == self._place
                else:
                    same = same and place_of(os.stat(self.folder / LOCK)) == self._handle.place
            except FileNotFoundError:
                same = False
        if not same:
            raise StorageError(
                f"{self._shown} is no longer the folder that was opened for writing here: "
                "nothing was written; close this collection and open it again",
            )

    def release(self) -> None:
        """Let another writer in."""
        for handle in self._held:
            if self.is_own:
                # A child that was forked a moment ago may not have closed its copy yet.
                with suppress(OSError, StorageError):
                    _unlock(handle)
            handle.close()


def _lock_folder(folder: Path, shown: str) -> Handle | None:
    """Lock a folder; None where the system locks files only."""
    if os.name != "posix":
        return None
    handle = Handle(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(handle, shown)
    except StorageError as error:
        handle.close()
        if error.errno in _BUSY:
            raise
        return None
    return handle


_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


def _unlock(handle: Handle) -> None:
    """Give a lock up for all copies of a handle; where only closing does that, do nothing."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(handle.number, fcntl.LOCK_UN)


def _lock(handle: Handle, shown: str) -> None:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle.number, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
        else:
            import fcntl

            fcntl.flock(handle.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        reason = (
            "is open for writing elsewhere: close that writer first, or open it here with "
            "writable=False"
            if error.errno in _BUSY
            else "cannot be locked on this file system: keep the collection on a local disk"
        )
        raise StorageError(error.errno, f"{shown} {reason}") from error
