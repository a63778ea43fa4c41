"""What is asked of lists: queries of any kind, checked, and the plan of a search by its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidDtype, InvalidInput
from sghash.index.lists.arranged import Arranged
from sghash.kernels.partitions import search as kernel
from sghash.kernels.vectors.kinds import KINDS, row_columns
from sghash.kernels.vectors.stored import HALVES
from sghash.tables import QueryTables
from sghash.validation import (
    Codes,
    Vectors,
    check_codes,
    check_count,
    check_k,
    check_number,
    check_vectors,
)

if TYPE_CHECKING:
    from sghash.index.lists.curve import Curve
    from sghash.index.lists.partitioned import PartitionedIndex

# Rows per neighbour that a stage lets through by default.
LENGTH = 10
# Options that a plan can be found by again: truth values, which equal numbers, are none.
PLAIN = (int, float, type(None))
# No list is further from the nearest than that.
NO_MARGIN = 1e30
# Of more neighbours than were measured, the farther ones lie in other lists: so many times more
# rows must be met, to this power.
FARTHER = 0.3


class Asked(NamedTuple):
    """Queries, checked, as the kernel wants them, and the moment of the index they are put to."""

    owner: PartitionedIndex
    held: Arranged
    n_queries: int
    scan: int
    vectors: Vectors | None
    codes: Codes | None
    tables: QueryTables | None
    kept: NDArray[Any] | None

    @property
    def last(self) -> int:
        """By what the answer is ordered."""
        if self.kept is not None:
            return kernel.VECTORS
        if self.scan == kernel.HAMMING and self.tables is not None:
            return kernel.BITS if self.tables.tables.ndim == 2 else kernel.BYTES
        return self.scan

    def part(self, chosen: NDArray[np.int64]) -> Asked:
        """Some of the queries."""
        tables = self.tables
        if tables is not None:
            tables = tables._replace(tables=tables.tables[chosen], offsets=tables.offsets[chosen])
        return self._replace(
            n_queries=len(chosen), tables=tables,
            vectors=None if self.vectors is None else self.vectors[chosen],
            codes=None if self.codes is None else self.codes[chosen],
        )  # fmt: skip

    def plan(self, k: int, probes: Any, shortlist: Any, margin: Any) -> Plan:
        """Check the options of a search; `probes` None visits all lists."""
        partitions, n = self.held.partitions, max(1, self.held.n)
        n_lists = 1 if partitions is None else partitions.n_lists
        if probes is not None:
            check_count(probes, name="probes")
            self._check_coarse(int(probes), n_lists)
        if margin is not None:
            check_number(margin, name="margin", least=0.0)
        staged = self.last != self.scan
        if shortlist is not None and not staged:
            raise InvalidInput("a shortlist needs kept vectors, or tables beside codes")
        first, second = _lengths(shortlist, k, self)
        doubled = 2 if partitions is not None and partitions.spill_gap >= 0 else 1
        by_scan = first if staged else min(k, n)
        return Plan(
            k, n_lists if probes is None else min(int(probes), n_lists),
            min(doubled * by_scan, doubled * n), min(doubled * second, doubled * n),
            NO_MARGIN if margin is None else float(margin),
        )  # fmt: skip

    def _check_coarse(self, probes: int, n_lists: int) -> None:
        partitions = self.held.partitions
        if partitions is None or probes >= n_lists:
            return
        if partitions.by_code and self.codes is None:
            raise InvalidInput(
                "the lists are those of codes: give the codes of the queries too, as a pair with "
                "their tables"
            )
        if not partitions.by_code and self.vectors is None:
            raise InvalidInput("the lists are those of vectors: give the queries' `vectors` too")


class Plan(NamedTuple):
    """How many neighbours, lists and rows of the stages; and how far lists may be.

    `enough` is how many times the rows of these lists a query must meet, in more lists if need be,
    rows that are not allowed not counted; 0 where the lists were chosen by the caller.
    """

    k: int
    probes: int
    by_scan: int
    by_tables: int
    margin: float
    enough: float = 0.0
    key: tuple[Any, ...] | None = None


def _lengths(shortlist: Any, k: int, asked: Asked) -> tuple[int, int]:
    """Rows that the scan lets through, and the tables after it where there are such."""
    three = asked.scan == kernel.HAMMING and asked.tables is not None
    if isinstance(shortlist, tuple):
        if len(shortlist) != 2 or not three or asked.kept is None:
            raise InvalidInput(
                "a pair of shortlists needs codes, tables and kept vectors: give one number"
            )
        first, second = shortlist
    else:
        second = LENGTH * k if shortlist is None else shortlist
        first = LENGTH * second if three and shortlist is None else second
    for length in (first, second):
        check_count(length, name="shortlist")
        if length < k:
            raise InvalidInput(
                f"a shortlist of {length} cannot give {k} neighbours: give at least {k}"
            )
    return int(first), int(second) if three else 0


def asked_of(
    index: PartitionedIndex, held: Arranged, queries: Any, vectors: Any, kept: Any
) -> Asked:
    """Check queries of any kind."""
    codes = tables = None
    if isinstance(queries, tuple) and not isinstance(queries, QueryTables):
        if len(queries) != 2:
            raise InvalidInput("a pair of codes and query tables was expected")
        codes, tables = queries
        scan = kernel.HAMMING
    elif isinstance(queries, QueryTables):
        tables, scan = queries, kernel.BITS
    else:
        array = np.asarray(queries)
        if array.dtype == np.uint8:
            codes, scan = array, kernel.HAMMING
        elif index.query_map is not None and array.dtype.kind == "f" and kept is not None:
            vectors, scan = array, kernel.BITS
        else:
            raise InvalidDtype(
                f"queries must be packed codes (uint8) or QueryTables, got {array.dtype}"
                + (": vectors need `kept` vectors too" if array.dtype.kind == "f" else "")
            )
    if codes is not None:
        codes = check_codes(codes, index.n_bits or 8 * index.n_bytes, name="query_codes")
    if tables is not None:
        tables = index.rules.checked_queries(tables)
        if scan != kernel.HAMMING and tables.tables.ndim == 3:
            scan = kernel.BYTES
    partitions = held.partitions
    width = partitions.width if partitions is not None and not partitions.by_code else None
    if vectors is not None:
        vectors = check_vectors(vectors, width=width, name="vectors")
    if kept is not None:
        _check_kept(kept, held.n, vectors)
    sizes = {len(part) for part in (codes, vectors) if part is not None}
    sizes |= set() if tables is None else {tables.n_queries}
    if len(sizes) != 1:
        raise InvalidInput(
            f"codes, tables and vectors are of different numbers of queries: {sizes}"
        )
    return Asked(index, held, sizes.pop(), scan, vectors, codes, tables, kept)


def _check_kept(kept: Any, n: int, vectors: Vectors | None) -> None:
    if not isinstance(kept, np.ndarray) or kept.dtype not in KINDS.values():
        raise InvalidDtype(
            "kept must be an array of float16 or float32, or rows of a small kind: convert it"
        )
    if kept.ndim != 2 or len(kept) != n or not kept.flags.c_contiguous:
        raise InvalidInput(
            f"kept must be contiguous, with a row for each of the {n} codes, got {kept.shape}"
        )
    if kept.dtype == np.float16 and not HALVES:
        raise InvalidDtype("this CPU cannot widen float16: keep float32 vectors")
    if vectors is None:
        raise InvalidInput("kept vectors are compared with the queries' own: give `vectors`")
    columns = row_columns(kept.dtype, vectors.shape[1])
    if kept.shape[1] != columns:
        raise InvalidInput(
            f"queries of {vectors.shape[1]} columns need kept vectors of {columns}, these have "
            f"{kept.shape[1]}: use vectors of the same kind"
        )


def planned(
    asked: Asked, k: Any, probes: Any, shortlist: Any, margin: Any, target: float | None
) -> Plan:
    """The plan of a search by its options, or by a recall to be reached."""
    options = (k, probes, shortlist, margin, target)
    curve = asked.owner.curve  # a `measure` beside this search may put another in its place
    plan = _planned(asked, curve, *options)
    if asked.held.n < plan.k or any(type(option) not in PLAIN for option in options):
        return plan
    return plan._replace(key=(*options, curve))


def _planned(
    asked: Asked,
    curve: Curve | None,
    k: Any,
    probes: Any,
    shortlist: Any,
    margin: Any,
    target: float | None,
) -> Plan:
    k = check_k(k)
    if target is None:
        return asked.plan(k, probes, shortlist, margin)
    if probes is not None or shortlist is not None or margin is not None:
        raise InvalidInput("target_recall chooses probes, shortlist and margin: leave them out")
    check_number(target, name="target_recall", above=0.0)
    if target > 1:
        raise InvalidInput(f"target_recall must be at most 1, got {target}")
    if curve is None:
        raise InvalidInput("no curve has been measured: call `measure` with held-out queries first")
    point = curve.reaching(float(target))
    # Of fewer neighbours than were measured, the farther ones decide no less: no shorter list.
    length = max(k, point.shortlist, -(-point.shortlist * k // curve.k))
    staged = asked.last != asked.scan
    plan = asked.plan(k, point.probes, length if staged else None, point.margin)
    return plan._replace(enough=max(1.0, k / curve.k) ** FARTHER)
