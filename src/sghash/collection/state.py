"""What a collection holds at one moment: the manifest's segments, and what the log adds to them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.log import START, read_log
from sghash.collection.manifest import Manifest, read_manifest
from sghash.collection.rows import Rows, join_rows, rows_from_arrays
from sghash.collection.sections import unpack_sections
from sghash.collection.segments import Segment, View, read_alive, read_segment
from sghash.collection.texts import hashes_of, rows_of_keys
from sghash.errors import BadFile
from sghash.validation import Ids

# A writer may replace files between our reading of the manifest and of what it names.
_ATTEMPTS = 100


class Places(NamedTuple):
    """Where rows are: number of the segment (-1: nowhere) and row in it."""

    segments: NDArray[np.int64]
    rows: NDArray[np.int64]


class State:
    """Segments of the manifest first, then the runs that only the log holds, oldest first."""

    def __init__(self, manifest: Manifest, stored: list[Segment]) -> None:
        self.manifest = manifest
        self.stored = stored
        self.runs: list[Segment] = []
        self.log_end = START
        self.n_records = 0
        self.next_id = manifest.next_id
        self.kinds = dict(manifest.columns)

    def __len__(self) -> int:
        return sum(segment.n_alive for segment in self.segments())

    def segments(self) -> list[Segment]:
        """All segments, those of the log as well."""
        return [*self.stored, *self.runs]

    def views(self) -> list[View]:
        """What a search works on; rows of the log are brought together first."""
        if len(self.runs) > 1:
            self.runs = [_joined(self.runs)]
        return [segment.view() for segment in self.segments() if segment.n_alive]

    def find(self, ids: Ids) -> Places:
        """Where these ids are; every id is alive at most once."""
        owner = np.full(len(ids), -1, dtype=np.int64)
        rows = np.full(len(ids), -1, dtype=np.int64)
        for number, segment in enumerate(self.segments()):
            found = segment.find(ids)
            here = found >= 0
            owner[here], rows[here] = number, found[here]
        return Places(owner, rows)

    def find_keys(self, keys: Sequence[str]) -> Ids:
        """Id of each key that is alive, else -1."""
        ids = np.full(len(keys), -1, dtype=np.int64)
        hashes = hashes_of(keys)
        for segment in self.segments():
            table = segment.rows.keys_by_hash
            if table is None or segment.rows.keys is None:
                continue
            for i, rows in enumerate(rows_of_keys(keys, hashes, segment.rows.keys, table)):
                for row in rows:
                    if segment.alive is None or segment.alive[row]:
                        ids[i] = segment.rows.ids_at(np.asarray([row]))[0]
        return ids

    def kill(self, ids: Ids) -> None:
        """Mark the rows of these ids as deleted, where there are any."""
        owner, rows = self.find(ids)
        for number, segment in enumerate(self.segments()):
            here = rows[owner == number]
            if len(here):
                segment.kill(np.unique(here))

    def apply(self, about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Do what a record of the log says."""
        self.n_records += 1
        if about["op"] == "delete":
            self.kill(arrays["ids"])
            return
        rows = rows_from_arrays(about, arrays)
        if about["op"] == "upsert":
            self.kill(rows.ids_at(slice(None)))
        self.append(rows)

    def append(self, rows: Rows) -> None:
        """Add rows whose ids are not alive anywhere; runs of like size are joined."""
        if not len(rows):
            return
        last = rows.first + len(rows) - 1 if rows.ids is None else int(rows.ids[-1])
        self.next_id = max(self.next_id, last + 1)
        self.kinds.update({name: column.kind for name, column in rows.columns.items()})
        self.runs.append(Segment(rows))
        while len(self.runs) > 1 and len(self.runs[-2].rows) <= 2 * len(self.runs[-1].rows):
            self.runs[-2:] = [_joined(self.runs[-2:])]


def _joined(runs: Sequence[Segment]) -> Segment:
    parts = [
        run.rows if run.n_alive == len(run.rows) else run.rows.take(run.live_rows()) for run in runs
    ]
    return Segment(join_rows(parts))


def load_state(folder: Path, previous: State | None = None) -> State:
    """Read the collection as it is now; mappings and records that are still valid are kept."""
    for _ in range(_ATTEMPTS):
        manifest = read_manifest(folder)
        try:
            if previous is not None and previous.manifest == manifest:
                return _follow(folder, previous)
            return _load(folder, manifest, previous)
        except FileNotFoundError as error:
            missing = error
            if read_manifest(folder).generation == manifest.generation:
                break
            time.sleep(0.001)
    raise BadFile(
        f"{folder} is damaged: {missing.filename} is missing; restore it from a copy"
    ) from missing


def _load(folder: Path, manifest: Manifest, previous: State | None) -> State:
    mapped = {} if previous is None else {s.file: s.rows for s in previous.stored}
    stored = []
    for entry in manifest.segments:
        rows = mapped.get(entry.file) or read_segment(folder, entry.file, entry.n)
        alive = None if entry.deleted is None else read_alive(folder / entry.deleted, entry.n)
        stored.append(Segment(rows, entry.file, alive))
    return _follow(folder, State(manifest, stored))


def _follow(folder: Path, state: State) -> State:
    """Apply the records that the log got since."""
    contents = read_log(folder / state.manifest.log, state.log_end)
    for payload in contents.payloads:
        state.apply(*unpack_sections(payload))
    state.log_end = contents.end
    return state
