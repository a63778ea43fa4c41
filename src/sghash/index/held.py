"""What an index holds at one moment; a change makes the next one and leaves this as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.validation import Codes, Ids

# Spare room when the array of codes grows: memory at rest stays below 1.15 times the codes.
_SPARE = 0.125


@dataclass(frozen=True, eq=False)
class Held:
    """Rows 0 to n - 1 of `buffer`, in rising order of their ids; None stands for 0, 1, 2, ...

    Of two moments that share a buffer the later one has more rows, and only the latest may be
    continued: it writes where no other looks.
    """

    buffer: Codes
    n: int
    ids: Ids | None
    next_id: int

    @property
    def codes(self) -> Codes:
        """The rows, (n, n_bytes); a view."""
        return self.buffer[: self.n]

    def all_ids(self) -> Ids:
        """All ids, rising."""
        return np.arange(self.n, dtype=np.int64) if self.ids is None else self.ids.copy()

    def ids_at(self, rows: Ids) -> Ids:
        """Ids of rows; -1, which stands for none, stays."""
        if self.ids is None or self.n == 0:
            return rows
        return np.where(rows < 0, rows, self.ids[rows])

    def rows_of(self, ids: Ids) -> NDArray[np.int64]:
        """Rows of ids that are here."""
        rows = self._find(ids)
        if np.any(rows < 0):
            raise InvalidInput(f"id {ids[rows < 0][0]} is not in the index")
        return rows

    def _find(self, ids: Ids) -> NDArray[np.int64]:
        """Row of each id, -1 where it is not here."""
        if self.ids is None:
            return np.where(ids < self.n, ids, -1)
        if self.n == 0:
            return np.full(len(ids), -1, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.ids, ids), self.n - 1)
        return np.where(self.ids[rows] == ids, rows, -1)

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
        first, last = int(ids[0]), int(ids[-1])
        n, next_id = self.n + len(ids), max(self.next_id, last + 1)
        if self.ids is None and first == self.n and last == n - 1:
            return Held(self._continued(codes), n, None, next_id)
        old = self.all_ids()
        if self.n == 0 or first > old[-1]:
            return Held(self._continued(codes), n, np.concatenate([old, ids]), next_id)
        known = self._find(ids) >= 0
        if known.any():
            raise InvalidInput(
                f"id {ids[known][0]} is in the index already: delete it first or choose another"
            )
        places = np.searchsorted(old, ids)
        buffer = np.insert(self.codes, places, codes, axis=0)
        return Held(buffer, n, np.insert(old, places, ids), next_id)

    def without(self, rows: NDArray[np.int64]) -> Held:
        """The next moment, with these rows removed."""
        remaining = np.ones(self.n, dtype=np.bool_)
        remaining[rows] = False
        buffer = self.codes[remaining]
        return Held(buffer, len(buffer), self.all_ids()[remaining], self.next_id)

    def alone(self) -> Held:
        """The same without room to grow in: who continues it shares no buffer with others."""
        return replace(self, buffer=self.codes)

    def _continued(self, codes: Codes) -> Codes:
        """The buffer, a larger one if need be, with `codes` behind its n rows."""
        total, buffer = self.n + len(codes), self.buffer
        if total > len(buffer):
            # A first load is exact; growth by many small steps keeps an eighth to spare.
            room = total if self.n == 0 else max(total, int(len(buffer) * (1 + _SPARE)))
            buffer = np.empty((room, buffer.shape[1]), dtype=np.uint8)
            buffer[: self.n] = self.codes
        buffer[self.n : total] = codes
        return buffer
