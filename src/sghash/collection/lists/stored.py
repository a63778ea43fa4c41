"""The lists of a segment: a partitioned index in a file beside it, its ids being the rows.

The file is an index file with an identity of its own, that of the segment, and what the lists were
learned from. It is mapped when a collection is opened; the index in it is looked at when a search
first needs it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sghash.collection.storage.disk import write_new
from sghash.collection.storage.manifest import Manifest, SegmentEntry, new_identity
from sghash.errors import BadFile
from sghash.guards import Guard
from sghash.index import PartitionedIndex
from sghash.index.container import SectionFile, read_sections
from sghash.index.file import MAGIC, packing_of, stored_index
from sghash.index.lists.curve import Curve, curve_of
from sghash.tables import CodeLayout
from sghash.validation import Codes

LISTS_MAGIC = MAGIC
# Files beyond that do not stay in the memory of the process for having been checked.
_MANY_BYTES = 1 << 28
#: What lists may be learned from.
ORIGINS = ("vectors", "decoded codes")


class Lists:
    """A file of lists, and the index in it."""

    def __init__(self, file: SectionFile, n: int) -> None:
        self.file, self._n = file, n
        self._guard = Guard()
        self._index: PartitionedIndex | None = None

    @property
    def index(self) -> PartitionedIndex:
        """The index, whose ids are rows of the segment; all but its codes is read and checked."""
        with self._guard.lock:
            if self._index is None:
                self.file.verify(skipping=("codes",))
                self._index = self.checked(mmap=True)
                if len(self.file.data) > _MANY_BYTES:
                    self.file.release_pages()  # the check has read all of it, a search reads little
            return self._index

    def checked(self, *, mmap: bool) -> PartitionedIndex:
        """The index, read anew; codes are checked too unless they stay mapped."""
        path = self.file.path
        stored = stored_index(self.file)
        if stored.kind != PartitionedIndex.kind or stored.row_ids != (self._n, 0, None):
            raise BadFile(f"{path} does not hold lists of {self._n} rows: restore it from a copy")
        return PartitionedIndex.of_stored(path, stored, mmap=mmap)

    def check_fit(self, metric: str, width: int, layout: CodeLayout | None) -> None:
        """Raise `BadFile` unless the lists are of this metric and width, and of such codes."""
        index = self.index
        lists = index.partitions
        fits = index.metric == metric and lists is not None and lists.width == width
        if layout is not None:
            sizes = (index.n_bytes, index.n_bits) == (layout.n_bytes, layout.n_bits)
            fits = fits and sizes and (index.gram is None) == (layout.gram is None)
        if not fits:
            raise BadFile(
                f"{self.file.path} was made for another metric or other codes: restore it from a "
                "copy"
            )

    @property
    def origin(self) -> str:
        """What the lists were learned from."""
        return str(self.file.about.get("origin", ""))

    @property
    def learned_rows(self) -> int:
        """How many rows the lists were learned from: other rows may have come and gone since."""
        told = self.file.about.get("learned_rows", self._n)
        return told if type(told) is int and told > 0 else self._n

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.file.arrays.get("centroids", ()))

    @property
    def curve(self) -> Curve | None:
        """What was measured when the lists were made."""
        array = self.file.arrays.get("curve")
        try:
            return None if array is None else curve_of(array)
        except ValueError as error:
            raise BadFile(
                f"{self.file.path} is damaged ({error}): restore it from a copy"
            ) from error


def write_lists(
    path: Path, index: PartitionedIndex, entry: SegmentEntry, origin: str, learned_rows: int
) -> SegmentEntry:
    """Write the lists of a segment; return its entry with the file."""
    identity = new_identity()
    packing = packing_of(
        index.stored(), identity=identity, segment=entry.identity, origin=origin,
        learned_rows=learned_rows,
    )  # fmt: skip
    write_new(path, packing)
    return replace(entry, lists=path.name, lists_identity=identity, lists_checksum=packing.checksum)


def read_lists(folder: Path, entry: SegmentEntry, *, in_memory: bool) -> Lists:
    """Map the lists of a segment; with `in_memory`, read and check them."""
    assert entry.lists is not None  # called where there are any
    file = read_sections(folder / entry.lists, LISTS_MAGIC, in_memory=in_memory)
    check_identity(file, entry.lists_identity, entry.lists_checksum, folder)
    about = file.about
    if about.get("kind") != PartitionedIndex.kind or about.get("n") != entry.n:
        raise BadFile(f"{file.path} does not hold lists of the {entry.n} rows of {entry.file}")
    if about.get("segment") != entry.identity or about.get("origin") not in ORIGINS:
        raise BadFile(f"{file.path} holds lists of another segment: restore it from a copy")
    lists = Lists(file, entry.n)
    if in_memory:
        lists.checked(mmap=False)
    return lists


def are_lists_of(entry: SegmentEntry, lists: Lists | None) -> bool:
    """Whether mapped lists, or none, are what the manifest names."""
    if lists is None or entry.lists is None:
        return (lists is None) == (entry.lists is None)
    return lists.file.identity == entry.lists_identity and lists.file.path.name == entry.lists


def check_identity(file: SectionFile, identity: str, checksum: int | None, folder: Path) -> None:
    """Refuse a file that is not the one the manifest of `folder` means."""
    if file.identity != identity or checksum not in (None, file.checksum):
        raise BadFile(
            f"{file.path} is not the file that the manifest of {folder} names, though it is called "
            "the same: restore it from a copy"
        )


def verify_lists(lists: Lists, codes: Codes, manifest: Manifest, model: Any) -> None:
    """Raise `BadFile` unless lists are whole, made for these searches, and of these codes."""
    scored = model.capabilities.tables
    layout = model.scorer(manifest.metric).layout if scored else None
    lists.check_fit(manifest.metric, manifest.width, layout)
    if not np.array_equal(lists.checked(mmap=False).codes, codes):
        raise BadFile(
            f"{lists.file.path} holds other codes than its segment: restore it from a copy"
        )
