"""Exact search that visits few codes: rows looked up by parts of their bits."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput
from sghash.index.base import CodeIndex, Mask
from sghash.index.costs import Costs, keys_cost, measured, pays
from sghash.index.joins import scanned_pairs, tabled_pairs, tables_pay
from sghash.index.rows import Held
from sghash.index.tabled import Lookup, Tabled, rows_of
from sghash.kernels import hamming_neighbors, hamming_range
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.validation import (
    Codes,
    check_choice,
    check_codes,
    check_count,
    check_k,
    check_n_bits,
    check_radius,
    check_threads,
    n_bytes_of,
)

if TYPE_CHECKING:
    from sghash.kernels.multi.layout import Tables
    from sghash.kernels.multi.search import Probed

#: How to look: through tables, through all codes, or as costs less.
WAYS = ("auto", "tables", "scan")
#: Fewer rows are scanned unless told otherwise; so are fewer for nearest ones, or more of these.
LEAST_ROWS, LEAST_NEAREST, MOST_K = 50_000, 200_000, 4096
# A query may spend this share of a scan on its tables before it turns to the scan; within a radius,
# where what it takes was measured, less.
_BUDGET, _RANGE_BUDGET = 1.0, 0.5
# Of many queries about so many are tried first: where a scan would cost less, all are scanned.
_FIRST = 16


class MultiIndex(CodeIndex):
    """Packed codes of bits with stable int64 ids, looked up by parts of their bits (multi-index
    hashing, Norouzi, Punjani and Fleet 2014); every search is exact, by (distance, id).

    It answers as a `HammingIndex` does, and visits a small share of the codes where there are many
    and neighbours are near: nearest neighbours and small radii among a million codes or more. Where
    a scan costs less, it scans. Tables take about 8 bytes per code and part; they are built by the
    first search that needs them, and not written to files.

    Parameters
    ----------
    n_bits : int
        Length of the codes, 1 to 4096.
    n_parts : int or None
        Number of parts; None: so many that a part has about as many values as there are rows.

    Examples
    --------
    >>> import numpy as np, sghash
    >>> from sghash.index import MultiIndex
    >>> index = MultiIndex(3)
    >>> index.add(sghash.pack_bits([[0, 0, 0], [0, 1, 1], [1, 1, 1]]))
    array([0, 1, 2])
    >>> index.search(sghash.pack_bits([0, 1, 0]), k=2).ids.tolist()
    [[0, 1]]
    >>> index.similarity_join(1).tolist()
    [[1, 2, 1]]
    """

    kind: ClassVar[str] = "multi"

    def __init__(self, n_bits: int, *, n_parts: int | None = None) -> None:
        self.n_bits = check_n_bits(n_bits)
        super().__init__(n_bytes_of(self.n_bits))
        check_count(n_parts, name="n_parts", or_none=True)
        if n_parts is not None and n_parts > self.n_bits:
            raise InvalidInput(
                f"n_parts must be at most n_bits ({self.n_bits}), got {n_parts}: a part needs a bit"
            )
        self.n_parts = None if n_parts is None else int(n_parts)
        # Bits that kernels count: whole bytes where the padding of mapped codes is not checked.
        self._counted_bits = self.n_bits
        #: What a look-up and a scan take; measured when tables are built.
        self.costs = Costs()

    def __repr__(self) -> str:
        return f"MultiIndex({self.n_bits}) with {len(self)} codes"

    @property
    def nbytes(self) -> int:
        """Bytes of memory (or of mapped file) that codes, ids and tables take."""
        held, own = self._held, super().nbytes
        if isinstance(held, Tabled) and held.tables is not None:
            own += held.tables.nbytes + (0 if held.now is None else held.now.nbytes)
        return own

    @property
    def tables(self) -> Tables | None:
        """The tables; None before they are built."""
        held = self._held
        return held.tables if isinstance(held, Tabled) else None

    @property
    def is_built(self) -> bool:
        """Whether there are tables of the rows as they are now."""
        held = self._held
        return isinstance(held, Tabled) and not held.is_stale

    def build(self) -> None:
        """Build the tables now instead of with the first search that needs them."""
        self._tabled()

    def expected(self, radius: int, n_queries: int = 1) -> tuple[float, float]:
        """Nanoseconds that each of so many queries is expected to take: tables, and a scan."""
        reckoned = partial(keys_cost, len(self), self.n_bits, self.n_parts, radius)
        scan = self.costs.scan(len(self), self.n_bytes, n_queries)
        return self.costs.within(radius, reckoned), scan

    def search(
        self,
        query_codes: ArrayLike,
        k: int = 10,
        *,
        mask: ArrayLike | None = None,
        threads: int | None = None,
        way: str = "auto",
    ) -> Neighbors:
        """Return the k nearest codes of each query: distances int32 and ids int64, (n_queries, k).

        `mask` (len(index),) bool allows the rows of `ids` where it is True. Where fewer than k
        rows are allowed, the rest is id -1. A 1-D query is one query. `way` is "tables", "scan",
        or, by default, what costs less; the answer is the same.
        """
        queries = check_codes(query_codes, self.n_bits, name="query_codes")
        k, workers = check_k(k), check_threads(threads)
        looks_up = k <= MOST_K and len(self) >= LEAST_NEAREST
        held = self._chosen(check_choice(way, WAYS, name="way"), looks_up)
        allowed = self._mask(mask, held)
        found, _ = self._nearest(held, queries, k, allowed, workers, way)
        return Neighbors(found.distances, held.row_ids.at(found.ids))

    def range_search(
        self,
        query_codes: ArrayLike,
        radius: int,
        *,
        mask: ArrayLike | None = None,
        threads: int | None = None,
        way: str = "auto",
    ) -> RangeNeighbors:
        """Return all codes with distance <= `radius` (inclusive) of each query.

        Those of query i stand at `limits[i]` to `limits[i + 1]` - 1, by (distance, id).
        """
        queries = check_codes(query_codes, self.n_bits, name="query_codes")
        radius, workers = check_radius(radius), check_threads(threads)
        looks_up = False
        if check_choice(way, WAYS, name="way") == "auto" and len(self) >= LEAST_ROWS:
            looks_up = pays(*self.expected(radius, len(queries)))
        held = self._chosen(way, looks_up)
        found, _ = self._within(held, queries, radius, self._mask(mask, held), workers, way)
        return RangeNeighbors(found.limits, found.distances, held.row_ids.at(found.ids))

    def similarity_join(
        self, radius: int, *, threads: int | None = None, way: str = "auto"
    ) -> NDArray[np.int64]:
        """Return all pairs of rows whose codes differ in at most `radius` bits.

        One row per pair, (n_pairs, 3) int64: the smaller id, the larger id, the distance; by ids.
        """
        radius, workers = check_radius(radius), check_threads(threads)
        held = self._chosen(check_choice(way, WAYS, name="way"), True, whole=True)
        tables, codes = held.tables if isinstance(held, Tabled) else None, held.codes
        if tables is not None and (
            way == "tables" or tables_pay(tables, codes, radius, self.costs)
        ):
            pairs = tabled_pairs(tables, codes, radius, threads=workers)
        else:
            pairs = scanned_pairs(codes, radius, self._counted_bits, threads=workers)
        pairs[:, 0], pairs[:, 1] = (held.row_ids.at(pairs[:, i].copy()) for i in (0, 1))
        return pairs

    def explain(
        self,
        query_code: ArrayLike,
        k: int = 10,
        *,
        radius: int | None = None,
        mask: ArrayLike | None = None,
        way: str = "auto",
    ) -> Lookup:
        """Answer one query, by `radius` if that is given, and say which way it went and why."""
        query = check_codes(query_code, self.n_bits, name="query_code")
        if len(query) != 1:
            raise InvalidInput(f"explain takes one query, got {len(query)}")
        options: dict[str, Any] = {"mask": mask, "way": way, "threads": 1}
        asked = (query, k) if radius is None else (query, radius)
        answer = self.search if radius is None else self.range_search
        answer(*asked, **options)  # checks everything, builds tables, compiles
        held = self._held
        allowed = self._mask(mask, held)
        began = time.perf_counter()
        probed: Probed | None
        if radius is None:
            near, probed = self._nearest(held, query, k, allowed, 1, way)
            found: Any = Neighbors(near.distances, held.row_ids.at(near.ids))
        else:
            within, probed = self._within(held, query, radius, allowed, 1, way)
            found = within._replace(ids=held.row_ids.at(within.ids))
        spent = 1e6 * (time.perf_counter() - began)
        counts = [0] * 4 if probed is None else probed.counts[0].tolist()
        taken = "scan" if probed is None else "tables"
        if probed is not None and not probed.complete[0]:
            taken = "tables, then scan"
        n_parts = 0
        if isinstance(held, Tabled) and held.tables is not None:
            n_parts = len(held.tables.key_bits)
        _, keys, entries, compared = counts
        cost = self.costs.nearest if radius is None else self.costs.scan
        scan = cost(held.n, self.n_bytes, 1)
        return Lookup(found, taken, n_parts, keys, entries, compared, held.n, spent, scan / 1e3)

    def _nearest(
        self, held: Held, queries: Codes, k: int, mask: Mask | None, threads: int, way: str
    ) -> tuple[Neighbors, Probed | None]:
        """Rows, and what was looked up where there are tables."""
        options: dict[str, Any] = {"mask": mask, "threads": threads}
        scanning = {**options, "n_bits": self._counted_bits}
        dear = k > MOST_K or held.n < LEAST_NEAREST
        scans = way == "scan" or (way == "auto" and dear)
        if scans or not isinstance(held, Tabled) or held.tables is None:
            return hamming_neighbors(held.codes, queries, k, **scanning), None
        from sghash.kernels.multi.search import multi_neighbors

        scan = self.costs.nearest(held.n, self.n_bytes, len(queries))
        budget = self._budget(way, _BUDGET * scan)
        tables: dict[str, Any] = {"now": held.now, "n_known": held.n_known, "budget": budget}
        if len(queries) >= 4 * _FIRST and way == "auto":
            first = np.ascontiguousarray(queries[:: len(queries) // _FIRST])
            tried = multi_neighbors(held.tables, held.codes, first, k, **tables, **options)
            scan = self.costs.budget(scan)
            if tried.spent + scan * (1 - tried.complete.mean()) > scan:
                return hamming_neighbors(held.codes, queries, k, **scanning), None
        probed = multi_neighbors(held.tables, held.codes, queries, k, **tables, **options)
        left, found = ~probed.complete, probed.neighbors
        if left.any():
            rest = hamming_neighbors(held.codes, queries[left], k, **scanning)
            found.distances[left], found.ids[left] = rest
        return found, probed

    def _within(
        self, held: Held, queries: Codes, radius: int, mask: Mask | None, threads: int, way: str
    ) -> tuple[RangeNeighbors, Probed | None]:
        options: dict[str, Any] = {"mask": mask, "threads": threads}
        scanning = {**options, "n_bits": self._counted_bits}
        scan = self.costs.scan(held.n, self.n_bytes, len(queries))
        budget = self._budget(way, _RANGE_BUDGET * scan)
        tables = held.tables if isinstance(held, Tabled) else None
        if way == "auto" and tables is not None and not pays(*self.expected(radius, len(queries))):
            tables = None
        if tables is None or way == "scan":
            return hamming_range(held.codes, queries, radius, **scanning), None
        from sghash.kernels.multi.search import multi_range

        assert isinstance(held, Tabled)
        probed = multi_range(
            tables, held.codes, queries, radius, now=held.now, n_known=held.n_known,
            budget=budget, **options,
        )  # fmt: skip
        left, found = ~probed.complete, probed.neighbors
        if left.any():
            rest = hamming_range(held.codes, queries[left], radius, **scanning)
            found = _interleaved(found, rest, np.flatnonzero(left))
        return found, probed

    def _chosen(self, way: str, looks_up: bool, *, whole: bool = False) -> Held:
        """The rows of this moment, with tables where the way is through them."""
        if way == "scan" or not len(self):
            return self._held
        if way == "auto" and (not looks_up or len(self) < LEAST_ROWS):
            return self._held
        return self._tabled(whole=whole)

    def _tabled(self, *, whole: bool = False) -> Held:
        """The rows with tables; with `whole`, of all rows, each in its place."""
        from sghash.kernels.multi.layout import MOST_ROWS, build_tables, default_parts

        def is_ready(held: Held) -> bool:
            if not isinstance(held, Tabled) or held.is_stale:
                return False
            return not whole or (held.now is None and held.n_known == held.n)

        held = self._held
        if is_ready(held) or not held.n or held.n > MOST_ROWS:
            return held
        with self._change.lock:
            held = self._held
            if not is_ready(held):
                n_parts = self.n_parts or default_parts(held.n, self.n_bits)
                tables = build_tables(held.codes, self.n_bits, n_parts)
                self.costs = measured(tables, held.codes)
                held = self._held = Tabled(*rows_of(held), tables, None, held.n)
        return held

    def _budget(self, way: str, scan: float) -> float:
        """What a query may spend on its tables beside a scan, as their kernel reckons."""
        return np.inf if way == "tables" else self.costs.budget(scan)

    def _checked(self, codes: ArrayLike) -> Codes:
        return check_codes(codes, self.n_bits)

    def _options(self) -> dict[str, Any]:
        own = {} if self.n_parts is None else {"n_parts": self.n_parts}
        return {"n_bits": self.n_bits, **own}

    def _leave_unchecked(self) -> None:
        self._counted_bits = 8 * self.n_bytes

    def __getstate__(self) -> dict[str, Any]:
        # Tables are cheaper to build than to copy.
        return {**super().__getstate__(), "_held": Held(*rows_of(self._held.alone()))}


def joined(
    codes: ArrayLike,
    radius: int,
    *,
    n_bits: int | None = None,
    threads: int | None = None,
    way: str = "auto",
) -> NDArray[np.int64]:
    """Return all pairs of rows of packed codes (n, n_bytes) that differ in at most `radius` bits.

    One row per pair, (n_pairs, 3) int64: the smaller row, the larger row, the distance; by rows.
    """
    array = np.asarray(codes)
    index = MultiIndex(n_bits or 8 * max(1, array.shape[-1] if array.ndim else 1))
    index.add(array)
    return index.similarity_join(radius, threads=threads, way=way)


def _interleaved(
    found: RangeNeighbors, rest: RangeNeighbors, queries: NDArray[np.int64]
) -> RangeNeighbors:
    """Answers to all queries, of which those of `queries` come from `rest`."""
    sizes = np.diff(found.limits)
    sizes[queries] = np.diff(rest.limits)
    limits = np.concatenate([[0], np.cumsum(sizes)])
    distances, ids = np.empty(limits[-1], np.int32), np.empty(limits[-1], np.int64)
    is_rest = np.zeros(len(sizes), dtype=np.bool_)
    is_rest[queries] = True
    from_rest = np.repeat(is_rest, sizes)
    distances[from_rest], ids[from_rest] = rest.distances, rest.ids
    distances[~from_rest], ids[~from_rest] = found.distances, found.ids
    return RangeNeighbors(limits, distances, ids)
