"""Reading the state of a collection from the disk, beside a writer that may be changing it."""

from __future__ import annotations

import time
from pathlib import Path

from sghash.collection.storage.log import LogContents, read_log
from sghash.collection.storage.manifest import Manifest, read_manifest
from sghash.collection.storage.segments import Segment, is_still, marked_anew, read_segment
from sghash.collection.storage.state import Draft, State, shape_of
from sghash.errors import BadFile, StorageError
from sghash.files import storage_errors
from sghash.index.container import unpack_sections

# A writer may replace files between our reading of the manifest and of what it names.
_ATTEMPTS = 100


def load_state(folder: Path, previous: State | None = None, *, in_memory: bool = False) -> State:
    """Read the collection as it is now; mappings and records that are still valid are kept.

    `previous` stays what it was: if anything fails here, it is as good as before. With
    `in_memory` nothing is mapped, and every checksum is tested.
    """
    with storage_errors(folder, doing="read"):
        for attempt in range(_ATTEMPTS):
            manifest = read_manifest(folder)
            fault: Exception = StorageError(f"{folder} changes all the time: try again")
            try:
                state = _load(folder, manifest, previous, in_memory=in_memory)
                if _is_of_one_moment(folder, manifest):
                    return state
            except (FileNotFoundError, BadFile) as error:
                # A folder that is being replaced looks damaged: it is, if it stays so.
                fault = error
                if read_manifest(folder) == manifest:
                    break
                time.sleep(0.001 * min(attempt, 20))
    if isinstance(fault, FileNotFoundError):
        raise BadFile(
            f"{folder} is damaged: {fault.filename} is missing; restore it from a copy"
        ) from fault
    raise fault


def _is_of_one_moment(folder: Path, manifest: Manifest) -> bool:
    """Whether no segments were committed beside the log while it was read.

    Only jobs bring such segments, and they stay named, whatever log the manifest names by now.
    """
    return read_manifest(folder).jobs == manifest.jobs


def _load(folder: Path, manifest: Manifest, previous: State | None, *, in_memory: bool) -> State:
    base = previous
    if previous is not None and previous.settled is not None:
        base = previous.settled
    if base is not None and base.manifest.same_files(manifest):
        contents = read_log(folder / manifest.log, base.log_end)
        if manifest.log_identity or contents.place == base.log_place:
            return _follow(folder, with_manifest(base, manifest), contents)
    mapped = [] if previous is None else previous.stored
    stored: list[Segment] = []
    for entry in manifest.segments:
        same = next((s for s in mapped if is_still(s, entry, folder)), None)
        stored.append(
            read_segment(folder, entry, shape_of(manifest), in_memory=in_memory)
            if same is None
            else marked_anew(folder, entry, same)
        )
    state = State(manifest, tuple(stored))
    if manifest.version > 1 and len(state) != manifest.n_rows:
        raise BadFile(
            f"{folder} is damaged: its segments have {len(state)} rows, the manifest says "
            f"{manifest.n_rows}; restore it from a copy"
        )
    return _follow(folder, state, read_log(folder / manifest.log))


def with_manifest(state: State, manifest: Manifest) -> State:
    """The same rows, now that another manifest names the same files."""
    return State(
        manifest, state.stored, state.runs, log_end=state.log_end, n_records=state.n_records,
        next_id=max(state.next_id, manifest.next_id), kinds=state.kinds, log_place=state.log_place,
    )  # fmt: skip


def _follow(folder: Path, state: State, contents: LogContents) -> State:
    """Apply the records that the log got since."""
    manifest, path = state.manifest, folder / state.manifest.log
    if contents.identity != manifest.log_identity:
        raise BadFile(
            f"{path} is not the log that the manifest of {folder} names, though it is called the "
            "same: restore it from a copy"
        )
    end = contents.ends[-1] if contents.ends else state.log_end
    if end < manifest.log_end or contents.acknowledged < state.log_end:
        raise BadFile(
            f"{path} is shorter than it was when it was last closed: an older copy was put in its "
            "place; restore the newest one"
        )
    draft, settled = Draft(state), None
    if state.log_end == contents.acknowledged < end:
        settled = draft.finished(log_end=state.log_end, log_place=contents.place)
    for payload, here in zip(contents.payloads, contents.ends, strict=True):
        draft.apply(path, *unpack_sections(path, payload))
        if here == contents.acknowledged < end:
            settled = draft.finished(log_end=here, log_place=contents.place)
    following = draft.finished(log_end=end, log_place=contents.place)
    following.settled = settled
    return following
