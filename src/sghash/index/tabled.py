"""Rows beside tables of their keys, and what a search through them did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sghash.index.rows import Held, RowIds
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.validation import Codes, Ids

if TYPE_CHECKING:
    from sghash.kernels.multi.layout import Tables

# Tables are built anew for more rows beside them than this share, or more gone than that one.
_REST_SHARE, _LEAST_REST, _GONE_SHARE = 1 / 256, 4096, 0.25


@dataclass(frozen=True, eq=False)
class Tabled(Held):
    """Rows at one moment, with tables of the first `n_known` of them.

    `now` says where a row of the tables is at this moment, -1 where it is gone; None: in its place.
    """

    tables: Tables | None = None
    now: NDArray[np.int64] | None = None
    n_known: int = 0

    def with_rows(self, codes: Codes, ids: Ids) -> Held:
        """The next moment; rows behind all others leave the tables as they are."""
        after = super().with_rows(codes, ids)
        if int(ids.min()) < self.row_ids.last:
            return after
        return Tabled(*rows_of(after), self.tables, self.now, self.n_known)

    def without(self, rows: NDArray[np.int64]) -> Held:
        """The next moment, with these rows removed; tables find the others where they moved."""
        after = super().without(rows)
        left = np.ones(self.n_known, dtype=np.bool_)
        left[rows[rows < self.n_known]] = False
        moved = np.where(left, np.cumsum(left) - 1, -1)
        if self.now is not None:
            moved = np.where(self.now < 0, -1, moved[self.now])
        return Tabled(*rows_of(after), self.tables, moved, int(left.sum()))

    @property
    def is_stale(self) -> bool:
        """Whether too many rows came or went since the tables were built."""
        n_tabled = 0 if self.tables is None else self.tables.n_rows
        rest = self.n - self.n_known
        gone = n_tabled - self.n_known
        return rest > max(_LEAST_REST, _REST_SHARE * self.n) or gone > _GONE_SHARE * n_tabled


def rows_of(held: Held) -> tuple[Codes, RowIds, int]:
    """The rows alone, as a `Held` is made of them."""
    return held.buffer, held.row_ids, held.next_id


@dataclass(frozen=True)
class Lookup:
    """The answer to one query, the way it was found, what was visited, and microseconds.

    `keys`, `entries` and `compared` count what was looked up in the tables, of those the rows that
    shared a key, and of those the rows whose whole code was compared; a query that turned from
    tables to a scan has counts of both.
    """

    neighbors: Neighbors | RangeNeighbors
    way: str
    n_parts: int
    keys: int
    entries: int
    compared: int
    n_rows: int
    microseconds: float
    scan_microseconds: float

    def __str__(self) -> str:
        lines = [f"way: {self.way}"]
        if self.keys:
            lines += [
                f"keys looked up in {self.n_parts} tables: {self.keys:,}",
                f"rows met: {self.entries:,} of {self.n_rows:,}",
                f"codes compared: {self.compared:,}",
            ]
        lines.append(f"microseconds: {self.microseconds:.0f}")
        lines.append(f"microseconds that a scan is expected to take: {self.scan_microseconds:.0f}")
        return "\n".join(lines)
