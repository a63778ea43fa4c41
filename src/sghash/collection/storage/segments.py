"""Segments: rows in a file that never changes, beside a mark for each row that was deleted."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.lists.stored import are_lists_of, check_identity, read_lists
from sghash.collection.storage.columns import join_columns
from sghash.collection.storage.disk import write_new
from sghash.collection.storage.manifest import SegmentEntry, new_identity
from sghash.collection.storage.rows import Rows, Shape, checked_rows, describe_rows, rows_to_arrays
from sghash.collection.storage.texts import empty_texts, join_texts, key_table
from sghash.errors import BadFile
from sghash.files import place_of
from sghash.index.container import (
    Packing,
    Section,
    SectionFile,
    read_sections,
    section_of,
)
from sghash.index.rows import row_ids
from sghash.validation import Codes, Ids

MAGIC = b"SGHSEGMT"
DELETED_MAGIC = b"SGHDELET"

Encode = Callable[[NDArray[Any]], Codes]
Progress = Callable[[int, int], None]


_NO_ROWS = np.empty(0, dtype=np.int64)


class Segment:
    """Rows and which of them are alive; it never changes, `without` makes another one.

    `file` is where its rows come from, None while they are only in the log. `marks` says which
    rows were alive when it was read (None: all), `killed` which were deleted since, rising.
    """

    def __init__(
        self,
        rows: Rows,
        file: SectionFile | None = None,
        marks: NDArray[np.bool_] | None = None,
        killed: NDArray[np.int64] = _NO_ROWS,
        n_marked: int | None = None,
    ) -> None:
        self.rows, self.file, self._marks, self.killed = rows, file, marks, killed
        if n_marked is None:
            n_marked = len(rows) if marks is None else int(np.count_nonzero(marks))
        self._n_marked = n_marked
        self.n_alive = n_marked - len(killed)
        self._alive: NDArray[np.bool_] | None = None

    @property
    def alive(self) -> NDArray[np.bool_] | None:
        """A mark for each row that is not deleted, None if all are there."""
        if not len(self.killed):
            return self._marks
        if self._alive is None:
            marks = np.ones(len(self.rows), np.bool_) if self._marks is None else self._marks.copy()
            marks[self.killed] = False
            self._alive = marks
        return self._alive

    def view(self) -> View:
        """What a search works on."""
        return View(self.rows, self.alive)

    def without(self, rows: NDArray[np.int64]) -> Segment:
        """The same segment with some rows more deleted, which must be alive."""
        killed = np.union1d(self.killed, rows)
        return Segment(self.rows, self.file, self._marks, killed, self._n_marked)

    def find(self, ids: Ids) -> NDArray[np.int64]:
        """Row of each id that is alive here, else -1."""
        rows = self.rows.find(ids)
        if self._marks is not None:
            rows[(rows >= 0) & ~self._marks[rows]] = -1
        if len(self.killed):
            places = np.minimum(np.searchsorted(self.killed, rows), len(self.killed) - 1)
            rows[self.killed[places] == rows] = -1
        return rows

    def live_rows(self) -> NDArray[np.int64]:
        """Rows that are not deleted, rising."""
        alive = self.alive
        return np.arange(len(self.rows)) if alive is None else np.flatnonzero(alive)


class View(NamedTuple):
    """Rows and the marks of the living (None: all) at one moment."""

    rows: Rows
    alive: NDArray[np.bool_] | None


def read_segment(folder: Path, entry: SegmentEntry, shape: Shape, *, in_memory: bool) -> Segment:
    """Map a segment file, and read which of its rows are deleted."""
    file = read_sections(folder / entry.file, MAGIC, in_memory=in_memory)
    check_identity(file, entry.identity, entry.checksum, folder)
    kind = file.about.get("kind", entry.kind)
    if not kind == entry.kind == shape.like.kind:
        raise BadFile(f"{file.path} is of the kind {kind!r}, the manifest says {entry.kind!r}")
    rows = checked_rows(file.path, file.about, file.arrays, shape)
    if len(rows) != entry.n:
        raise BadFile(f"{file.path} has {len(rows)} rows, the manifest says {entry.n}")
    if entry.lists is not None:
        rows = replace(rows, lists=read_lists(folder, entry, in_memory=in_memory))
    return Segment(rows, file, read_marks(folder, entry))


def marked_anew(folder: Path, entry: SegmentEntry, segment: Segment) -> Segment:
    """A segment that is mapped already, with the marks that the manifest names now."""
    return Segment(segment.rows, segment.file, read_marks(folder, entry))


def is_still(segment: Segment, entry: SegmentEntry, folder: Path) -> bool:
    """Whether a mapped segment is what the manifest names, and not only called the same."""
    file = segment.file
    if file is None or file.path != folder / entry.file or file.identity != entry.identity:
        return False
    if not are_lists_of(entry, segment.rows.lists):
        return False
    if not entry.identity:  # version 1: the same file then
        with suppress(OSError):
            return place_of(os.stat(file.path)) == file.place and len(segment.rows) == entry.n
        return False
    return True


def write_marks(path: Path, segment: Segment, entry: SegmentEntry) -> SegmentEntry:
    """Write which rows of a segment are deleted, one bit each; return its entry with the file."""
    alive = segment.alive
    assert alive is not None  # called where rows were deleted
    identity = new_identity()
    about = {"n": len(alive), "identity": identity, "segment": entry.identity}
    marks = {"deleted": section_of(np.packbits(~alive))}
    packing = Packing(DELETED_MAGIC, about, marks)
    write_new(path, packing)
    return replace(
        entry,
        deleted=path.name,
        deleted_identity=identity,
        deleted_checksum=packing.checksum,
    )


def read_marks(folder: Path, entry: SegmentEntry) -> NDArray[np.bool_] | None:
    """Which rows of a segment are not deleted, None for all; every checksum is tested."""
    if entry.deleted is None:
        return None
    file = read_sections(folder / entry.deleted, DELETED_MAGIC, in_memory=True)
    check_identity(file, entry.deleted_identity, entry.deleted_checksum, folder)
    bits = file.arrays.get("deleted", np.empty(0))
    if file.about.get("n") != entry.n or bits.shape != (-(-entry.n // 8),) or bits.dtype != "u1":
        raise BadFile(f"{file.path} does not mark the {entry.n} rows of {entry.file}")
    if entry.deleted_identity and file.about.get("segment") != entry.identity:
        raise BadFile(f"{file.path} marks the rows of another segment: restore it from a copy")
    alive: NDArray[np.bool_] = np.unpackbits(bits, count=entry.n) == 0
    return alive


def write_segment(
    path: Path,
    segments: Sequence[Segment],
    *,
    kind: str | None = None,
    encode: Encode | None = None,
    callback: Progress | None = None,
) -> SegmentEntry:
    """Merge the living rows of some segments into one file; return its entry for the manifest.

    Codes and vectors stream through memory in pieces; ids, keys and metadata pass through as a
    whole. `encode` makes new codes out of the vectors, for an index of this `kind`. What is read
    is checked first: a damaged block must not get a right checksum.
    """
    for segment in segments:
        if segment.file is not None:
            segment.file.verify()
    merge = _Merge(segments)
    n = len(merge.order)
    small = merge.small_fields()
    sections = {name: section_of(array) for name, array in rows_to_arrays(small).items()}
    reads = {"codes": merge.codes}
    if small.vectors is not None:
        reads["vectors"] = merge.vectors
        if encode is not None:
            reads["codes"] = lambda start, stop: encode(merge.vectors(start, stop))
    for name, read in reads.items():
        sample = read(0, min(1, n))
        sections[name] = Section(sample.dtype, (n, sample.shape[1]), _told(read, n, callback))
    if small.keys is not None:
        table = key_table(small.keys)
        sections["keys.hashes"], sections["keys.rows"] = map(section_of, table)
    kind = kind or segments[0].rows.index.kind
    entry = SegmentEntry(path.name, n, identity=new_identity(), kind=kind)
    about = {"n": n, "identity": entry.identity, "kind": entry.kind}
    packing = Packing(MAGIC, describe_rows(small) | about, sections)
    write_new(path, packing)
    return replace(entry, checksum=packing.checksum)


def _told(
    read: Callable[[int, int], NDArray[Any]], n: int, callback: Progress | None
) -> Callable[[int, int], NDArray[Any]]:
    def wrapped(start: int, stop: int) -> NDArray[Any]:
        if callback is not None:
            callback(stop, n)
        return read(start, stop)

    return wrapped


class _Merge:
    """The living rows of several segments in the order of their ids."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.parts = [segment.rows for segment in segments]
        self.live = [segment.live_rows() for segment in segments]
        self.starts = np.cumsum([0, *map(len, self.live)])
        ids = [part.ids_at(rows) for part, rows in zip(self.parts, self.live, strict=True)]
        self.ids = np.concatenate(ids)
        self.order = np.arange(len(self.ids))
        if np.any(self.ids[1:] < self.ids[:-1]):
            self.order = np.argsort(self.ids, kind="stable")
            self.ids = self.ids[self.order]

    def codes(self, start: int, stop: int) -> NDArray[Any]:
        return self._gather([part.codes for part in self.parts], start, stop)

    def vectors(self, start: int, stop: int) -> NDArray[Any]:
        return self._gather([p.vectors for p in self.parts if p.vectors is not None], start, stop)

    def _gather(self, arrays: Sequence[NDArray[Any]], start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop` - 1 of the merged order."""
        places = self.order[start:stop]
        out = np.empty((len(places), arrays[0].shape[1]), dtype=arrays[0].dtype)
        owner = np.searchsorted(self.starts, places, side="right") - 1
        for i in np.unique(owner):
            here = owner == i
            out[here] = arrays[i][self.live[i][places[here] - self.starts[i]]]
        return out

    def small_fields(self) -> Rows:
        """Ids, keys and columns as rows whose codes and vectors are empty stand-ins."""
        keys, columns = None, {}
        if any(part.keys is not None for part in self.parts):
            texts = [
                (part.keys or empty_texts(len(part))).take(rows)
                for part, rows in zip(self.parts, self.live, strict=True)
            ]
            keys = join_texts(texts).take(self.order)
        if any(part.columns for part in self.parts):
            taken = [
                (len(rows), {name: column.take(rows) for name, column in part.columns.items()})
                for part, rows in zip(self.parts, self.live, strict=True)
            ]
            joined = join_columns(taken)
            columns = {name: column.take(self.order) for name, column in joined.items()}
        vectors = next((part.vectors[:0] for part in self.parts if part.vectors is not None), None)
        index = self.parts[0].index
        return Rows(index.over(index.codes[:0], row_ids(self.ids)), vectors, keys, columns)
