"""What every index shares: rows with stable ids, changes in one step, one kind of file."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import BadFile, SghashError
from sghash.guards import Guard
from sghash.index.file import StoredIndex, read_index, write_index
from sghash.index.rows import Held, RowIds
from sghash.validation import Codes, Ids, check_ids, check_mask, next_ids

Mask = NDArray[np.bool_]


class CodeIndex(ABC):
    """Abstract: codes of some bytes each with stable int64 ids; answers go by (distance, id).

    Rows are kept in rising order of their ids, so an id is found by bisection (no table, no
    extra memory, about 20 comparisons among a million). Ids without gaps take no memory, others 8
    bytes each; adding ids below the largest one moves the rows above them.

    Any number of threads may use one index. Changes happen one after the other, and each call
    that reads sees the index as it was at one moment, with all of a change or nothing of it. A
    mask belongs to the `ids` of one moment: do not change the index between the two.
    """

    #: What the kind is called in files, those of collections too.
    kind: ClassVar[str]

    def __init__(self, n_bytes: int) -> None:
        #: Bytes of a code.
        self.n_bytes = n_bytes
        # All that can change, in one attribute: readers take it once, writers replace it at once.
        self._held = Held(np.empty((0, n_bytes), dtype=np.uint8), RowIds(0), 0)
        self._change = Guard()

    @abstractmethod
    def _checked(self, codes: ArrayLike) -> Codes:
        """Codes to be added, as a contiguous (n, n_bytes) uint8 array, or one sentence."""

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """What the constructor needs: plain numbers, and arrays by name."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": self._held.alone(), "_change": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _change=Guard())

    def __len__(self) -> int:
        return self._held.n

    @property
    def ids(self) -> Ids:
        """All ids, rising; a mask is aligned with them."""
        return self._held.row_ids.at(slice(None)).copy()

    @property
    def row_ids(self) -> RowIds:
        """Which id each row has at this moment."""
        return self._held.row_ids

    @property
    def codes(self) -> Codes:
        """All codes, in the order of `ids`; a read-only view that no change touches."""
        view = self._held.codes
        view.flags.writeable = False
        return view

    @property
    def nbytes(self) -> int:
        """Bytes of memory (or of mapped file) that codes and ids take."""
        held = self._held
        return held.buffer.nbytes + held.row_ids.nbytes

    def over(self, codes: Codes, row_ids: RowIds) -> Self:
        """Return an index of the same kind over rows that lie elsewhere, without copying them.

        `codes` (n, n_bytes) uint8 are taken as they are, and may be mapped from a file. To begin
        with it has no spare rows: what is added to it goes elsewhere.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._held = Held(codes, row_ids, row_ids.last + 1)
        other._change = Guard()
        other._leave_unchecked()
        return other

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Ids:
        """Add codes and return their ids (n,) int64, in the order given.

        Without `ids` they get the next numbers never used before.
        """
        rows = self._checked(codes)
        given = None if ids is None else check_ids(ids, len(rows))
        with self._change.lock:
            held = self._held
            numbers = next_ids(held.next_id, len(rows)) if given is None else given.copy()
            if len(rows):
                self._held = held.with_rows(rows, numbers)
        return numbers

    def delete(self, ids: ArrayLike) -> None:
        """Remove the codes with these ids; all other ids stay as they are."""
        chosen = check_ids(ids)
        with self._change.lock:
            rows = self._held.rows_of(chosen)
            if len(rows):
                self._held = self._held.without(rows)

    def codes_of(self, ids: ArrayLike) -> Codes:
        """Return the codes of these ids, in the order given."""
        held = self._held
        return np.asarray(held.buffer[held.rows_of(check_ids(ids))])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to `path`; an existing file is replaced only by a complete one."""
        held = self._held
        write_index(
            path, StoredIndex(self.kind, self._options(), held.codes, held.row_ids, held.next_id)
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Read an index from `path` and check it.

        With `mmap` the rows stay in the file and processes share them; their checksums are then
        not tested (`sghash.index.file.verify_index` does). The file must stay as it is meanwhile:
        if it is cut short, the system ends a process that reads where it was (SIGBUS), and no
        exception can be raised instead. To replace it, `save` to its path, which leaves the old
        file to those who have it open. Without `mmap` all is read now, and no such danger remains.
        """
        stored = read_index(path, cls.kind, mmap=mmap)
        make: Any = cls
        try:
            index: Self = make(**stored.options)
            if stored.codes.shape[1] != index.n_bytes:
                raise ValueError(
                    f"its codes take {stored.codes.shape[1]} bytes, not {index.n_bytes}"
                )
            if mmap:
                index._leave_unchecked()
            else:
                index._checked(stored.codes)
        except (SghashError, ValueError, TypeError) as error:
            raise BadFile(f"{path} is damaged ({error}): restore it from a copy") from error
        index._held = Held(stored.codes, stored.row_ids, stored.next_id)
        return index

    @abstractmethod
    def _leave_unchecked(self) -> None:
        """Get ready for mapped codes, whose padding may be anything at any time."""

    def _mask(self, mask: ArrayLike | None, held: Held) -> Mask | None:
        return None if mask is None else check_mask(mask, held.n)
