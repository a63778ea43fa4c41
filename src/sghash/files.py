"""Writing files so that a crash leaves the old one or the new one, never half of one."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from sghash.errors import BadFile, MissingData, SghashError, StorageError

_REASONS = {
    errno.ENOENT: "its folder is not there: make it first, or choose another",
    errno.ENOTDIR: "its folder is a file: choose another",
    errno.ENOSPC: "the disk is full: free some space and try again",
    errno.EDQUOT: "the disk quota is used up: free some space and try again",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.EACCES: "permission is denied: choose another folder or change its permissions",
    errno.EMFILE: "too many files are open: close some, or raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine: close some",
    errno.EIO: "the disk reports an error: check it, and restore from a copy if it goes on",
    errno.EPERM: "permission is denied: choose another folder or change its permissions",
}

#: Device and number of a file.
Place = tuple[int, int]

_ASKING = threading.Lock()
# What renameat2 answers where the system or the file system cannot exchange.
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def storage_errors(path: str | os.PathLike[str], *, doing: str = "write") -> Iterator[None]:
    """Turn an OSError met while writing (or `doing` something else to) `path` into one sentence."""
    try:
        yield
    except SghashError:
        raise
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(error.errno, f"cannot {doing} {os.fspath(path)}: {reason}") from error


def check_plain_file(path: str | os.PathLike[str]) -> None:
    """Refuse what is missing or no file: a folder, or a pipe that would keep us waiting."""
    found = Path(path)
    if found.is_file():
        return
    if not found.exists():
        raise MissingData(f"there is no file {found}: check the path")
    kind = "folder" if found.is_dir() else "pipe" if found.is_fifo() else "device"
    raise BadFile(f"{found} is a {kind} and cannot be read as a file: give a file")


def place_of(status: os.stat_result) -> Place:
    """Device and number of a file: the same under every name, and after a change of folders."""
    return status.st_dev, status.st_ino


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` durable, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def usual_mode() -> int:
    """Return the mode that open() gives a new file; temporary files are private at first."""
    return 0o666 & ~_umask()


def _umask() -> int:
    """What new files are denied. Asking the system means setting it, for every thread at once."""
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    with _ASKING:
        # Files that other threads make meanwhile are private, and no thread sees another's answer.
        umask = os.umask(0o077)
        os.umask(umask)
    return umask


def write_atomically(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary sibling of `path`, then rename it into place, durably."""
    target = Path(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        # A rename would put a file in the place of the device or pipe.
        raise StorageError(errno.EINVAL, f"cannot write {target}: it is no file, give another name")
    with storage_errors(target):
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(usual_mode())
            os.replace(temporary, target)
            sync_folder(target.parent)
        except BaseException:
            with suppress(FileNotFoundError):
                temporary.unlink()
            raise


def exchange(left: Path, right: Path) -> bool:
    """Give each of two files or folders the name of the other, in one step; False if not here."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    names = os.fsencode(left), os.fsencode(right)
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(left), None, str(right))


def sha256_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
