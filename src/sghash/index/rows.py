"""Which id each row has, and what an index holds at one moment.

Rows stand in rising order of their ids, so an id is found by bisection.

The row order of a kernel is then the id order of an answer, so that ties go to the smaller id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.validation import Codes, Ids


class RowIds(NamedTuple):
    """Ids of `n` rows, rising; `ids` is None where they are `first`, `first` + 1, ..."""

    n: int
    first: int = 0
    ids: Ids | None = None

    def at(self, rows: NDArray[np.int64] | slice) -> Ids:
        """Ids of these rows; -1, which stands for no row, stays."""
        if isinstance(rows, slice):
            every = self.ids
            if every is None:
                every = self.first + np.arange(self.n, dtype=np.int64)
            return np.asarray(every[rows], dtype=np.int64)
        if self.ids is None:
            return rows if self.first == 0 else np.where(rows < 0, rows, rows + self.first)
        if self.n == 0:
            return rows
        return np.where(rows < 0, rows, self.ids[rows])

    def find(self, ids: Ids) -> NDArray[np.int64]:
        """Row of each id, -1 where it is not here."""
        if self.ids is None:
            rows = ids - self.first
            return np.where((rows >= 0) & (rows < self.n), rows, -1)
        if self.n == 0:
            return np.full(len(ids), -1, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.ids, ids), self.n - 1)
        return np.where(self.ids[rows] == ids, rows, -1)

    @property
    def last(self) -> int:
        """The largest id; one below `first` where there are no rows."""
        if self.ids is None or not self.n:
            return self.first + self.n - 1
        return int(self.ids[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return 0 if self.ids is None else self.ids.nbytes


def row_ids(ids: Ids) -> RowIds:
    """Ids that rise, as `RowIds`; without gaps they take no memory."""
    n = len(ids)
    first = int(ids[0]) if n else 0
    without_gaps = n == 0 or int(ids[-1]) - first == n - 1
    return RowIds(n, first, None if without_gaps else ids)


# How much larger a buffer of codes gets than it must: memory at rest stays below 1.15 times them.
_SPARE = 0.125


@dataclass(frozen=True, eq=False)
class Held:
    """Rows 0 to n - 1 of `buffer`, in rising order of their ids.

    Of two moments that share a buffer the later one has more rows, and only the latest may be
    continued: it writes where no other looks.
    """

    buffer: Codes
    row_ids: RowIds
    next_id: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.row_ids.n

    @property
    def codes(self) -> Codes:
        """The rows, (n, n_bytes); a view."""
        return self.buffer[: self.n]

    def rows_of(self, ids: Ids) -> NDArray[np.int64]:
        """Rows of ids that are here."""
        rows = self.row_ids.find(ids)
        if np.any(rows < 0):
            raise InvalidInput(f"id {ids[rows < 0][0]} is not in the index")
        return rows

    def with_rows(self, codes: Codes, ids: Ids) -> Held:
        """The next moment, with these rows (at least one) added; ids that are here are refused."""
        if np.any(ids[1:] <= ids[:-1]):
            order = np.argsort(ids, kind="stable")
            codes, ids = codes[order], ids[order]
            twice = ids[1:][ids[1:] == ids[:-1]]
            if len(twice):
                raise InvalidInput(
                    f"id {twice[0]} is given twice: every code needs an id of its own"
                )
        next_id = max(self.next_id, int(ids[-1]) + 1)
        old = self.row_ids
        last = old.last
        if not old.n:
            return Held(self._continued(codes), row_ids(ids), next_id)
        if ids[0] > last:
            new = RowIds(old.n + len(ids), old.first)
            if old.ids is not None or ids[0] != last + 1 or ids[-1] != last + len(ids):
                new = new._replace(ids=np.concatenate([old.at(slice(None)), ids]))
            return Held(self._continued(codes), new, next_id)
        known = old.find(ids) >= 0
        if known.any():
            raise InvalidInput(
                f"id {ids[known][0]} is in the index already: delete it first or choose another"
            )
        everyone = old.at(slice(None))
        places = np.searchsorted(everyone, ids)
        buffer = np.insert(self.codes, places, codes, axis=0)
        return Held(buffer, row_ids(np.insert(everyone, places, ids)), next_id)

    def without(self, rows: NDArray[np.int64]) -> Held:
        """The next moment, with these rows removed."""
        remaining = np.ones(self.n, dtype=np.bool_)
        remaining[rows] = False
        ids = self.row_ids.at(slice(None))[remaining]
        return Held(self.codes[remaining], row_ids(ids), self.next_id)

    def alone(self) -> Held:
        """The same without spare rows: who continues it shares no buffer with others."""
        return replace(self, buffer=self.codes)

    def _continued(self, codes: Codes) -> Codes:
        """The buffer, a larger one if need be, with `codes` behind its n rows."""
        total, buffer = self.n + len(codes), self.buffer
        if total > len(buffer):
            # A first load is exact; growth by many small steps keeps an eighth to spare.
            size = total if self.n == 0 else max(total, int(len(buffer) * (1 + _SPARE)))
            buffer = np.empty((size, buffer.shape[1]), dtype=np.uint8)
            buffer[: self.n] = self.codes
        buffer[self.n : total] = codes
        return buffer
