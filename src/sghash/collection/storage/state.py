"""What a collection holds at one moment: the manifest's segments, and what the log adds to them.

A `State` never changes, so a search that holds one sees one moment, whatever happens beside it. A
change is made on a `Draft`, which becomes the next state when all of it has succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.storage.log import START
from sghash.collection.storage.manifest import Manifest
from sghash.collection.storage.rows import Rows, Shape, checked_rows, join_rows
from sghash.collection.storage.segments import Segment, View
from sghash.collection.storage.texts import hashes_of, rows_of_keys
from sghash.errors import BadFile
from sghash.files import Place
from sghash.index import CodeIndex, HammingIndex, TableIndex
from sghash.validation import Ids


class Places(NamedTuple):
    """Where rows are: number of the segment (-1: nowhere) and row in it."""

    segments: NDArray[np.int64]
    rows: NDArray[np.int64]


class State:
    """One moment of a collection: segments of the manifest, then runs that only the log holds.

    `log_place` tells the log's file from another of its name. `settled` is the same collection
    without the records of the log that no writer has acknowledged yet, None if there are none.
    `parts` are the states that this one joins: a search visits what it would visit in each.
    """

    def __init__(
        self,
        manifest: Manifest,
        stored: tuple[Segment, ...],
        runs: tuple[Segment, ...] = (),
        *,
        log_end: int = START,
        n_records: int = 0,
        next_id: int | None = None,
        kinds: Mapping[str, str] | None = None,
        log_place: Place | None = None,
        settled: State | None = None,
        parts: Sequence[State] = (),
    ) -> None:
        self.manifest, self.stored, self.runs = manifest, stored, runs
        self.log_end, self.n_records, self.log_place = log_end, n_records, log_place
        self.next_id = manifest.next_id if next_id is None else next_id
        self.kinds = dict(manifest.columns if kinds is None else kinds)
        self.settled, self.parts = settled, tuple(parts)
        self._views: list[View] | None = None

    def __len__(self) -> int:
        return sum(segment.n_alive for segment in self.segments())

    def knowing(self, kinds: Mapping[str, str]) -> State:
        """The same rows, where conditions may name columns that none of them has."""
        return State(
            self.manifest, self.stored, self.runs, log_end=self.log_end, n_records=self.n_records,
            next_id=self.next_id, kinds={**kinds, **self.kinds}, log_place=self.log_place,
            parts=self.parts,
        )  # fmt: skip

    def segments(self) -> list[Segment]:
        """All segments, those of the log as well."""
        return [*self.stored, *self.runs]

    def find(self, ids: Ids) -> Places:
        """Where these ids are; every id is alive at most once."""
        return _find(self.segments(), ids)

    @property
    def views(self) -> list[View]:
        """What a search works on; rows of the log are brought together first."""
        if self.parts:
            return [view for part in self.parts for view in part.views]
        if self._views is None:
            joined = [_joined(self.runs)] if len(self.runs) > 1 else list(self.runs)
            parts = [*self.stored, *joined]
            self._views = [segment.view() for segment in parts if segment.n_alive]
        return self._views

    def find_keys(self, keys: Sequence[str]) -> Ids:
        """Id of each key that is alive, else -1."""
        ids = np.full(len(keys), -1, dtype=np.int64)
        hashes = hashes_of(keys)
        for segment in self.segments():
            table, alive = segment.rows.keys_by_hash, segment.alive
            if table is None or segment.rows.keys is None:
                continue
            for i, rows in enumerate(rows_of_keys(keys, hashes, segment.rows.keys, table)):
                for row in rows:
                    if alive is None or alive[row]:
                        ids[i] = segment.rows.ids_at(np.asarray([row]))[0]
        return ids


class Draft:
    """A state in the making: records of the log are applied to it, one after the other."""

    def __init__(self, state: State) -> None:
        self.manifest = state.manifest
        self.stored, self.runs = list(state.stored), list(state.runs)
        self.n_records, self.next_id, self.kinds = state.n_records, state.next_id, dict(state.kinds)

    def finished(self, *, log_end: int, log_place: Place | None) -> State:
        """The state that this has become, with the log read up to `log_end`."""
        return State(
            self.manifest, tuple(self.stored), tuple(self.runs), log_end=log_end,
            n_records=self.n_records, next_id=self.next_id, kinds=self.kinds, log_place=log_place,
        )  # fmt: skip

    def apply(self, path: Path, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Do what a record of the log at `path` says."""
        self.n_records += 1
        operation = about.get("op")
        if operation == "delete":
            ids = arrays.get("ids")
            if ids is None or ids.dtype != np.int64 or ids.ndim != 1:
                raise BadFile(f"{path} is damaged: a record deletes no ids; restore it from a copy")
            self._kill(ids)
            return
        if operation not in ("add", "upsert"):
            raise BadFile(f"{path} has a record of the kind {operation!r}: upgrade sghash")
        rows = checked_rows(path, about, arrays, shape_of(self.manifest))
        ids = rows.ids_at(slice(None))
        if not len(ids):
            return
        if operation == "upsert":
            self._kill(ids)
        elif ids[0] < self.next_id and (self._find(ids).segments >= 0).any():
            raise BadFile(f"{path} is damaged: it adds an id twice; restore it from a copy")
        self._append(rows, int(ids[-1]))

    def _find(self, ids: Ids) -> Places:
        return _find([*self.stored, *self.runs], ids)

    def _kill(self, ids: Ids) -> None:
        """Mark the rows of these ids as deleted, where there are any."""
        owner, rows = self._find(ids)
        for number in np.unique(owner[owner >= 0]).tolist():
            here = np.unique(rows[owner == number])
            if number < len(self.stored):
                self.stored[number] = self.stored[number].without(here)
            else:
                at = number - len(self.stored)
                self.runs[at] = self.runs[at].without(here)

    def _append(self, rows: Rows, last: int) -> None:
        """Add rows whose ids are not alive anywhere; runs of like size are joined."""
        self.next_id = max(self.next_id, last + 1)
        self.kinds.update({name: column.kind for name, column in rows.columns.items()})
        self.runs.append(Segment(rows))
        while len(self.runs) > 1 and len(self.runs[-2].rows) <= 2 * len(self.runs[-1].rows):
            self.runs[-2:] = [_joined(self.runs[-2:])]


def shape_of(manifest: Manifest) -> Shape:
    """What every row of a collection looks like."""
    return Shape(empty_index(manifest), manifest.width, manifest.keep_vectors)


def empty_index(manifest: Manifest) -> CodeIndex:
    """An index of the kind that every segment holds."""
    if manifest.kind == TableIndex.kind:
        return TableIndex(manifest.n_bits // 8)
    return HammingIndex(manifest.n_bits)


def _find(segments: Sequence[Segment], ids: Ids) -> Places:
    owner = np.full(len(ids), -1, dtype=np.int64)
    rows = np.full(len(ids), -1, dtype=np.int64)
    for number, segment in enumerate(segments):
        found = segment.find(ids)
        here = found >= 0
        owner[here], rows[here] = number, found[here]
    return Places(owner, rows)


def _joined(runs: Sequence[Segment]) -> Segment:
    parts = [
        run.rows if run.n_alive == len(run.rows) else run.rows.take(run.live_rows()) for run in runs
    ]
    return Segment(join_rows(parts))
