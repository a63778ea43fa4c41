"""Changing a collection: each function leaves the old state or the new one on the disk.

Small changes are records of the log. When the log has grown to `LOG_BYTES` or `LOG_RECORDS`, or a
change is as large as that by itself, what it holds becomes a segment. When there are more than
`MAX_SEGMENTS` segments, the `MERGE_SEGMENTS` smallest become one.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sghash.collection.disk import WriterLock, remove
from sghash.collection.log import LogWriter, create_log
from sghash.collection.manifest import (
    NAME,
    Manifest,
    SegmentEntry,
    read_manifest,
    write_manifest,
)
from sghash.collection.models import model_files
from sghash.collection.rows import Rows, describe_rows, rows_to_arrays
from sghash.collection.sections import pack_sections
from sghash.collection.segments import Encode, Progress, Segment, write_deleted, write_segment
from sghash.collection.state import load_state
from sghash.errors import StorageError
from sghash.files import storage_errors, sync_folder
from sghash.validation import Ids

logger = logging.getLogger("sghash.collection")

LOG_BYTES = 1 << 24
LOG_RECORDS = 1024
MAX_SEGMENTS = 16
MERGE_SEGMENTS = 12
LOCK = "writer.lock"


class Writer:
    """The one writer of a collection: holds the lock, the log's handle and the current state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._number = 0
        read_manifest(folder)  # no lock file is left in a folder that is no collection
        self._lock = WriterLock(folder / LOCK)
        try:
            self._log: LogWriter | None = None
            self._return_to_disk()
            self._remove_orphans()
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Give up the right to write."""
        if self._log is not None:
            self._log.close()
        self._lock.release()

    def append(self, rows: Rows, *, replacing: bool) -> None:
        """Add rows, durably; with `replacing`, rows of the same ids are deleted first."""
        about = {"op": "upsert" if replacing else "add", **describe_rows(rows)}
        arrays = rows_to_arrays(rows)
        if sum(array.nbytes for array in arrays.values()) < LOG_BYTES // 2:
            self._record(about, arrays)
        else:
            self._guarded(lambda: self._write_directly(about, arrays))

    def delete(self, ids: Ids) -> None:
        """Delete rows, durably."""
        self._record({"op": "delete"}, {"ids": ids})

    def compact(self, *, progress: Progress | None = None) -> None:
        """Bring all rows into one segment without deleted ones."""
        self._guarded(lambda: self._flush(merge_all=True, progress=progress))

    def reencode(
        self, changes: Mapping[str, Any], encode: Encode, *, progress: Progress | None = None
    ) -> None:
        """Write all rows anew with codes made by `encode`, and the manifest's `changes`."""
        self._guarded(
            lambda: self._flush(merge_all=True, encode=encode, changes=changes, progress=progress)
        )

    def _record(self, about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        def change() -> None:
            assert self._log is not None  # `_guarded` opened it
            self._log.append(pack_sections(about, arrays))
            self.state.apply(about, arrays)
            self.state.log_end = self._log.end

        self._guarded(change)
        if self.state.log_end >= LOG_BYTES or self.state.n_records >= LOG_RECORDS:
            try:
                self._guarded(self._flush)
            except StorageError as error:
                # The change itself is on the disk: saying it failed would invite a second one.
                logger.warning("the log of %s stays long for now: %s", self.folder, error)

    def _write_directly(self, about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Make a segment of a large change at once: the log would only be written twice."""
        self.state.apply(about, arrays)
        self._flush()

    def _guarded(self, change: Callable[[], None]) -> None:
        """Make a change; if it fails, go back to what is on the disk."""
        if self._log is None:
            self._return_to_disk()
        try:
            change()
        except BaseException:
            # If the disk refuses even that, the next change tries again before anything else.
            with suppress(StorageError):
                self._return_to_disk()
            raise

    def _return_to_disk(self) -> None:
        """Forget what is in memory: read the state again, and open its log."""
        if self._log is not None:
            self._log.close()
            self._log = None
        self.state = load_state(self.folder)
        self._log = LogWriter(self.folder / self.state.manifest.log, self.state.log_end)

    def _flush(
        self,
        *,
        merge_all: bool = False,
        encode: Encode | None = None,
        changes: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Write segments, a new log, then the manifest that names them; then remove the old."""
        state, manifest = self.state, self.state.manifest
        entries: list[SegmentEntry] = []
        merged = self._to_merge(merge_all)
        for entry, segment in zip(manifest.segments, state.stored, strict=True):
            if segment not in merged and segment.n_alive:
                if segment.changed and segment.alive is not None:
                    entry = replace(entry, deleted=self._new_name("deleted"))
                    write_deleted(self.folder / str(entry.deleted), segment.alive)
                entries.append(entry)
        if any(segment.n_alive for segment in merged):
            file = self._new_name("segment")
            n = write_segment(self.folder / file, merged, encode=encode, progress=progress)
            entries.append(SegmentEntry(file, n))
        log = self._new_name("log")
        create_log(self.folder / log)
        with storage_errors(self.folder):
            sync_folder(self.folder)
        following = manifest.following(
            segments=tuple(entries), log=log, next_id=state.next_id, next_file=self._number,
            columns=state.kinds, **(changes or {}),
        )  # fmt: skip
        write_manifest(self.folder, following)
        # The change counts from here on: what fails now is only put off.
        try:
            self._follow()
        except StorageError as error:
            logger.warning("%s is written, but cannot be continued yet: %s", self.folder, error)

    def _new_name(self, kind: str) -> str:
        """A name never used before, not even by a change that failed."""
        self._number = max(self._number, self.state.manifest.next_file) + 1
        return f"{kind}-{self._number - 1:08d}"

    def _to_merge(self, merge_all: bool) -> list[Segment]:
        """The runs of the log, and stored segments where there are too many."""
        state = self.state
        if merge_all:
            return state.segments()
        n_after = len(state.stored) + bool(state.runs)
        if n_after <= MAX_SEGMENTS:
            return list(state.runs)
        smallest = sorted(state.stored, key=lambda segment: segment.n_alive)
        return [*smallest[:MERGE_SEGMENTS], *state.runs]

    def _follow(self) -> None:
        """Continue with the manifest that is on the disk now."""
        if self._log is not None:
            self._log.close()
            self._log = None
        self.state = load_state(self.folder, self.state)
        self._log = LogWriter(self.folder / self.state.manifest.log, self.state.log_end)
        self._remove_orphans()

    def _remove_orphans(self) -> None:
        """Remove files of ours that the manifest does not name: a crash or a flush left them."""
        keep = self.state.manifest.files() | {LOCK}
        for path in self.folder.iterdir():
            if path.name in keep or not path.name.startswith(
                ("segment-", "deleted-", "log-", NAME)
            ):
                if path.name not in keep and path.name.startswith(("model-", ".model-")):
                    shutil.rmtree(path, ignore_errors=True)
                continue
            remove(path)


def create_folder(folder: Path, manifest: Manifest, model: Any) -> None:
    """Make the folder of an empty collection; it exists once its manifest does."""
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise StorageError(f"{folder} is not empty: give a new folder")
    try:
        model.save(folder / manifest.model)
        manifest = replace(manifest, model_files=model_files(folder / manifest.model))
        create_log(folder / manifest.log)
        with storage_errors(folder):
            sync_folder(folder)
        write_manifest(folder, manifest)
        with storage_errors(folder):
            sync_folder(folder.parent)
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(folder)
        raise
