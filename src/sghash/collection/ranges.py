"""All rows within a radius, and all pairs of rows within a radius of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.looking_up import MOST_BYTES, SCAN, Choice, LookUp
from sghash.collection.storage.segments import Progress, View
from sghash.index import HammingIndex
from sghash.index.joins import scanned_pairs, tabled_pairs
from sghash.neighbors import RangeNeighbors
from sghash.validation import Codes

# Rows of one segment that a join looks for in another one at a time.
JOIN_ROWS = 4096
_Mask = NDArray[np.bool_]


class Within(NamedTuple):
    """The rows within a radius, and the way that was gone in each segment."""

    neighbors: RangeNeighbors
    choices: list[Choice]


def room_left(views: Sequence[View]) -> int:
    """Bytes that there are for more tables of keys."""
    return MOST_BYTES - sum(look_up_of(view).nbytes for view in views)


def look_up_of(view: View) -> LookUp:
    """The codes of a segment, as they are looked up."""
    index = view.rows.index
    assert isinstance(index, HammingIndex)  # the caller has made sure that codes are bits
    return view.rows.look_up(index.n_bits)


def hamming_within(
    views: Sequence[View],
    masks: Sequence[_Mask | None],
    query_codes: Codes,
    radius: int,
    *,
    threads: int,
) -> Within:
    """All rows of all segments within a radius, of each query by (distance, id)."""
    n_queries = len(query_codes)
    queries, distances, ids, choices = [], [], [], []
    for view, mask in zip(views, masks, strict=True):
        found, choice = _within(view, mask, query_codes, radius, room_left(views), threads)
        queries.append(np.repeat(np.arange(n_queries), np.diff(found.limits)))
        distances.append(found.distances)
        ids.append(view.rows.ids_at(found.ids))
        choices.append(choice)
    all_queries = np.concatenate([np.empty(0, dtype=np.int64), *queries])
    all_distances = np.concatenate([np.empty(0, dtype=np.int32), *distances])
    all_ids = np.concatenate([np.empty(0, dtype=np.int64), *ids])
    order = np.lexsort((all_ids, all_distances, all_queries))
    limits = np.searchsorted(all_queries[order], np.arange(n_queries + 1))
    together = RangeNeighbors(limits.astype(np.int64), all_distances[order], all_ids[order])
    return Within(together, choices)


def _within(
    view: View, mask: _Mask | None, queries: Codes, radius: int, room: int, threads: int
) -> tuple[RangeNeighbors, Choice]:
    """Rows of one segment within a radius, the way that costs less."""
    look_up = look_up_of(view)
    choice = look_up.choose(radius, len(queries), room)
    way = "scan" if choice.way == SCAN else "auto"
    found = look_up.index.range_search(queries, radius, mask=mask, threads=threads, way=way)
    look_up.note(choice, room)
    return found, choice


def pairs_within(
    views: Sequence[View],
    radius: int,
    *,
    threads: int,
    callback: Progress | None = None,
) -> NDArray[np.int64]:
    """All pairs of living rows within a radius: (smaller id, larger id, distance), by ids."""
    # Rows of the smaller segment are looked for in the larger one, whose tables find them sooner.
    views = sorted(views, key=lambda view: len(view.rows))
    total, done, found = sum(len(view.rows) for view in views), 0, [np.empty((0, 3), np.int64)]

    def tell(n_rows: int) -> None:
        nonlocal done
        done += n_rows
        if callback is not None:
            callback(done, total)

    for number, view in enumerate(views):
        others = views[number + 1 :]
        living = np.arange(len(view.rows)) if view.alive is None else np.flatnonzero(view.alive)
        for start in range(0, len(living) if others else 0, JOIN_ROWS):
            chosen = living[start : start + JOIN_ROWS]
            found.append(_pairs_beside(view, chosen, others, radius, threads))
        own = _own_pairs(view, radius, room_left(views), threads, tell)
        firsts, seconds = (view.rows.ids_at(own[:, i]) for i in (0, 1))
        found.append(np.stack([firsts, seconds, own[:, 2]], axis=1))
    joined = np.concatenate(found)
    return joined[np.lexsort((joined[:, 1], joined[:, 0]))]


def pairs_ways(views: Sequence[View], radius: int) -> list[Choice]:
    """The way to the pairs of each segment's own rows; tables that it asks for are built."""
    return [look_up_of(view).choose_for_pairs(radius, room_left(views)) for view in views]


def _own_pairs(
    view: View, radius: int, room: int, threads: int, tell: Callable[[int], None]
) -> NDArray[np.int64]:
    """Pairs of living rows of one segment, by rows."""
    look_up, codes = look_up_of(view), view.rows.codes
    options: dict[str, Any] = {"mask": view.alive, "threads": threads}
    if look_up.choose_for_pairs(radius, room).way == SCAN:
        n_bits = 8 * codes.shape[1]
        return scanned_pairs(codes, radius, n_bits, callback=tell, **options)
    tables = look_up.index.tables
    assert tables is not None  # they were chosen
    pairs = tabled_pairs(tables, codes, radius, **options)
    tell(len(codes))
    return pairs


def _pairs_beside(
    view: View, chosen: NDArray[np.int64], others: Sequence[View], radius: int, threads: int
) -> NDArray[np.int64]:
    """Pairs of these rows of one segment with the living rows of others."""
    masks = [other.alive for other in others]
    codes = np.ascontiguousarray(view.rows.codes[chosen])
    near = hamming_within(others, masks, codes, radius, threads=threads).neighbors
    own = np.repeat(view.rows.ids_at(chosen), np.diff(near.limits))
    firsts, seconds = np.minimum(own, near.ids), np.maximum(own, near.ids)
    return np.stack([firsts, seconds, near.distances], axis=1)
