"""The folder of a collection: made where it is missing, and cleared of what no manifest names."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from sghash.collection.storage.disk import LOCK, remove
from sghash.collection.storage.manifest import NAME, is_ours
from sghash.errors import InvalidInput, StorageError
from sghash.files import storage_errors


def resolved(path: str | os.PathLike[str]) -> Path:
    """The folder that a path means, whatever becomes the current one later."""
    try:
        return Path(path).resolve()
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        raise InvalidInput(f"{path!r} cannot be a folder ({error}): give its path") from error


def why_missing(folder: Path) -> str | None:
    """None where a collection stands in a folder; else why it is not seen, "" if it is not there.

    A dead mount answers with an error of its own instead of saying that nothing is there.
    """
    try:
        os.stat(folder / NAME)
    except OSError as error:
        gone = error.errno in (errno.ENOENT, errno.ENOTDIR)
        return "" if gone else error.strerror or str(error)
    return None


def named_missing(reasons: Mapping[str, str | None]) -> str:
    """Folders that are not there, each with the reason where there is one."""
    return ", ".join(f"{name} ({why})" if why else name for name, why in reasons.items())


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; return which were made, outermost first."""
    with storage_errors(folder):
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        made = []
        for path in reversed(missing):
            with suppress(FileExistsError):  # somebody else was quicker
                path.mkdir()
                made.append(path)
        if not folder.is_dir():
            raise StorageError(
                f"cannot make {folder}: a file stands in its way; choose another name"
            )
    return made


def names_in(folder: Path) -> set[str]:
    """Names of all that a folder holds but the lock."""
    with storage_errors(folder, doing="read"):
        return {path.name for path in folder.iterdir()} - {LOCK}


def remove_ours(folder: Path, *, keep: Iterable[str] = ()) -> None:
    """Remove files that only a collection names so, and that nobody needs: a crash left them.

    Where the system refuses, a later call tries again.
    """
    kept = {*keep, LOCK}
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if path.name in kept or not is_ours(path.name):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                remove(path)
