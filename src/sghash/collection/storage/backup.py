"""A consistent copy of a collection, made beside a working writer.

Everything is copied from one moment: segments from their mappings, which outlive their names, what
is only in the log as a segment of its own. A copy counts once its manifest is there; until then a
later call goes on with what is there already. A copy of an earlier moment is brought up to date:
segments that it has are not copied again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sghash.collection.lists.stored import LISTS_MAGIC, Lists
from sghash.collection.moment import Moment
from sghash.collection.storage.disk import WriterLock, write_new
from sghash.collection.storage.folders import make_folders, names_in, remove_ours
from sghash.collection.storage.log import create_log, read_log
from sghash.collection.storage.manifest import (
    NAME,
    NUMBERED,
    Manifest,
    SegmentEntry,
    is_ours,
    new_identity,
    read_manifest,
    write_manifest,
)
from sghash.collection.storage.segments import MAGIC, Progress, Segment, write_marks, write_segment
from sghash.collection.storage.state import State
from sghash.collection.storage.verification import Summary, verify
from sghash.collection.stored_model import describe_model, verify_model
from sghash.errors import BadFile, InvalidInput, StorageError
from sghash.files import storage_errors, sync_folder
from sghash.index.container import BLOCK, read_sections


def back_up(
    source: Path, moment: Moment, target: Path, *, callback: Progress | None = None
) -> Summary:
    """Copy what a collection holds at one moment to `target`, and verify the copy."""
    if target == source or source in target.parents or target in source.parents:
        raise InvalidInput(f"{target} overlaps the collection: give a folder elsewhere")
    made = make_folders(target)
    _refuse_foreign(target, moment.state)  # no lock file is left in a folder that is not ours
    lock = WriterLock(target)
    try:
        _refuse_foreign(target, moment.state)
        manifest = _Copy(moment, target, callback).make()
        with storage_errors(target):
            sync_folder(target)
            for path in (target, *made):
                sync_folder(path.parent)
        write_manifest(target, manifest)
        remove_ours(target, keep=manifest.files())
        return verify(target)
    finally:
        lock.release()


def _refuse_foreign(target: Path, state: State) -> None:
    """Go on only in an empty folder, in a copy of this collection, or in half of one."""
    names = names_in(target)
    if NAME not in names:
        if not all(is_ours(name) for name in names) or _has_records(target, names):
            raise StorageError(f"{target} is not empty: give a new folder")
        return
    manifest, there = state.manifest, read_manifest(target)
    if there.identity != manifest.identity or not manifest.identity:
        raise StorageError(f"{target} holds another collection: give a new folder")
    if not there.copied_end or _has_records(target, [there.log]):
        raise StorageError(
            f"{target} is no mere copy: rows were written to it that would be lost; give a new "
            "folder"
        )
    if (there.generation, there.copied_end) > (manifest.generation, state.log_end):
        raise StorageError(
            f"{target} holds a later moment than this one: call refresh(), or give a new folder"
        )


def _has_records(target: Path, names: Iterable[str]) -> bool:
    """Whether a log among these files holds anything: a copy's own log is empty."""
    with storage_errors(target, doing="read"):
        for name in names:
            with suppress(BadFile):  # half of one
                if name.startswith("log-") and read_log(target / name).payloads:
                    return True
    return False


class _Copy:
    """A copy in the making: every file gets a name that the copy before does not use."""

    def __init__(self, moment: Moment, target: Path, callback: Progress | None) -> None:
        self._state, self._holder = moment
        self._target, self._callback = target, callback
        self._present = _files_in(target)
        numbers = [int(name.split("-")[1]) for name in names_in(target) if _is_numbered(name)]
        self._number = max([self._state.manifest.next_file, *(n + 1 for n in numbers)])
        self._total, self._done = max(1, len(self._state)), 0

    def make(self) -> Manifest:
        """Write every file but the manifest, which is returned."""
        state, manifest = self._state, self._state.manifest
        entries = [self._segment(segment) for segment in state.stored if segment.n_alive]
        runs = [run for run in state.runs if run.n_alive]
        if runs:
            entries.append(self._rewritten(runs))
        folder = self._target / manifest.model
        self._place_model(folder)
        log, identity = self._name("log"), new_identity()
        create_log(self._target / log, identity)
        return replace(
            manifest, identity=manifest.identity or new_identity(), segments=tuple(entries),
            n_rows=len(state), log=log, log_identity=identity, log_end=0,
            copied_end=state.log_end, next_id=state.next_id, next_file=self._number,
            columns=dict(state.kinds), version=manifest.written_version, **describe_model(folder),
        )  # fmt: skip

    def _place_model(self, folder: Path) -> None:
        """Write the model, unless the copy before has it: that one must stay whole till the end."""
        if NAME in names_in(self._target):
            there = read_manifest(self._target)
            if there.fingerprint == self._state.manifest.fingerprint:
                with suppress(BadFile):
                    verify_model(self._target, there)
                    return
        self._holder.model.save(folder, overwrite=True)

    def _segment(self, segment: Segment) -> SegmentEntry:
        """Copy a segment byte by byte, unless it is there; its marks are written anew."""
        file = segment.file
        if file is None or not file.identity:  # version 1 is brought up to date by copying
            return self._rewritten([segment])
        name = self._present.get((file.identity, file.checksum))
        if name is None:
            name = self._name("segment")
            file.verify()
            write_new(self._target / name, _blocks(file.data))
        entry = SegmentEntry(
            name, len(segment.rows), identity=file.identity, checksum=file.checksum,
            kind=segment.rows.index.kind,
        )  # fmt: skip
        if (lists := segment.rows.lists) is not None:
            entry = self._lists(lists, entry)
        if segment.alive is not None:
            entry = write_marks(self._target / self._name("deleted"), segment, entry)
        self._tell(segment.n_alive)
        return entry

    def _lists(self, lists: Lists, entry: SegmentEntry) -> SegmentEntry:
        """Copy the lists of a segment byte by byte, unless they are there."""
        file = lists.file
        name = self._present.get((file.identity, file.checksum))
        if name is None:
            name = self._name("lists")
            file.verify()
            write_new(self._target / name, _blocks(file.data))
        return replace(
            entry, lists=name, lists_identity=file.identity, lists_checksum=file.checksum
        )

    def _rewritten(self, segments: list[Segment]) -> SegmentEntry:
        entry = write_segment(self._target / self._name("segment"), segments)
        self._tell(entry.n)
        return entry

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number - 1:08d}"

    def _tell(self, n: int) -> None:
        self._done += n
        if self._callback is not None:
            self._callback(self._done, self._total)


def _files_in(target: Path) -> dict[tuple[str, int], str]:
    """Identity and checksum -> name of whole segments and lists that an earlier call has copied."""
    found = {}
    magics = {"segment": MAGIC, "lists": LISTS_MAGIC}
    for name in sorted(names_in(target)):
        magic = magics.get(name.split("-")[0])
        if magic is not None and is_ours(name):
            try:
                file = read_sections(target / name, magic)
                file.verify()
            except (BadFile, OSError):
                continue
            found[file.identity, file.checksum] = name
    return found


def _is_numbered(name: str) -> bool:
    return is_ours(name) and name.split("-")[0] in NUMBERED


def _blocks(data: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(data), BLOCK):
        yield data[start : start + BLOCK]
