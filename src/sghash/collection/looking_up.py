"""Tables of keys over the codes of one segment, built once searches within a radius have paid.

A scan that tables would have saved most of is written down; when what was written down reaches what
building costs, they are built. So all searches of a segment together never take more than twice
what scans would have, and few rows or wide radii never cost a table. Tables live in memory beside
the rows that they are of, and go with them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from sghash.guards import Guard
from sghash.index import MultiIndex
from sghash.index.costs import build_cost, pays
from sghash.index.multi import LEAST_ROWS
from sghash.index.rows import RowIds
from sghash.validation import Codes

#: Bytes that the tables of all segments together may take.
MOST_BYTES = 1 << 30
TABLES, SCAN = "tables of keys", "all codes"


class Choice(NamedTuple):
    """The way that costs less, and nanoseconds that each is expected to take, of all queries."""

    way: str
    tables: float
    scan: float


class LookUp:
    """The codes of a segment with tables, if they pay; ids are rows."""

    def __init__(self, codes: Codes, n_bits: int) -> None:
        self.index = MultiIndex(n_bits).over(codes, RowIds(len(codes)))
        self._guard = Guard()
        self._missed = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes that its tables take now."""
        tables = self.index.tables
        return 0 if tables is None else tables.nbytes

    def choose(self, radius: int, n_queries: int, room: int) -> Choice:
        """The way of so many queries; what tables would have saved is not written down yet.

        `room` are the bytes that are left for tables.
        """
        index, n = self.index, len(self.index)
        if n < LEAST_ROWS or not n_queries:  # not even the question is worth loading kernels for
            return Choice(SCAN, math.inf, n_queries * index.costs.scan(n, index.n_bytes, n_queries))
        tables, scan = (n_queries * cost for cost in index.expected(radius, n_queries))
        looks_up = pays(tables, scan) and (index.is_built or self._fits(room))
        if looks_up and not index.is_built:
            missed = self._missed + scan - tables
            looks_up = missed >= build_cost(n, index.n_bits, index.n_parts)
        return Choice(TABLES if looks_up else SCAN, tables, scan)

    def note(self, choice: Choice, room: int) -> None:
        """Write down what a scan has cost that tables would have saved."""
        if choice.way == SCAN and pays(choice.tables, choice.scan) and self._fits(room):
            with self._guard.lock:
                self._missed += choice.scan - choice.tables

    def choose_for_pairs(self, radius: int, room: int) -> Choice:
        """The way of a join of the rows with each other; tables that may pay are built for it."""
        index, n = self.index, len(self.index)
        scan = index.costs.scan_pairs(n, index.n_bytes)
        if n < LEAST_ROWS:
            return Choice(SCAN, math.inf, scan)
        from sghash.kernels.multi.joining import join_cost

        build = build_cost(n, index.n_bits, index.n_parts)
        if not index.is_built and not (build < scan / 8 and self._fits(room)):
            return Choice(SCAN, build, scan)
        index.build()
        assert index.tables is not None  # just built, of fewer rows than tables can have
        tables = join_cost(index.tables, index.codes, radius, scan)
        return Choice(TABLES if pays(tables, scan) else SCAN, tables, scan)

    def _fits(self, room: int) -> bool:
        from sghash.kernels.multi.layout import table_bytes

        index = self.index
        return table_bytes(len(index), index.n_bits, index.n_parts) <= room
