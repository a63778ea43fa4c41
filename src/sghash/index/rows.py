"""Which id each row has: rows stand in rising order of their ids, so an id is found by bisection.

The row order of a kernel is then the id order of an answer, so that ties go to the smaller id.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.validation import Ids


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
                every = np.arange(self.first, self.first + self.n, dtype=np.int64)
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
