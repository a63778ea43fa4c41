"""Segments: rows in a file that never changes, beside a mark for each row that was deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.columns import join_columns
from sghash.collection.rows import Rows, describe_rows, rows_from_arrays, rows_to_arrays
from sghash.collection.sections import Section, read_sections, section_of, write_sections
from sghash.collection.texts import empty_texts, join_texts, key_table
from sghash.errors import BadFile
from sghash.validation import Codes, Ids

MAGIC = b"SGHSEGMT"
DELETED_MAGIC = b"SGHDELET"

Encode = Callable[[NDArray[Any]], Codes]
Progress = Callable[[int, int], None]


class Segment:
    """Rows and which of them are alive; `file` is None while they are only in the log."""

    def __init__(
        self, rows: Rows, file: str | None = None, alive: NDArray[np.bool_] | None = None
    ) -> None:
        self.rows, self.file, self.alive = rows, file, alive
        self.n_alive = len(rows) if alive is None else int(np.count_nonzero(alive))
        self.changed = False
        self._seen = False

    def view(self) -> View:
        """What a search works on: later deletions do not touch it."""
        self._seen = True
        return View(self.rows, self.alive)

    def kill(self, rows: NDArray[np.int64]) -> None:
        """Mark rows, which must be alive, as deleted."""
        if self.alive is None:
            self.alive = np.ones(len(self.rows), dtype=np.bool_)
        elif self._seen:
            # A search may be using the old marks: it must see all of a change or none of it.
            self.alive = self.alive.copy()
        self._seen = False
        self.alive[rows] = False
        self.n_alive -= len(rows)
        self.changed = True

    def find(self, ids: Ids) -> NDArray[np.int64]:
        """Row of each id that is alive here, else -1."""
        rows = self.rows.find(ids)
        if self.alive is not None:
            rows[(rows >= 0) & ~self.alive[rows]] = -1
        return rows

    def live_rows(self) -> NDArray[np.int64]:
        """Rows that are not deleted, rising."""
        if self.alive is None:
            return np.arange(len(self.rows))
        return np.flatnonzero(self.alive)


class View(NamedTuple):
    """Rows and the marks of the living (None: all) at one moment."""

    rows: Rows
    alive: NDArray[np.bool_] | None


def read_segment(folder: Path, file: str, n: int) -> Rows:
    """Map a segment file."""
    about, arrays = read_sections(folder / file, MAGIC)
    if about["n"] != n:
        raise BadFile(f"{folder / file} has {about['n']} rows, the manifest says {n}")
    return rows_from_arrays(about, arrays)


def write_deleted(path: Path, alive: NDArray[np.bool_]) -> None:
    """Write which rows of a segment are deleted, one bit each."""
    bits = np.packbits(~alive)
    write_sections(path, DELETED_MAGIC, {"n": len(alive)}, {"deleted": section_of(bits)})


def read_alive(path: Path, n: int) -> NDArray[np.bool_]:
    """Which rows of a segment are not deleted."""
    about, arrays = read_sections(path, DELETED_MAGIC)
    if about["n"] != n:
        raise BadFile(f"{path} marks {about['n']} rows where the segment has {n}")
    alive: NDArray[np.bool_] = np.unpackbits(arrays["deleted"], count=n) == 0
    return alive


def write_segment(
    path: Path,
    segments: Sequence[Segment],
    *,
    encode: Encode | None = None,
    progress: Progress | None = None,
) -> int:
    """Merge the living rows of some segments into one file; return how many there are.

    Codes and vectors stream through memory in pieces; ids, keys and metadata pass through as a
    whole. `encode` makes new codes out of the vectors.
    """
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
        sections[name] = Section(sample.dtype, (n, sample.shape[1]), _told(read, n, progress))
    if small.keys is not None:
        table = key_table(small.keys)
        sections["keys.hashes"], sections["keys.rows"] = map(section_of, table)
    write_sections(path, MAGIC, describe_rows(small) | {"n": n}, sections)
    return n


def _told(
    read: Callable[[int, int], NDArray[Any]], n: int, progress: Progress | None
) -> Callable[[int, int], NDArray[Any]]:
    def wrapped(start: int, stop: int) -> NDArray[Any]:
        if progress is not None:
            progress(stop, n)
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
        n = len(self.order)
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
        first = int(self.ids[0]) if n else 0
        without_gaps = n == 0 or int(self.ids[-1]) - first == n - 1
        vectors = next((part.vectors[:0] for part in self.parts if part.vectors is not None), None)
        return Rows(
            first,
            None if without_gaps else self.ids,
            self.parts[0].codes[:0],
            vectors,
            keys,
            columns,
        )
