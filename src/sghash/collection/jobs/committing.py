"""The other side: all segments of a job, checked, become part of the collection in one step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from sghash.collection.jobs.staging import (
    check_belongs,
    discard,
    entry_of,
    staging_place,
    was_committed,
)
from sghash.collection.jobs.tasks import Staged, check_job
from sghash.collection.shared_keys import shared_key
from sghash.collection.storage.manifest import SegmentEntry
from sghash.collection.storage.segments import Progress, Segment, read_segment
from sghash.collection.storage.state import State, shape_of
from sghash.collection.storage.verification import check_contents
from sghash.collection.storage.writer import Writer
from sghash.errors import BadFile, InvalidInput, StorageError
from sghash.files import storage_errors

_STAGED_NAME = re.compile(r"part-[0-9]{8,18}-[0-9a-f]{32}", re.ASCII)


def commit_job(
    folder: Path,
    writer: Writer,
    change: Callable[[Callable[[], None]], None],
    segments: Iterable[Any],
    job: str,
    model: Any,
    callback: Progress | None,
) -> int:
    """Commit all segments of a job by `change`, unless they were; return the number of its rows."""
    state, whole = writer.ready(), whole_job(segments, job)
    n_rows = sum(segment.n for segment in whole)
    if not was_committed(state.manifest, job, whole[0].digest):
        staged = checked_segments(folder, state, whole, model, callback)
        if writer.ready() is not state:
            raise StorageError(
                "rows were changed by the callback of this commit: commit again, and let "
                "callbacks only look"
            )
        record = {"digest": whole[0].digest, "first": whole[0].first, "n": n_rows}
        change(lambda: writer.commit(staged.files, job, record, staged.kinds))
    discard(folder, job)
    return n_rows


def whole_job(segments: Iterable[Any], job: str) -> list[Staged]:
    """One segment for each part of a job, in their order; refuse if one is missing."""
    check_job(job)
    if isinstance(segments, (str, bytes)) or not isinstance(segments, Iterable):
        raise InvalidInput("segments must be a list of what encode_part returned")
    by_part: dict[int, Staged] = {}
    for segment in map(Staged.of, segments):
        one = next(iter(by_part.values()), segment)
        if segment.job != job:
            raise InvalidInput(f"a segment belongs to the job {segment.job!r}, not to {job!r}")
        if (segment.digest, segment.n_parts) != (one.digest, one.n_parts):
            raise InvalidInput(
                f"segments come from two preparations of the job {job!r}: prepare it once, and "
                "encode all of its tasks"
            )
        by_part.setdefault(segment.part, segment)
    if not by_part:
        raise InvalidInput(f"there is nothing to commit for the job {job!r}: encode its tasks")
    n_parts = next(iter(by_part.values())).n_parts
    missing = next((part for part in range(n_parts) if part not in by_part), None)
    if missing is not None or len(by_part) != n_parts:
        raise InvalidInput(
            f"the job {job!r} has {n_parts} parts, and part {missing} is missing: encode it first"
        )
    return [by_part[part] for part in range(n_parts)]


class Checked(NamedTuple):
    """Staged files with their entries, and the kinds of their columns."""

    files: list[tuple[Path, SegmentEntry]]
    kinds: dict[str, str]


def checked_segments(
    folder: Path, state: State, segments: list[Staged], model: Any, callback: Progress | None
) -> Checked:
    """Every staged file with its entry; each byte is read, and must be what its worker wrote.

    Checksums alone would do against a bad disk; what the bytes say is looked at as well, for a
    worker may have written nonsense.
    """
    manifest, shape, found = state.manifest, shape_of(state.manifest), []
    read: list[Segment] = []
    expected = segments[0].first
    for done, staged in enumerate(segments, start=1):
        place = staging_place(folder, staged.job, staged.digest)
        name, entry = staged.file or "", entry_of(staged, manifest)
        if not _STAGED_NAME.fullmatch(name) or staged.first != expected:
            raise InvalidInput(f"part {staged.part} is no staged segment: encode its task again")
        path = place / name
        try:
            with storage_errors(path, doing="read"):
                if path.is_symlink() or not path.is_file():
                    raise BadFile(f"{path} is no file, or gone: encode its task again")
                read.append(read_segment(place, entry, shape, in_memory=False))
        except BadFile as error:
            raise BadFile(
                f"part {staged.part} of the job {staged.job!r} cannot be committed ({error})"
            ) from error
        file = read[-1].file
        assert file is not None  # it was read from one
        check_belongs(file, staged, manifest)
        if file.about.get("n") != staged.n or "ids" in file.arrays:
            raise BadFile(f"{path} has other ids than its job says: encode its task again")
        file.verify()
        check_contents(path, read[-1].rows, manifest.n_bits, model)
        found.append((path, entry))
        expected += staged.n
        if callback is not None:
            callback(done, len(segments))
    if segments[0].first < state.next_id:
        raise InvalidInput(
            f"ids from {segments[0].first} on were given to other rows since the job "
            f"{segments[0].job!r} was prepared: prepare and encode it again"
        )
    _refuse_keys(state, read, segments[0].job)
    return Checked(found, _kinds(state, read))


def _refuse_keys(state: State, read: list[Segment], job: str) -> None:
    twice = shared_key([state.segments(), *([segment] for segment in read)])
    if twice is None:
        return
    if not twice.first:
        raise InvalidInput(
            f"key {twice.key!r} is in the collection already: a job adds rows, leave it out of the "
            "files, or use upsert"
        )
    raise InvalidInput(
        f"key {twice.key!r} is in the parts {twice.first - 1} and {twice.second - 1} of the job "
        f"{job!r}: every row needs a key of its own"
    )


def _kinds(state: State, read: list[Segment]) -> dict[str, str]:
    """Kinds of the columns that the segments bring; refuse those the collection has otherwise."""
    kinds: dict[str, str] = {}
    for segment in read:
        for name, column in segment.rows.columns.items():
            known = state.kinds.get(name, kinds.setdefault(name, column.kind))
            if known != column.kind:
                raise InvalidInput(
                    f"metadata column {name!r} holds {known} values now, {column.kind} values in "
                    "the job: prepare and encode it again"
                )
    return kinds
