"""From the options of a search over lists to one compiled call: the plan, the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.index.lists.arranged import Arranged
from sghash.index.lists.asking import PLAIN, Asked, Plan
from sghash.index.tables import with_offsets
from sghash.kernels.hamming.staging import words_of
from sghash.kernels.partitions import search as kernel
from sghash.kernels.partitions.calling import searcher
from sghash.kernels.partitions.coarse import TOGETHER
from sghash.kernels.threads import cut, run
from sghash.kernels.vectors.kinds import row_columns
from sghash.kernels.vectors.stored import HALVES
from sghash.neighbors import PADDING_ID, Neighbors, empty_neighbors
from sghash.validation import METRICS, Vectors, check_mask

if TYPE_CHECKING:
    from sghash.index.lists.partitioned import PartitionedIndex

Options = tuple[Any, Any, Any, Any, Any]

#: Queries per compiled call, so that Ctrl-C is heard.
PIECE = 512

_NO_WORDS = np.empty((0, 1), dtype=np.uint64)
_NO_TABLES = np.empty((0, 0, 0), dtype=np.float32)
_ALL = np.empty(0, dtype=np.bool_)
_NO_SLOPES, _NO_BIAS = np.empty((0, 0), dtype=np.float32), np.empty(0, dtype=np.float32)
# Types of kept vectors as kernels see them.
_TYPES = tuple(np.dtype(kind) for kind in (np.uint16, np.float32, np.int8, np.uint8))
_NO_KEPT = np.empty((0, 0), dtype=np.float32)


class Way(NamedTuple):
    """All that a search by vectors hands to the kernel beside queries and kept vectors."""

    call: Callable[..., None]
    numbers: NDArray[np.int64]
    margin: float
    fixed: tuple[Any, ...]
    width: int


class Prepared(NamedTuple):
    """What kernels are given of one moment of an index, and the ways that were gone in it."""

    held: Arranged
    fixed: tuple[Any, ...]
    ways: dict[Any, Way]


def straight(
    index: PartitionedIndex, queries: Any, kept: Any, options: Options, threads: Any
) -> Neighbors | None:
    """The answer to vectors asked in a way that was gone before, or None: then all is checked.

    Checks cost more than some searches: here only what compiled code must rely on is asked, and
    whatever is not as it was the last time takes the long way, with its sentences.
    """
    ready = index.prepared
    if ready is None or ready.held is not index.held:
        return None
    if type(queries) is not np.ndarray or type(kept) is not np.ndarray or threads is True:
        return None
    way = ready.ways.get((*options, index.curve))
    if way is None or queries.dtype != np.float32 or any(type(o) not in PLAIN for o in options):
        return None
    vectors = queries[None] if queries.ndim == 1 else queries
    if len(vectors) > PIECE or (threads != 1 and (threads is not None or len(vectors) != 1)):
        return None
    right = vectors.ndim == kept.ndim == 2 and len(kept) == ready.held.n
    if not right or not vectors.flags.c_contiguous or not kept.flags.c_contiguous:
        return None
    width = way.fixed[0].shape[1]
    stored = kept.view(np.uint16) if kept.dtype == np.float16 else kept
    fits = vectors.shape[1] == width and kept.shape[1] == row_columns(kept.dtype, width)
    if not fits or way.call is not ways_of(stored.dtype):
        return None
    n = len(vectors)
    distances = np.empty((n, way.width), dtype=np.float32)
    rows = np.empty((n, way.width), dtype=np.int64)
    stats = np.empty((n, kernel.N_STATS), dtype=np.int64)
    codes, words, slopes = _NOTHING if n == 1 else _nothing(n)
    way.call(way.numbers, way.margin, vectors, codes, words, slopes, _NO_TABLES, *way.fixed, stored,
             _ALL, distances, rows, stats)  # fmt: skip
    if stats[0, 0] < 0 if n == 1 else (stats[:, 0] < 0).any():
        return None
    return Neighbors(distances, ready.held.row_ids.at(rows))


def ways_of(kind: np.dtype[Any]) -> Callable[..., None] | None:
    """The kernel for kept vectors of this type, if it has been used."""
    return searcher(kind) if kind in _TYPES else None


def _nothing(n: int) -> tuple[NDArray[Any], ...]:
    """No codes, no words, no slopes of n queries."""
    return tuple(np.empty((n, 0), dtype=kind) for kind in (np.uint8, np.uint64, np.float32))


_NOTHING = _nothing(1)


def _prepared(index: PartitionedIndex, held: Arranged) -> Prepared:
    """What the kernel is given of one moment."""
    ready = index.prepared
    if ready is not None and ready.held is held:
        return ready
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
    fixed = (
        slopes, bias, *lists,
        held.blocks, held.ranks, held.terms, float(held.term_step), held.starts, held.counts,
    )  # fmt: skip
    ready = index.prepared = Prepared(held, fixed, {})
    return ready


def probes_through(allowed: NDArray[np.bool_], probes: int) -> int:
    """Lists to visit so that as many allowed rows are met as rows would be without a mask."""
    share = np.count_nonzero(allowed) / max(1, len(allowed))
    # Nearly all are all.
    return probes if share == 1 else int(min(2**31, np.ceil(probes / max(share, 1e-9) - 0.5)))


def answer(
    asked: Asked, plan: Plan, mask: ArrayLike | None, threads: int
) -> tuple[Neighbors, NDArray[np.int64]]:
    """The answer, and what the search did for each query."""
    held, n_queries = asked.held, asked.n_queries
    allowed = _ALL
    if mask is not None:
        allowed = check_mask(mask, held.n)
        if not plan.enough:
            plan = plan._replace(probes=probes_through(allowed, plan.probes))
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
    index, held, n_queries = asked.owner, asked.held, asked.n_queries
    ready = _prepared(index, held)
    fixed = ready.fixed
    metric = METRICS.index(index.metric)
    enough = round(1000 * plan.enough)
    numbers = np.asarray([
        rows.shape[1], plan.probes, plan.by_scan, plan.by_tables, asked.scan, asked.last, metric,
        enough,
    ], dtype=np.int64)  # fmt: skip
    vectors, codes, slopes = asked.vectors, asked.codes, np.empty((n_queries, 0), np.float32)
    if vectors is None:
        vectors = slopes
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
    call = searcher(kept.dtype)
    if mapped and not len(allowed) and plan.key is not None:
        # The next call of this kind, of this very moment, can go straight to the kernel.
        ready.ways[plan.key] = Way(call, numbers, plan.margin, fixed, rows.shape[1])

    def search(start: int, stop: int, stopped: threading.Event) -> None:
        for first in range(start, stop, PIECE):
            if stopped.is_set():
                return
            part = slice(first, min(first + PIECE, stop))
            tables = byte_tables[part] if len(byte_tables) else byte_tables
            call(
                numbers, plan.margin, vectors[part], codes[part], words[part], slopes[part],
                tables, *fixed, kept, allowed, distances[part], rows[part], stats[part],
            )  # fmt: skip

    run([(search, part) for part in cut(n_queries, threads if n_queries > 1 else 1)])


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
