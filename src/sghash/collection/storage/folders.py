"""The folder of a collection: made where it is missing, and cleared of what no manifest names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sghash.collection.storage.disk import LOCK, remove
from sghash.collection.storage.manifest import is_ours
from sghash.errors import InvalidInput, StorageError
from sghash.files import storage_errors


def resolved(path: str | os.PathLike[str]) -> Path:
    """The folder that a path means, whatever becomes the current one later."""
    try:
        return Path(path).resolve()
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        raise InvalidInput(f"{path!r} cannot be a folder ({error}): give its path") from error


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
