"""Putting the folder of a model in its place: whoever loads it meanwhile finds the old or the new.

Where the system can exchange two names (Linux), that is one step. Elsewhere the old folder steps
aside first, to a name with ".old." beside it, and the new one follows: a process that is killed
between the two leaves no model under its name, and `missing` says where the old one lies.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sghash.errors import BadFile
from sghash.files import exchange, storage_errors, sync_folder

# What a new folder is called, and an old one, beside that of the model; then a random number.
_NEW, _OLD = "new", "old"
# A folder may be a moment older than the lock that says that it is being written.
YOUNG_SECONDS = 10.0
_WAITS = (0.01, 0.05, 0.2)


def place(folder: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a new folder beside `folder`, then put it in its place, durably."""
    with storage_errors(folder):
        if folder.is_symlink():
            folder = folder.resolve()  # the link stays, what it leads to is replaced
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = _beside(folder, _NEW)
        temporary.mkdir()
        try:
            with _claimed(temporary):
                fill(temporary)
                sync_folder(temporary)
                _swap_in(temporary, folder)
        finally:
            # The old folder if they were exchanged, else what could not be finished.
            shutil.rmtree(temporary, ignore_errors=True)
        sync_folder(folder.parent)
        _remove_leftovers(folder)


def missing(folder: Path) -> BadFile | None:
    """Why there is no model at `folder`; None if it has come back meanwhile."""
    for seconds in _WAITS:
        if folder.exists():
            return None
        if not _leftovers(folder, _OLD):
            return BadFile(f"there is no model folder {folder}: check the path")
        # Somebody is about to put a new one there, or was killed at that.
        time.sleep(seconds)
    aside = " or ".join(str(path) for path in _leftovers(folder, _OLD))
    return BadFile(
        f"there is no model folder {folder}: a save was cut off, and the model that was there lies "
        f"in {aside}; rename it"
    )


def _beside(folder: Path, kind: str) -> Path:
    return folder.with_name(f".{folder.name}.{kind}.{secrets.token_hex(8)}")


def _swap_in(temporary: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(temporary, folder)
        return
    if exchange(temporary, folder):
        return
    old = _beside(folder, _OLD)
    try:
        os.replace(folder, old)
        os.replace(temporary, folder)
    except BaseException:
        # Ctrl-C may come before, between or after the two.
        if not folder.exists():
            os.replace(old, folder)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder as long as this process lives and works on it."""
    if os.name != "posix":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _is_dead(folder: Path) -> bool:
    """Whether nobody can be working on this folder any more."""
    import fcntl

    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return time.time() - os.fstat(handle).st_ctime >= YOUNG_SECONDS
    except OSError:
        return False
    finally:
        os.close(handle)


def _leftovers(folder: Path, kinds: str) -> list[Path]:
    ours = re.compile(rf"\.{re.escape(folder.name)}\.({kinds})\.[0-9a-f]{{16}}")
    with suppress(OSError):
        return sorted(path for path in folder.parent.iterdir() if ours.fullmatch(path.name))
    return []


def _remove_leftovers(folder: Path) -> None:
    """Remove what saves that were killed have left; there is a whole model here now."""
    if os.name != "posix":
        return
    for path in _leftovers(folder, f"{_NEW}|{_OLD}"):
        if _is_dead(path):
            shutil.rmtree(path, ignore_errors=True)
