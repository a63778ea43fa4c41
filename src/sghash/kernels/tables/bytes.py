"""The k best codes by tables of up to 256 numbers for each byte of a code, exact.

The score of a code is the sum, over its bytes, of the entry that the byte points to: product
quantizers, and every other code whose bytes count one by one. It is defined as the float32 sum in
the order of bytes, so every way to compute it gives the same bits. No code is left out: bytes that
never exceed the scaled score say which codes cannot be among the best, see `byte_scans`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.kernels.checks import FLOAT32, UINT8, check_array, check_mask_of
from sghash.kernels.compiling import announce
from sghash.kernels.tables import byte_lanes
from sghash.kernels.tables.best_rows import Look, best_rows, chosen_codes
from sghash.kernels.tables.byte_scans import (
    aligned_bytes,
    round_tables,
    scan_by_queries,
    scan_by_rows,
    scan_by_scores,
)
from sghash.kernels.tables.selection import Selection
from sghash.neighbors import Neighbors
from sghash.validation import Codes, Ids, Vectors

# Up to so many queries are looked at by rows, where that is to be had; more side by side.
MOST_BY_ROWS = 16


def byte_table_neighbors(
    codes: Codes,
    tables: Vectors,
    k: int,
    *,
    mask: NDArray[np.bool_] | None = None,
    threads: int | None = 1,
) -> Neighbors:
    """The k rows of `codes` (n, n_bytes) with the least score, by (score, row); scores float32.

    `tables` (n_queries, n_bytes, size) float32 must be finite, and so must all sums of their
    entries; every byte of a code must be below `size`, which is 256 or less.
    """
    _check(codes, tables, mask)
    lows = tables.min(axis=2)
    bounds = _bounds(tables, lows)
    if tables.shape[2] < 256:
        # No code points to what is added here.
        padded = np.repeat(lows[:, :, None], 256, axis=2)
        padded[:, :, : tables.shape[2]] = tables
        tables = padded
    return best_rows(_ByteScan(codes, tables, lows, bounds), k, mask=mask, threads=threads)


def _check(codes: Codes, tables: Vectors, mask: NDArray[np.bool_] | None) -> None:
    check_array(codes, UINT8, 2, "codes")
    check_array(tables, FLOAT32, 3, "tables")
    n_bytes, size = tables.shape[1:]
    if codes.shape[1] != n_bytes or not n_bytes:
        raise InvalidInput(
            f"codes have {codes.shape[1]} bytes, the tables {n_bytes}: take both from one model"
        )
    if not 1 <= size <= 256:
        raise InvalidInput(f"tables must have 1 to 256 entries for each byte, got {size}")
    if size < 256 and codes.size and codes.max() >= size:
        raise InvalidInput(
            f"codes hold {codes.max()}, the tables have {size} entries: take both from one model"
        )
    if mask is not None:
        check_mask_of(mask, len(codes))


def _bounds(tables: Vectors, lows: Vectors) -> NDArray[np.float64]:
    """Per query, the least score any code could have, and by how much float32 sums may err.

    A NaN or an infinite entry is the least or the largest of its table, so none is overlooked.
    """
    largest = np.maximum(np.abs(lows), np.abs(tables.max(axis=2))).sum(axis=1, dtype=np.float64)
    # Half, so that differences of entries are finite too.
    if not (largest <= np.finfo(np.float32).max / 2).all():
        raise InvalidInput(
            "tables hold numbers that are not finite, or too large for float32 sums: "
            "look at the queries they were made from"
        )
    # A float32 sum of n numbers errs by at most n eps times the sum of their sizes; rounding to
    # bytes errs by a few eps more.
    slack = (tables.shape[1] + 64) * float(np.finfo(np.float32).eps)
    return np.stack([lows.sum(axis=1, dtype=np.float64), slack * largest + 1e-30], axis=1)


class _ByteScan(NamedTuple):
    """Codes (n, n_bytes), tables, their least entries (n_queries, n_bytes), bounds of scores."""

    codes: Codes
    tables: Vectors
    lows: Vectors
    bounds: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        return len(self.codes)

    @property
    def n_queries(self) -> int:
        return len(self.tables)

    def of_queries(self, chosen: slice | Ids) -> _ByteScan:
        codes, tables, lows, bounds = self
        return _ByteScan(codes, tables[chosen], lows[chosen], bounds[chosen])

    def of_rows(self, chosen: slice | Ids) -> _ByteScan:
        return self._replace(codes=chosen_codes(self.codes, chosen))

    def begin(self, bars: NDArray[np.float32]) -> Look:
        n_queries, n_bytes = self.lows.shape
        if byte_lanes.ROWS_AVAILABLE and n_queries <= MOST_BY_ROWS:
            scan, group, width = scan_by_rows, n_queries, n_queries
        elif n_queries == 1:
            scan, group, width = scan_by_scores, 1, 0
        else:
            scan, group, width = scan_by_queries, byte_lanes.GROUP, byte_lanes.GROUP
        announce(scan, "table search")
        groups = []
        for first in range(0, n_queries, group):
            part = slice(first, first + group)
            here = self.of_queries(part)
            byte_tables = aligned_bytes(n_bytes * 256 * width)
            if width:
                round_tables(byte_tables, scan is scan_by_queries, *here[1:], bars[part])
            groups.append((part, here, byte_tables))

        def look(
            state: Selection, k: int, allowed: NDArray[np.bool_], first: int, last: int
        ) -> None:
            for part, here, byte_tables in groups:
                scan(*state.part(part), k, allowed, first, last, *here, byte_tables)

        return look
