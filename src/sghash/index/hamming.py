"""Exact Hamming search over packed codes in memory or in a memory-mapped file."""

from __future__ import annotations

import os
import threading
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sghash.index.file import Contents, read_index, write_index
from sghash.index.held import Held
from sghash.kernels import hamming_neighbors, hamming_range
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.validation import (
    Codes,
    Ids,
    check_codes,
    check_ids,
    check_k,
    check_mask,
    check_n_bits,
    check_radius,
    check_threads,
    n_bytes_of,
    next_ids,
)


class HammingIndex:
    """Packed codes with stable int64 ids; every search is exact and ordered by (distance, id).

    Rows are kept in rising order of their ids, so an id is found by bisection (no table, no
    extra memory, about 20 comparisons among a million). Ids that are 0, 1, 2, ... take no memory,
    others 8 bytes each; adding ids below the largest one moves the rows above them.

    Any number of threads may use one index. Changes happen one after the other, and each call
    that reads sees the index as it was at one moment, with all of a change or nothing of it. A
    mask belongs to the `ids` of one moment: do not change the index between the two.

    Parameters
    ----------
    n_bits : int
        Length of the codes, 1 to 4096.

    Examples
    --------
    >>> import numpy as np, sghash
    >>> index = sghash.HammingIndex(n_bits=3)
    >>> index.add(sghash.pack_bits([[0, 0, 0], [0, 1, 1], [1, 1, 1]]))
    array([0, 1, 2])
    >>> distances, ids = index.search(sghash.pack_bits([0, 1, 0]), k=2)
    >>> distances.tolist(), ids.tolist()
    ([[1, 1]], [[0, 1]])
    """

    def __init__(self, *, n_bits: int) -> None:
        self.n_bits = check_n_bits(n_bits)
        # All that can change, in one attribute: readers take it once, writers replace it at once.
        self._held = Held(np.empty((0, n_bytes_of(self.n_bits)), dtype=np.uint8), 0, None, 0)
        self._change = threading.Lock()
        # Bits that kernels count: whole bytes where the padding of mapped codes is not checked.
        self._counted_bits = self.n_bits

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": self._held.alone(), "_change": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _change=threading.Lock())

    def __len__(self) -> int:
        return self._held.n

    def __repr__(self) -> str:
        return f"HammingIndex(n_bits={self.n_bits}) with {len(self)} codes"

    @property
    def ids(self) -> Ids:
        """All ids, rising; a mask is aligned with them."""
        return self._held.all_ids()

    @property
    def codes(self) -> Codes:
        """All packed codes, in the order of `ids`; a read-only view that no change touches."""
        view = self._held.codes
        view.flags.writeable = False
        return view

    @property
    def nbytes(self) -> int:
        """Bytes of memory (or of mapped file) that codes and ids take."""
        held = self._held
        return held.buffer.nbytes + (0 if held.ids is None else held.ids.nbytes)

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Ids:
        """Add packed codes and return their ids (n,) int64, in the order given.

        Without `ids` they get the next numbers never used before.
        """
        rows = check_codes(codes, self.n_bits)
        given = None if ids is None else check_ids(ids, len(rows))
        with self._change:
            held = self._held
            numbers = next_ids(held.next_id, len(rows)) if given is None else given.copy()
            if len(rows):
                self._held = held.with_rows(rows, numbers)
        return numbers

    def search(
        self,
        query_codes: ArrayLike,
        k: int = 10,
        *,
        mask: ArrayLike | None = None,
        threads: int | None = None,
    ) -> Neighbors:
        """Return the k nearest codes of each query: distances int32 and ids int64, (n_queries, k).

        `mask` (len(index),) bool allows the rows of `ids` where it is True. Where fewer than k
        rows are allowed, the rest is id -1. A 1-D query is one query.
        """
        queries = check_codes(query_codes, self.n_bits, name="query_codes")
        held = self._held
        found = hamming_neighbors(
            held.codes,
            queries,
            check_k(k),
            n_bits=self._counted_bits,
            mask=None if mask is None else check_mask(mask, held.n),
            threads=check_threads(threads),
        )
        return Neighbors(found.distances, held.ids_at(found.ids))

    def range_search(
        self,
        query_codes: ArrayLike,
        radius: int,
        *,
        mask: ArrayLike | None = None,
        threads: int | None = None,
    ) -> RangeNeighbors:
        """Return all codes with distance <= `radius` (inclusive) of each query.

        Those of query i stand at `limits[i]` to `limits[i + 1]` - 1, by (distance, id).
        """
        queries = check_codes(query_codes, self.n_bits, name="query_codes")
        held = self._held
        found = hamming_range(
            held.codes,
            queries,
            check_radius(radius),
            n_bits=self._counted_bits,
            mask=None if mask is None else check_mask(mask, held.n),
            threads=check_threads(threads),
        )
        return RangeNeighbors(found.limits, found.distances, held.ids_at(found.ids))

    def delete(self, ids: ArrayLike) -> None:
        """Remove the codes with these ids; all other ids stay as they are."""
        chosen = check_ids(ids)
        with self._change:
            rows = self._held.rows_of(chosen)
            if len(rows):
                self._held = self._held.without(rows)

    def codes_of(self, ids: ArrayLike) -> Codes:
        """Return the packed codes of these ids, in the order given."""
        held = self._held
        return np.asarray(held.buffer[held.rows_of(check_ids(ids))])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to `path`; an existing file is replaced only by a complete one."""
        held = self._held
        write_index(path, Contents(self.n_bits, held.next_id, held.codes, held.ids))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Read an index from `path` and check it.

        With `mmap` the rows stay in the file and processes share them; their checksum is then
        not read (`sghash.index.file.verify_index` does). The file must stay as it is meanwhile: if
        it is cut short, the system ends a process that reads where it was (SIGBUS), and no
        exception can be raised instead. To replace it, `save` to its path, which leaves the old
        file to those who have it open. Without `mmap` all is read now, and no such danger remains.
        """
        contents = read_index(path, mmap=mmap)
        index = cls(n_bits=contents.n_bits)
        codes = contents.codes
        index._held = Held(codes, len(codes), contents.ids, contents.next_id)
        if mmap:
            index._counted_bits = 8 * n_bytes_of(index.n_bits)
        return index
