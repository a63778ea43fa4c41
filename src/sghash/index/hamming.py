"""Exact Hamming search over packed codes in memory or in a memory-mapped file."""

from __future__ import annotations

import os
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput
from sghash.index.file import Contents, read_index, write_index
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
)

# Spare room when the array of codes grows: memory at rest stays below 1.15 times the codes.
_SPARE = 0.125


class HammingIndex:
    """Packed codes with stable int64 ids; every search is exact and ordered by (distance, id).

    Rows are kept in rising order of their ids, so an id is found by bisection (no table, no
    extra memory, about 20 comparisons among a million). Ids that are 0, 1, 2, ... take no memory,
    others 8 bytes each; adding ids below the largest one moves the rows above them.

    Parameters
    ----------
    n_bits : int
        Length of the codes, 1 to 4096.

    Examples
    --------
    >>> import numpy as np, sghash
    >>> index = sghash.HammingIndex(n_bits=3)
    >>> index.add(sghash.pack_bits([[0, 0, 0], [0, 1, 1], [1, 1, 1]]))
    >>> distances, ids = index.search(sghash.pack_bits([0, 1, 0]), k=2)
    >>> distances.tolist(), ids.tolist()
    ([[1, 1]], [[0, 1]])
    """

    def __init__(self, *, n_bits: int) -> None:
        self.n_bits = check_n_bits(n_bits)
        self._buffer: Codes = np.empty((0, n_bytes_of(self.n_bits)), dtype=np.uint8)
        self._n = 0
        self._ids: Ids | None = None
        self._next_id = 0

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"HammingIndex(n_bits={self.n_bits}) with {self._n} codes"

    @property
    def ids(self) -> Ids:
        """All ids, rising; a mask is aligned with them."""
        return np.arange(self._n, dtype=np.int64) if self._ids is None else self._ids.copy()

    @property
    def codes(self) -> Codes:
        """All packed codes, in the order of `ids`; a read-only view."""
        view = self._buffer[: self._n]
        view.flags.writeable = False
        return view

    @property
    def nbytes(self) -> int:
        """Bytes of memory (or of mapped file) that codes and ids take."""
        return self._buffer.nbytes + (0 if self._ids is None else self._ids.nbytes)

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> None:
        """Add packed codes; without `ids` they get the next numbers never used before."""
        rows = check_codes(codes, self.n_bits)
        n_new = len(rows)
        if ids is None:
            new_ids = np.arange(self._next_id, self._next_id + n_new, dtype=np.int64)
        else:
            new_ids = check_ids(ids, n_new)
            order = np.argsort(new_ids, kind="stable")
            if not np.array_equal(order, np.arange(n_new)):
                rows, new_ids = rows[order], new_ids[order]
            self._refuse_duplicates(new_ids)
        if n_new == 0:
            return
        implicit = self._ids is None and np.array_equal(
            new_ids, np.arange(self._n, self._n + n_new, dtype=np.int64)
        )
        if implicit:
            self._append(rows)
        else:
            old_ids = self.ids
            at_end = self._n == 0 or new_ids[0] > old_ids[-1]
            places = np.searchsorted(old_ids, new_ids)
            if at_end:
                self._append(rows)
            else:
                self._buffer = np.insert(self._buffer[: self._n], places, rows, axis=0)
                self._n += n_new
            self._ids = np.insert(old_ids, places, new_ids)
        self._next_id = max(self._next_id, int(new_ids[-1]) + 1)

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
        found = hamming_neighbors(
            self._buffer[: self._n],
            queries,
            check_k(k),
            n_bits=self.n_bits,
            mask=None if mask is None else check_mask(mask, self._n),
            threads=check_threads(threads),
        )
        return Neighbors(found.distances, self._ids_of(found.ids))

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
        found = hamming_range(
            self._buffer[: self._n],
            queries,
            check_radius(radius),
            n_bits=self.n_bits,
            mask=None if mask is None else check_mask(mask, self._n),
            threads=check_threads(threads),
        )
        return RangeNeighbors(found.limits, found.distances, self._ids_of(found.ids))

    def delete(self, ids: ArrayLike) -> None:
        """Remove the codes with these ids; all other ids stay as they are."""
        rows = self._rows_of(check_ids(ids))
        if len(rows) == 0:
            return
        remaining = np.ones(self._n, dtype=np.bool_)
        remaining[rows] = False
        self._ids = self.ids[remaining]
        self._buffer = self._buffer[: self._n][remaining]
        self._n = len(self._buffer)

    def codes_of(self, ids: ArrayLike) -> Codes:
        """Return the packed codes of these ids, in the order given."""
        return np.asarray(self._buffer[self._rows_of(check_ids(ids))])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to `path`; an existing file is replaced only by a complete one."""
        write_index(path, Contents(self.n_bits, self._next_id, self._buffer[: self._n], self._ids))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Read an index from `path` and check it.

        With `mmap` the rows stay in the file and processes share them; their checksum is then
        not read (`sghash.index.file.verify_index` does).
        """
        contents = read_index(path, mmap=mmap)
        index = cls(n_bits=contents.n_bits)
        index._buffer, index._ids = contents.codes, contents.ids
        index._n, index._next_id = len(contents.codes), contents.next_id
        return index

    def _append(self, rows: Codes) -> None:
        total = self._n + len(rows)
        if total > len(self._buffer):
            # A first load is exact; growth by many small steps keeps an eighth to spare.
            capacity = total if self._n == 0 else max(total, int(len(self._buffer) * (1 + _SPARE)))
            grown = np.empty((capacity, self._buffer.shape[1]), dtype=np.uint8)
            grown[: self._n] = self._buffer[: self._n]
            self._buffer = grown
        self._buffer[self._n : total] = rows
        self._n = total

    def _refuse_duplicates(self, rising: Ids) -> None:
        twice = rising[1:][rising[1:] == rising[:-1]]
        if len(twice):
            raise InvalidInput(f"id {twice[0]} is given twice: every code needs an id of its own")
        known = np.isin(rising, self._ids) if self._ids is not None else rising < self._n
        if known.any():
            raise InvalidInput(
                f"id {rising[known][0]} is in the index already: delete it first or choose another"
            )

    def _rows_of(self, ids: Ids) -> NDArray[np.int64]:
        if self._ids is None:
            rows, known = ids, ids < self._n
        else:
            rows = np.searchsorted(self._ids, ids)
            known = np.zeros(len(ids), dtype=np.bool_)
            inside = rows < self._n
            known[inside] = self._ids[rows[inside]] == ids[inside]
        if not known.all():
            raise InvalidInput(f"id {ids[~known][0]} is not in the index")
        return rows.astype(np.int64, copy=False)

    def _ids_of(self, rows: Ids) -> Ids:
        if self._ids is None or rows.size == 0:
            return rows
        return np.where(rows < 0, rows, self._ids[rows])
