"""From the options of a search over lists to one compiled call: the plan, the answer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidDtype, InvalidInput
from sghash.index.arranged import Arranged
from sghash.index.tables import with_offsets
from sghash.kernels.hamming.staging import words_of
from sghash.kernels.partitions import search as kernel
from sghash.kernels.partitions.coarse import TOGETHER
from sghash.kernels.threads import cut, run
from sghash.kernels.vectors.stored import HALVES
from sghash.neighbors import PADDING_ID, Neighbors, empty_neighbors
from sghash.tables import QueryTables
from sghash.validation import (
    METRICS,
    Codes,
    Vectors,
    check_codes,
    check_count,
    check_k,
    check_mask,
    check_number,
    check_vectors,
)

if TYPE_CHECKING:
    from sghash.index.partitioned import PartitionedIndex

# Rows per neighbour that a stage lets through by default.
LENGTH = 10
# Options that a plan can be found by again: truth values, which equal numbers, are none.
_PLAIN = (int, float, type(None))
_MOST_PLANS = 256
# No list is further from the nearest than that.
NO_MARGIN = 1e30
_NO_WORDS = np.empty((0, 1), dtype=np.uint64)
_NO_TABLES = np.empty((0, 0, 0), dtype=np.float32)
_ALL = np.empty(0, dtype=np.bool_)
_NO_SLOPES, _NO_BIAS = np.empty((0, 0), dtype=np.float32), np.empty(0, dtype=np.float32)
_NO_KEPT = np.empty((0, 0), dtype=np.float32)


class Asked(NamedTuple):
    """Queries, checked, as the kernel wants them, and the moment of the index they are put to."""

    index: PartitionedIndex
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
    """How many neighbours, lists and rows of the stages; and how far lists may be."""

    k: int
    probes: int
    by_scan: int
    by_tables: int
    margin: float


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
        _check_kept(kept, held.n, vectors, index)
    sizes = {len(part) for part in (codes, vectors) if part is not None}
    sizes |= set() if tables is None else {tables.n_queries}
    if len(sizes) != 1:
        raise InvalidInput(
            f"codes, tables and vectors are of different numbers of queries: {sizes}"
        )
    return Asked(index, held, sizes.pop(), scan, vectors, codes, tables, kept)


def _check_kept(kept: Any, n: int, vectors: Vectors | None, index: PartitionedIndex) -> None:
    if not isinstance(kept, np.ndarray) or kept.dtype not in (np.float16, np.float32):
        raise InvalidDtype("kept must be an array of float16 or float32: convert it")
    if kept.ndim != 2 or len(kept) != n or not kept.flags.c_contiguous:
        raise InvalidInput(
            f"kept must be contiguous, with a row for each of the {n} codes, got {kept.shape}"
        )
    if kept.dtype == np.float16 and not HALVES:
        raise InvalidDtype("this CPU cannot widen float16: keep float32 vectors")
    if vectors is None:
        raise InvalidInput("kept vectors are compared with the queries' own: give `vectors`")
    if kept.shape[1] != vectors.shape[1]:
        raise InvalidInput(
            f"queries have {vectors.shape[1]} columns, the kept vectors {kept.shape[1]}: use "
            "vectors of the same kind"
        )


def _prepared(index: PartitionedIndex, held: Arranged) -> tuple[Any, ...]:
    """What the kernel is given of one moment."""
    ready = index.prepared
    if ready is not None and ready[0] is held:
        return ready[1]
    partitions = held.partitions
    assert partitions is not None  # there are rows
    stored: Any = np.float16 if HALVES else np.float32
    centroids, groups = np.empty((0, 0), np.float16), partitions.group_centroids
    words, half_squares = _NO_WORDS, np.empty(0, dtype=np.float32)
    if partitions.by_code:
        words = words_of(partitions.centroids)
    else:
        centroids = partitions.centroids
    found: list[Any] = []
    for some in (centroids, groups):
        wide = some.astype(np.float64)
        halves = np.einsum("ij,ij->i", wide, wide) / 2 * (partitions.metric != "ip")
        padded = np.zeros((len(some) + TOGETHER, some.shape[1]), dtype=stored)
        padded[: len(some)] = some
        found += [padded.view(np.uint16) if HALVES else padded, halves.astype(np.float32)]
    centroids, half_squares, groups, group_squares = found
    lists = (centroids, half_squares, groups, group_squares, partitions.group_starts, words)
    slopes, bias = _NO_SLOPES, _NO_BIAS
    if index.query_map is not None:
        bias = index.query_map.bias
        slopes = np.zeros((len(bias) + TOGETHER, index.query_map.slopes.shape[1]), np.float32)
        slopes[: len(bias)] = index.query_map.slopes
    ready = (
        slopes, bias, *lists,
        held.blocks, held.ranks, held.terms, float(held.term_step), held.starts, held.counts,
    )  # fmt: skip
    index.prepared = held, ready, {}
    return ready


def answer(
    asked: Asked, plan: Plan, mask: ArrayLike | None, threads: int
) -> tuple[Neighbors, NDArray[np.int64]]:
    """The answer, and what the search did for each query."""
    held, n_queries = asked.held, asked.n_queries
    allowed = _ALL
    if mask is not None:
        allowed = check_mask(mask, held.n)
        share = np.count_nonzero(allowed) / max(1, held.n)
        if share < 1:
            # As many allowed rows as there would be rows without a mask.
            plan = plan._replace(probes=int(min(2**31, np.ceil(plan.probes / max(share, 1e-9)))))
    width = min(plan.k, held.n)
    distances = np.empty((n_queries, width), dtype=np.float32)
    rows = np.empty((n_queries, width), dtype=np.int64)
    stats = np.zeros((n_queries, kernel.N_STATS), dtype=np.int64)
    if held.n and n_queries:
        _call(asked, plan, allowed, threads, distances, rows, stats)
    if width < plan.k or not n_queries:
        padded = empty_neighbors(n_queries, plan.k, np.float32)
        padded.distances[:, :width], padded.ids[:, :width] = distances, rows
        distances, rows = padded
    return _as_neighbors(asked, distances, rows), stats


def _call(
    asked: Asked,
    plan: Plan,
    allowed: NDArray[np.bool_],
    threads: int,
    distances: Vectors,
    rows: NDArray[np.int64],
    stats: NDArray[np.int64],
) -> None:
    index, held, n_queries = asked.index, asked.held, asked.n_queries
    fixed = _prepared(index, held)
    metric = METRICS.index(index.metric)
    numbers = np.asarray(
        [rows.shape[1], plan.probes, plan.by_scan, plan.by_tables, asked.scan, asked.last, metric],
        dtype=np.int64,
    )
    vectors, codes, slopes = asked.vectors, asked.codes, np.empty((n_queries, 0), np.float32)
    if vectors is None:
        vectors = slopes
    elif index.metric == "cosine":
        assert held.partitions is not None  # there are rows
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
        vectors = vectors / np.where(lengths > 0, lengths, 1)
    words = np.empty((n_queries, 0), dtype=np.uint64)
    if codes is None:
        codes = np.empty((n_queries, 0), dtype=np.uint8)
    else:
        words = words_of(codes)
    byte_tables = _NO_TABLES
    mapped = asked.scan == kernel.BITS and asked.tables is None
    if asked.tables is not None:
        if asked.tables.tables.ndim == 2:
            slopes = asked.tables.tables
        else:
            byte_tables = asked.tables.tables
    if not mapped:
        fixed = (_NO_SLOPES, _NO_BIAS, *fixed[2:])
    kept: NDArray[Any] = _NO_KEPT if asked.kept is None else asked.kept
    if kept.dtype == np.float16:
        kept = kept.view(np.uint16)
    call = kernel.searcher(kept.dtype)
    numbered = (numbers, plan.margin)
    if n_queries == 1 or threads == 1:
        call(*numbered, vectors, codes, words, slopes, byte_tables, *fixed, kept, allowed,
             distances, rows, stats)  # fmt: skip
        return

    def search(start: int, stop: int, stopped: threading.Event) -> None:
        part = slice(start, stop)
        tables = byte_tables[part] if len(byte_tables) else byte_tables
        call(
            *numbered, vectors[part], codes[part], words[part], slopes[part], tables,
            *fixed, kept, allowed, distances[part], rows[part], stats[part],
        )  # fmt: skip

    run([(search, part) for part in cut(n_queries, threads)])


def _as_neighbors(asked: Asked, distances: Vectors, rows: NDArray[np.int64]) -> Neighbors:
    """Rows as ids, distances of their own kind, offsets added."""
    ids = asked.held.row_ids.at(rows)
    if asked.last == kernel.HAMMING:
        missing = rows == PADDING_ID
        whole = np.where(missing, 0, distances).astype(np.int32)
        whole[missing] = np.iinfo(np.int32).max
        return Neighbors(whole, ids)
    if asked.last != kernel.VECTORS:
        assert asked.tables is not None  # the scores are theirs
        return with_offsets(Neighbors(distances, ids), asked.tables.offsets)
    return Neighbors(distances, ids)


def planned(
    asked: Asked, k: Any, probes: Any, shortlist: Any, margin: Any, target: float | None
) -> Plan:
    """The plan of a search by its options, or by a recall to be reached; made once for a moment."""
    options = (k, probes, shortlist, margin, target)
    plain = all(type(option) in _PLAIN for option in options)
    ready = asked.index.prepared
    if not plain or ready is None or ready[0] is not asked.held:
        return _planned(asked, *options)
    seen = asked.vectors is None, asked.codes is None, asked.tables is None, asked.kept is None
    key = (*options, asked.scan, asked.last, *seen, id(asked.index.curve))
    plan = ready[2].get(key)
    if plan is None:
        plan = _planned(asked, *options)
        if len(ready[2]) < _MOST_PLANS:
            ready[2][key] = plan
    return plan


def _planned(
    asked: Asked, k: Any, probes: Any, shortlist: Any, margin: Any, target: float | None
) -> Plan:
    k, curve = check_k(k), asked.index.curve
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
    length = max(k, -(-point.shortlist * k // curve.k))
    staged = asked.last != asked.scan
    return asked.plan(k, point.probes, length if staged else None, point.margin)
