"""Changing a collection: each function leaves the old state or the new one on the disk.

Small changes are records of the log. When the log has grown to `LOG_BYTES` or `LOG_RECORDS`, or a
change is as large as that by itself, what it holds becomes a segment. When there are more than
`MAX_SEGMENTS` segments, the `MERGE_SEGMENTS` smallest become one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from sghash.collection.lists.building import Build, Earlier
from sghash.collection.lists.stored import write_lists
from sghash.collection.storage.disk import WriterLock, place_file, settle_file
from sghash.collection.storage.folders import remove_ours
from sghash.collection.storage.loading import load_state, with_manifest
from sghash.collection.storage.log import START, LogWriter, create_log
from sghash.collection.storage.manifest import (
    NAME as MANIFEST,
    Manifest,
    SegmentEntry,
    check_readable,
    new_identity,
    read_manifest,
    write_manifest,
)
from sghash.collection.storage.rows import Rows, describe_rows, rows_to_arrays
from sghash.collection.storage.segments import (
    Encode,
    Progress,
    Segment,
    read_segment,
    write_marks,
    write_segment,
)
from sghash.collection.storage.state import Draft, State, shape_of
from sghash.errors import BadFile, StorageError
from sghash.files import storage_errors, sync_folder
from sghash.index.container import pack_sections, unpack_sections
from sghash.validation import Ids

logger = logging.getLogger("sghash.collection")

LOG_BYTES = 1 << 24
LOG_RECORDS = 1024
MAX_SEGMENTS = 16
MERGE_SEGMENTS = 12

#: Whole segment files that lie elsewhere, and what the manifest must say of each.
Staging: TypeAlias = Sequence[tuple[Path, SegmentEntry]]


class Whole(NamedTuple):
    """All rows become one segment: with new codes, with changes of the manifest, in lists."""

    encode: Encode | None = None
    changes: Mapping[str, Any] = MappingProxyType({})
    build: Build | None = None


class Writer:
    """The one writer of a collection: holds the lock, the log's handle and the current state."""

    state: State

    def __init__(
        self,
        folder: Path,
        *,
        lock: WriterLock | None = None,
        in_memory: bool = False,
        shown: str | None = None,
    ) -> None:
        self.folder, self._in_memory, self._number = folder, in_memory, 0
        read_manifest(folder)  # no lock file is left in a folder that is no collection
        self._lock = WriterLock(folder, shown=shown) if lock is None else lock
        self._log: LogWriter | None = None
        # The number of records from which on a log may be ended.
        self._flush_from = 0
        # Whether the folder may hold another manifest after a power cut than it shows now: the
        # one before may have been killed before it knew.
        self._unsettled = True
        # False from the first moment of a change to its last: whatever interrupts it, the next
        # change reads the disk again before it relies on memory. Busy: what a change calls back
        # must not begin another.
        self._sure = self._is_busy = False
        try:
            self._return_to_disk()
            self._note_log_end()
            remove_ours(self.folder, keep=self.state.manifest.files())
        except BaseException:
            self._drop_log()
            if lock is None:  # else its giver has things to undo first
                self._lock.release()
            raise

    @property
    def is_own(self) -> bool:
        """Whether it was opened by this very process, not by one that forked it."""
        return self._lock.is_own

    def close(self) -> None:
        """Give up the right to write."""
        self.refuse_within_change()
        sure, self._sure = self._sure, False
        try:
            if sure and self.is_own:
                self._note_log_end()
        finally:
            self._drop_log()
            self._lock.release()

    def ready(self) -> State:
        """The state as it is on the disk; refuse unless this process may change it.

        What a change relies on, ids above all, must be taken from here: after a change that was
        interrupted, memory may not know what the disk holds.
        """
        self.refuse_within_change()
        self._lock.check()
        if not self._sure:
            self._return_to_disk()
        return self.state

    def refuse_within_change(self) -> None:
        """Refuse what would change the collection, or let others in, in the middle of a change."""
        if self._is_busy and self.is_own:
            raise StorageError(
                f"{self.folder} is being changed by this very call: let callbacks and handlers of "
                "signals only look, and change it when the call has returned"
            )

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

    def compact(self, *, build: Build | None = None, callback: Progress | None = None) -> None:
        """Bring all rows into one segment without deleted ones, in lists that `build` makes."""
        self._guarded(lambda: self._flush(self.state, Whole(build=build), callback=callback))

    def reencode(
        self,
        changes: Mapping[str, Any],
        encode: Encode,
        *,
        build: Build | None = None,
        callback: Progress | None = None,
    ) -> None:
        """Write all rows anew with codes made by `encode`, and the manifest's `changes`."""
        whole = Whole(encode, changes, build)
        self._guarded(lambda: self._flush(self.state, whole, callback=callback))

    def note(self, **said: Any) -> None:
        """Let the manifest say something else of the collection (`plan`, `roles`), durably."""

        def change() -> None:
            self._leave_version_1()
            following = self.state.manifest.following(**said)
            self._replace_manifest(following)
            self.state = with_manifest(self.state, following)

        self._guarded(change)

    def commit(
        self, staged: Staging, job: str, record: Mapping[str, Any], kinds: Mapping[str, str]
    ) -> None:
        """Make segments that were written elsewhere count, all of them in one step.

        Their ids and keys must be new; `kinds` are those of their columns. The staged files stay
        where they are: a crash before the manifest is replaced loses nothing.
        """

        def change() -> None:
            self._leave_version_1()
            manifest, placed = self.state.manifest, []
            for path, entry in staged:
                name = self._new_name("segment")
                place_file(path, self.folder / name)
                placed.append(replace(entry, file=name))
            with storage_errors(self.folder):
                sync_folder(self.folder)
            following = manifest.following(
                segments=(*manifest.segments, *placed), next_file=self._number,
                n_rows=manifest.n_rows + sum(entry.n for entry in placed),
                next_id=max(manifest.next_id, record["first"] + record["n"]),
                jobs={**manifest.jobs, job: dict(record)}, columns={**manifest.columns, **kinds},
            )  # fmt: skip
            self._replace_manifest(following)
            # Memory does not know the new rows. A job that is committed twice changes nothing.
            self._follow_disk(must=True)

        self._guarded(change)

    def _record(self, about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        def change() -> None:
            assert self._log is not None  # `_guarded` opened it
            payload = b"".join(pack_sections(about, arrays))
            draft = Draft(self.state)
            # Out of the record, not out of the caller's arrays, which the caller may change later.
            draft.apply(self._log.path, *unpack_sections(self._log.path, payload))
            self._log.append(payload)
            self.state = draft.finished(log_end=self._log.end, log_place=self.state.log_place)

        self._guarded(change)
        is_long = self.state.log_end >= LOG_BYTES or self.state.n_records >= LOG_RECORDS
        if is_long and self.state.n_records >= self._flush_from:
            try:
                self._guarded(lambda: self._flush(self.state))
            except Exception as error:
                # The change itself is on the disk: saying it failed would invite a second one.
                self._flush_from = self.state.n_records + LOG_RECORDS // 64
                logger.warning("the log of %s stays long for now: %r", self.folder, error)

    def _write_directly(self, about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Make a segment of a large change at once: the log would only be written twice."""
        draft = Draft(self.state)
        draft.apply(self.folder, about, arrays)
        self._flush(draft.finished(log_end=self.state.log_end, log_place=self.state.log_place))

    def _guarded(self, change: Callable[[], None]) -> None:
        """Make a change; if it fails, go back to what is on the disk."""
        self.ready()
        try:
            self._sure, self._is_busy = False, True
            change()
        except BaseException:
            # If even that cannot be, the next change tries again before anything else.
            with suppress(Exception):
                self._return_to_disk()
            raise
        finally:
            self._is_busy = False
        self._sure = self._log is not None

    def _return_to_disk(self) -> None:
        """Forget what is in memory: read the state again, and open its log."""
        self._sure = False
        self._drop_log()
        self._continue(load_state(self.folder, in_memory=self._in_memory))

    def _drop_log(self) -> None:
        """Close the log."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def _continue(self, state: State) -> None:
        """Go on from what was read: all its whole records count, and are acknowledged now."""
        self._lock.check()
        if self._unsettled:
            # What is acknowledged from here on must belong to the manifest that stays.
            settle_file(self.folder / MANIFEST)
            self._unsettled = False
        manifest = state.manifest
        path = self.folder / manifest.log
        log = LogWriter(path, manifest.log_identity, state.log_end, state.log_place)
        state.settled = None
        self.state, self._log = state, log
        self._sure = True

    def _flush(
        self,
        state: State,
        whole: Whole | None = None,
        *,
        callback: Progress | None = None,
    ) -> None:
        """Write segments, a new log, then the manifest that names them; then remove the old."""
        manifest, changes = state.manifest, {} if whole is None else whole.changes
        entries: list[SegmentEntry] = []
        merged = self._to_merge(state, whole is not None)
        for entry, segment in zip(manifest.segments, state.stored, strict=True):
            if segment not in merged and segment.n_alive:
                if len(segment.killed):
                    entry = write_marks(self.folder / self._new_name("deleted"), segment, entry)
                entries.append(entry)
        if any(segment.n_alive for segment in merged):
            path = self.folder / self._new_name("segment")
            like, encode = replace(manifest, **changes), None if whole is None else whole.encode
            entry = write_segment(path, merged, kind=like.kind, encode=encode, callback=callback)
            if whole is not None and whole.build is not None:
                before = merged if encode is None else []
                entry = self._in_lists(entry, like, whole.build, before)
            entries.append(entry)
        log, log_identity = self._new_name("log"), new_identity()
        create_log(self.folder / log, log_identity)
        with storage_errors(self.folder):
            sync_folder(self.folder)
        following = manifest.following(
            segments=tuple(entries), n_rows=len(state), log=log, log_identity=log_identity,
            log_end=0, next_id=state.next_id, next_file=self._number, columns=state.kinds,
            **changes,
        )  # fmt: skip
        self._replace_manifest(following)
        self._flush_from = 0  # the log is new
        # The change counts from here on: what fails now is only put off.
        if not changes:
            self.state = state
        # With other codes memory does not know the new ones: to be silent would be to lie.
        self._follow_disk(must=bool(changes))

    def _leave_version_1(self) -> None:
        """Begin a log with an identity, where there is none: every later manifest names it."""
        if self.state.manifest.version == 1:
            self._flush(self.state)

    def _follow_disk(self, *, must: bool) -> None:
        """Go on from the manifest that was just written; unless it `must` be now, later will do."""
        try:
            self._drop_log()
            self._continue(load_state(self.folder, self.state, in_memory=self._in_memory))
            remove_ours(self.folder, keep=self.state.manifest.files())
        except Exception as error:
            if must:
                raise
            logger.warning("%s is written, but cannot be continued yet: %r", self.folder, error)

    def _in_lists(
        self, entry: SegmentEntry, like: Manifest, build: Build, before: list[Segment]
    ) -> SegmentEntry:
        """Write the lists of a segment that was just written; the same entry where it has none.

        Of the segments that it was made of, the largest in lists hands its lists on.
        """
        with storage_errors(self.folder / entry.file, doing="read"):
            segment = read_segment(self.folder, entry, shape_of(like), in_memory=False)
        earlier = None
        for part in sorted(before, key=lambda part: part.n_alive):
            if (lists := part.rows.lists) is not None:
                earlier = Earlier(lists, part.find(segment.rows.ids_at(slice(None))))
        built = build(segment.rows, earlier)
        if built is None:
            return entry
        return write_lists(
            self.folder / self._new_name("lists"), built.lists, entry, built.origin,
            built.learned_rows,
        )  # fmt: skip

    def _replace_manifest(self, following: Manifest) -> None:
        """Put a manifest in the place of the one that this writer knows, and of no other."""
        self._lock.check()
        check_readable(self.folder, following)
        with storage_errors(self.folder, doing="read"):
            present = read_manifest(self.folder)
        if present != self.state.manifest:
            raise StorageError(
                f"{self.folder} was changed by somebody else while it was open for writing here: "
                "nothing was written; close this collection and open it again"
            )
        self._unsettled = True
        write_manifest(self.folder, following)
        self._unsettled = False

    def _note_log_end(self) -> None:
        """Note in the manifest how long the log is: an older copy of it will not pass for it.

        Best effort: the rows are on the disk without it.
        """
        state = self.state
        if state.manifest.version == 1 or state.log_end <= max(START, state.manifest.log_end):
            return
        sure, self._sure = self._sure, False
        try:
            following = state.manifest.following(log_end=state.log_end)
            self._replace_manifest(following)
            self.state, self._sure = with_manifest(state, following), sure
        except (StorageError, BadFile) as error:
            logger.warning("the length of the log of %s is not noted: %s", self.folder, error)

    def _new_name(self, kind: str) -> str:
        """A name never used before, not even by a change that failed."""
        self._number = max(self._number, self.state.manifest.next_file) + 1
        return f"{kind}-{self._number - 1:08d}"

    def _to_merge(self, state: State, merge_all: bool) -> list[Segment]:
        """The runs of the log, and stored segments where there are too many."""
        if merge_all:
            return state.segments()
        n_after = len(state.stored) + bool(state.runs)
        if n_after <= MAX_SEGMENTS:
            return list(state.runs)
        smallest = sorted(state.stored, key=lambda segment: segment.n_alive)
        return [*smallest[:MERGE_SEGMENTS], *state.runs]
