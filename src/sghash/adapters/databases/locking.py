"""A lock between processes, for files that are replaced as a whole."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sghash.errors import StorageError
from sghash.files import storage_errors

#: How long a writer waits for another, and how often it looks.
WAIT_SECONDS, _LOOK_SECONDS = 10.0, 0.01
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


@contextmanager
def writing_alone(path: Path) -> Iterator[None]:
    """Be the only process that writes `path`, by a lock on the empty file `path`.lock beside it.

    The file itself cannot be locked: each change puts another one in its place. The system frees
    the lock of a process that dies.
    """
    lock = path.with_name(path.name + ".lock")
    with storage_errors(path):
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(lock, flags, 0o666)
    try:
        _wait(handle, path)
        yield
    finally:
        _unlock(handle)
        os.close(handle)


def _wait(handle: int, path: Path) -> None:
    if os.name != "posix":
        return
    import fcntl

    until = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in _BUSY:
                raise StorageError(
                    error.errno,
                    f"{path} cannot be locked on this file system: keep it on a local disk",
                ) from error
            if time.monotonic() > until:
                raise StorageError(
                    error.errno,
                    f"another process is writing {path}; nothing was changed here: try again",
                ) from error
        time.sleep(_LOOK_SECONDS)


def _unlock(handle: int) -> None:
    """Free the lock for the children of a fork too, who have copies of the handle."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_UN)
