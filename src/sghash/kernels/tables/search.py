"""The k best codes by score for real queries, no shortlist: every code is looked at.

A score is a sum over groups of four bits of one table entry each (and the code's own term in L2).
Entries are rounded down to bytes on a scale on which the query's current k-th best score is 254,
so a sum of bytes never exceeds the scaled score: what saturates cannot be among the best k. The
few codes that do not saturate are scored in float32, and only that decides. So the answer is exact
whatever the rounding, and the scale gets finer while the k-th best gets nearer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.kernels.checks import UINT8, check_array, check_gram, check_mask_of, check_tables
from sghash.kernels.compiling import announce
from sghash.kernels.tables import nibbles
from sghash.kernels.tables.best_rows import FEW, Look, best_rows, chosen_codes
from sghash.kernels.tables.scans import (
    round_all,
    scan_blocks,
    scan_rows,
    scan_tiles,
    score_bounds,
)
from sghash.kernels.tables.selection import Selection
from sghash.neighbors import Neighbors
from sghash.validation import Codes, Ids, Vectors

# Share of a query's range of scores by which float32 sums may err; far more than they do.
_SLACK = 1e-5
_NO_GRAM = np.empty((0, 0, 0), dtype=np.float32)
_NO_LEVELS = np.empty(0, dtype=np.uint8)


class Terms(NamedTuple):
    """What codes add to scores by themselves: the tables of exact terms, and a byte per code.

    The term of a code is at least `least` + its level * `step`; `levels` (n,) uint8.
    """

    gram: Vectors
    levels: NDArray[np.uint8]
    least: float
    step: float


def make_terms(values: Vectors, gram: Vectors) -> Terms:
    """Round the terms of all codes (n,) down to a byte each."""
    least = float(values.min()) if len(values) else 0.0
    step = (float(values.max()) - least) / 255 if len(values) else 0.0
    # A little less than the nearest level, so that rounding never lifts a term.
    shares = (values.astype(np.float64) - least) / step - 1e-3 if step else np.zeros(len(values))
    return Terms(gram, np.clip(np.floor(shares), 0, 255).astype(np.uint8), least, step)


def asymmetric_neighbors(
    codes: Codes,
    tables: Vectors,
    k: int,
    *,
    terms: Terms | None = None,
    mask: NDArray[np.bool_] | None = None,
    threads: int | None = 1,
) -> Neighbors:
    """The k rows with the least score of each query, by (score, row); scores float32.

    `tables` (n_queries, 2 * n_bytes, 16) come from `rescoring.nibble_tables`.
    """
    _check(codes, tables, terms, mask)
    return best_rows(_NibbleScan(codes, tables, terms), k, mask=mask, threads=threads)


def _check(
    codes: Codes, tables: Vectors, terms: Terms | None, mask: NDArray[np.bool_] | None
) -> None:
    check_array(codes, UINT8, 2, "codes")
    check_tables(tables, len(tables), codes.shape[1])
    if mask is not None:
        check_mask_of(mask, len(codes))
    if terms is not None:
        check_gram(terms.gram, codes.shape[1])
        check_array(terms.levels, UINT8, 1, "levels")
        if len(terms.levels) != len(codes):
            raise InvalidInput(f"got terms of {len(terms.levels)} codes, there are {len(codes)}")


class _NibbleScan(NamedTuple):
    """Codes (n, n_bytes), tables (n_queries, 2 * n_bytes, 16), and the codes' own terms."""

    codes: Codes
    tables: Vectors
    terms: Terms | None

    @property
    def n_rows(self) -> int:
        return len(self.codes)

    @property
    def n_queries(self) -> int:
        return len(self.tables)

    def of_queries(self, chosen: slice | Ids) -> _NibbleScan:
        return self._replace(tables=self.tables[chosen])

    def of_rows(self, chosen: slice | Ids) -> _NibbleScan:
        terms = self.terms
        if terms is not None:
            terms = terms._replace(levels=np.ascontiguousarray(terms.levels[chosen]))
        return _NibbleScan(chosen_codes(self.codes, chosen), self.tables, terms)

    def begin(self, bars: NDArray[np.float32]) -> Look:
        codes, tables, terms = self
        gram = _NO_GRAM if terms is None else terms.gram
        levels = _NO_LEVELS if terms is None else terms.levels
        levelled = np.asarray([0.0, 0.0] if terms is None else [terms.least, terms.step])
        least, step = levelled.tolist()
        bounds = score_bounds(tables, least, abs(least) + 255 * step, _SLACK)
        n_groups = tables.shape[1] + (0 if terms is None else 2)
        byte_tables = np.zeros((len(tables), n_groups, 32), dtype=np.uint8)
        round_all(byte_tables, tables, step, bounds, bars)
        scan = scan_tiles if nibbles.AVAILABLE else scan_rows
        if nibbles.AVAILABLE and len(tables) <= FEW and codes.shape[1] in (8, 16):
            scan = scan_blocks
        announce(scan, "asymmetric search")

        def look(
            state: Selection, k: int, allowed: NDArray[np.bool_], first: int, last: int
        ) -> None:
            rows = k, allowed, first, last
            scan(*state, *rows, codes, tables, bounds, byte_tables, gram, levels, levelled)

        return look
