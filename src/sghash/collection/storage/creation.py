"""Making the folder of a new collection: by one process only, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sghash.collection.storage.disk import LOCK, WriterLock, remove
from sghash.collection.storage.folders import make_folders, names_in, remove_ours
from sghash.collection.storage.log import START, create_log, read_log
from sghash.collection.storage.manifest import NAME, Manifest, is_ours, new_identity, write_manifest
from sghash.collection.stored_model import describe_model
from sghash.errors import BadFile, StorageError
from sghash.files import storage_errors, sync_folder

FIRST_LOG = "log-00000000"


@contextmanager
def new_folder(folder: Path, manifest: Manifest, model: Any) -> Iterator[WriterLock]:
    """Make an empty collection, and give the lock that its making took to a `with` block.

    It exists once its manifest does. If anything fails, here or in the block, only what was made
    here is removed.
    """
    made = make_folders(folder)
    _refuse_others(folder)
    lock = WriterLock(folder)  # whoever is refused here leaves everything to the one inside
    try:
        _refuse_others(folder)
        remove_ours(folder)
        try:
            model.save(folder / manifest.model)
            manifest = replace(
                manifest, identity=new_identity(), log=FIRST_LOG, log_identity=new_identity(),
                **describe_model(folder / manifest.model),
            )  # fmt: skip
            create_log(folder / manifest.log, manifest.log_identity)
            with storage_errors(folder):
                sync_folder(folder)
                for path in made or [folder]:
                    sync_folder(path.parent)
            write_manifest(folder, manifest)
            yield lock
        except BaseException:
            remove(folder / NAME)
            if not os.path.lexists(folder / NAME):  # else it is a whole collection, and stays one
                remove_ours(folder)
                remove(folder / LOCK)
                for path in reversed(made):
                    with suppress(OSError):
                        path.rmdir()
            raise
    except BaseException:
        lock.release()
        raise


def _refuse_others(folder: Path) -> None:
    """Refuse a folder that holds anything but what an unfinished `create` has left there."""
    names = names_in(folder)
    if NAME in names:
        raise StorageError(
            f"{folder} is not empty, it is a collection already: open it with "
            "Collection.open(path, writable=True), or give a new folder"
        )
    if not all(_is_unfinished(folder / name) for name in names):
        raise StorageError(f"{folder} is not empty: give a new folder")


def _is_unfinished(path: Path) -> bool:
    """Whether nothing that anybody was promised can be in a file without a manifest."""
    if not is_ours(path.name) or path.name.startswith(("segment-", "deleted-", "lists-")):
        return False
    if not path.name.startswith("log-"):
        return True
    try:
        return path.name == FIRST_LOG and not read_log(path).payloads
    except (BadFile, OSError):
        return path.name == FIRST_LOG and path.is_file() and path.stat().st_size <= START
