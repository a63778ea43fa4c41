"""Exact Hamming search over packed codes in memory or in a memory-mapped file."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import ArrayLike

from sghash.index.base import CodeIndex, Mask
from sghash.kernels import hamming_neighbors, hamming_range, hamming_shortlist
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.validation import (
    Codes,
    check_codes,
    check_k,
    check_n_bits,
    check_radius,
    check_threads,
    n_bytes_of,
)


class HammingIndex(CodeIndex):
    """Packed codes of bits with stable int64 ids; every search is exact, by (distance, id).

    Ids without gaps take no memory, others 8 bytes each. Any number of threads may use one index:
    each call that reads sees it as it was at one moment.

    Parameters
    ----------
    n_bits : int
        Length of the codes, 1 to 4096.

    Examples
    --------
    >>> import numpy as np, sghash
    >>> index = sghash.HammingIndex(3)
    >>> index.add(sghash.pack_bits([[0, 0, 0], [0, 1, 1], [1, 1, 1]]))
    array([0, 1, 2])
    >>> distances, ids = index.search(sghash.pack_bits([0, 1, 0]), k=2)
    >>> distances.tolist(), ids.tolist()
    ([[1, 1]], [[0, 1]])
    """

    kind: ClassVar[str] = "hamming"

    def __init__(self, n_bits: int) -> None:
        self.n_bits = check_n_bits(n_bits)
        super().__init__(n_bytes_of(self.n_bits))
        # Bits that kernels count: whole bytes where the padding of mapped codes is not checked.
        self._counted_bits = self.n_bits

    def __repr__(self) -> str:
        return f"HammingIndex({self.n_bits}) with {len(self)} codes"

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
            mask=self._mask(mask, held),
            threads=check_threads(threads),
        )
        return Neighbors(found.distances, held.row_ids.at(found.ids))

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
            mask=self._mask(mask, held),
            threads=check_threads(threads),
        )
        return RangeNeighbors(found.limits, found.distances, held.row_ids.at(found.ids))

    def nearest_rows(
        self, query_codes: Codes, k: int, *, mask: Mask | None, threads: int, ties: bool = False
    ) -> Neighbors:
        """Return rows instead of ids, for arguments that have been checked.

        With `ties`, a tenth more columns: rows that tie with the k-th, and not all beyond it.
        """
        search = hamming_shortlist if ties else hamming_neighbors
        return search(
            self._held.codes, query_codes, k, n_bits=self._counted_bits, mask=mask, threads=threads
        )

    def _checked(self, codes: ArrayLike) -> Codes:
        return check_codes(codes, self.n_bits)

    def _options(self) -> dict[str, Any]:
        return {"n_bits": self.n_bits}

    def _leave_unchecked(self) -> None:
        self._counted_bits = 8 * self.n_bytes
