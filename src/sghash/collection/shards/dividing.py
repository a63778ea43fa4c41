"""Rows written anew into other folders: all appear whole, or none at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from sghash.collection.moment import Moment
from sghash.collection.storage.creation import new_folder
from sghash.collection.storage.disk import LOCK, WriterLock
from sghash.collection.storage.folders import make_folders, names_in
from sghash.collection.storage.manifest import SegmentEntry, read_manifest, write_manifest
from sghash.collection.storage.segments import Progress, Segment, write_segment
from sghash.collection.where.choice import live_ids
from sghash.errors import InvalidInput, StorageError
from sghash.files import Place, place_of, storage_errors, sync_folder
from sghash.validation import MAX_ID


def divide(
    moment: Moment, sources: Sequence[Path], targets: Sequence[Path], callback: Progress | None
) -> None:
    """Write all rows into new folders, as many in each, by rising ids; all folders must be new.

    They get their names when all of them are whole; what fails or interrupts leaves none.
    """
    _refuse_targets(sources, targets)
    ids = live_ids(moment.state.views)
    cuts = [len(ids) * part // len(targets) for part in range(1, len(targets))]
    inner = [int(ids[cut]) if cut < len(ids) else MAX_ID + 1 for cut in cuts]
    limits = [0, *inner, MAX_ID + 1]
    shards = [_NewShard(target) for target in targets]
    try:
        for place, shard in enumerate(shards):
            shard.fill(moment, limits[place], limits[place + 1])
            if callback is not None:
                callback(place + 1, len(targets))
        for shard in shards:
            shard.finish()
    except BaseException:
        for shard in shards:
            shard.remove()
        raise
    for shard in shards:
        shard.release()


def _refuse_targets(sources: Sequence[Path], targets: Sequence[Path]) -> None:
    if not targets or len(set(targets)) != len(targets):
        raise InvalidInput("give at least one folder for the new shards, and each only once")
    for target in targets:
        if any(target == s or s in target.parents or target in s.parents for s in sources):
            raise InvalidInput(f"{target} overlaps a shard: give a folder elsewhere")
        outer = next((other for other in targets if other in target.parents), None)
        if outer is not None:
            raise InvalidInput(f"{target} lies in {outer}: give folders beside each other")
        if target.exists() and (not target.is_dir() or names_in(target)):
            raise StorageError(f"{target} is not empty: give a new folder")


class _NewShard:
    """A collection that is made beside its place; its lock says that somebody is at work."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._folder = target.parent / f".{target.name}.{secrets.token_hex(8)}.new"
        self._lock: WriterLock | None = None
        self._made: Place | None = None
        self._above: list[Path] = []

    def fill(self, moment: Moment, low: int, high: int) -> None:
        """Write the rows with ids from `low` to `high` - 1; the lock is held from then on."""
        self._above = make_folders(self._target.parent)
        _remove_left_over(self._target)
        self._lock = _fill(moment, self._folder, low, high)
        self._made = place_of(os.stat(self._folder))

    def finish(self) -> None:
        """Put it into its place, which must be empty."""
        if os.name != "posix":
            self.release()  # a folder with open files cannot be renamed there
        with storage_errors(self._target):
            os.rename(self._folder, self._target)
            for path in (self._target, *self._above):
                sync_folder(path.parent)

    def release(self) -> None:
        """Let a writer in."""
        if self._lock is not None:
            self._lock.release()

    def remove(self) -> None:
        """Remove what was made here, wherever it is by now, and nothing of others."""
        self.release()
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):
            if place_of(os.stat(self._target)) == self._made:
                shutil.rmtree(self._target, ignore_errors=True)


def _remove_left_over(target: Path) -> None:
    """Remove what calls have left that were killed; one that is still at work holds its lock."""
    left_over = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.new")
    for name in names_in(target.parent):
        folder = target.parent / name
        # One without the file is being made in this very moment.
        if not left_over.fullmatch(name) or not (folder / LOCK).exists():
            continue
        with suppress(StorageError):
            WriterLock(folder).release()
            shutil.rmtree(folder, ignore_errors=True)


def _fill(moment: Moment, folder: Path, low: int, high: int) -> WriterLock:
    """A new collection of the rows with ids from `low` to `high` - 1; returns its lock."""
    state, holder = moment
    manifest = state.manifest
    empty = replace(
        manifest, segments=(), n_rows=0, columns={}, next_id=0, next_file=1, generation=0,
        log_end=0, copied_end=0, plan=None, jobs={},
    )  # fmt: skip
    empty = replace(empty, version=empty.written_version)
    parts = [part for s in state.segments() if (part := _within(s, low, high)).n_alive]
    with new_folder(folder, empty, holder.model) as lock:
        entries: tuple[SegmentEntry, ...] = ()
        if parts:
            path = folder / "segment-00000001"
            entries = (write_segment(path, parts, kind=manifest.kind),)
            with storage_errors(folder):
                sync_folder(folder)
        following = read_manifest(folder).following(
            segments=entries, n_rows=sum(part.n_alive for part in parts), next_file=2,
            next_id=state.next_id, columns=dict(state.kinds), plan=manifest.plan,
            jobs=manifest.jobs,
        )  # fmt: skip
        write_manifest(folder, following)
        return lock


def _within(segment: Segment, low: int, high: int) -> Segment:
    """The same segment with only the rows of these ids alive."""
    ids = segment.rows.ids_at(slice(None))
    start, stop = np.searchsorted(ids, [low, high])
    marks = np.zeros(len(ids), dtype=np.bool_)
    marks[start:stop] = True if segment.alive is None else segment.alive[start:stop]
    return Segment(segment.rows, segment.file, marks)
