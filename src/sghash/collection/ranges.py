"""All rows within a radius, and all pairs of rows within a radius of each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sghash.collection.storage.segments import Progress, View
from sghash.index import HammingIndex
from sghash.neighbors import RangeNeighbors
from sghash.validation import Codes

# Rows of one side that a join compares with everything at a time.
JOIN_ROWS = 4096
_Mask = NDArray[np.bool_]


def hamming_within(
    views: Sequence[View],
    masks: Sequence[_Mask | None],
    query_codes: Codes,
    radius: int,
    *,
    threads: int,
) -> RangeNeighbors:
    """All rows of all segments within a radius, of each query by (distance, id)."""
    n_queries = len(query_codes)
    queries, distances, ids = [], [], []
    for view, mask in zip(views, masks, strict=True):
        index = view.rows.index
        assert isinstance(index, HammingIndex)  # the caller has made sure
        found = index.range_search(query_codes, radius, mask=mask, threads=threads)
        queries.append(np.repeat(np.arange(n_queries), np.diff(found.limits)))
        distances.append(found.distances)
        ids.append(found.ids)
    all_queries = np.concatenate([np.empty(0, dtype=np.int64), *queries])
    all_distances = np.concatenate([np.empty(0, dtype=np.int32), *distances])
    all_ids = np.concatenate([np.empty(0, dtype=np.int64), *ids])
    order = np.lexsort((all_ids, all_distances, all_queries))
    limits = np.searchsorted(all_queries[order], np.arange(n_queries + 1))
    return RangeNeighbors(limits.astype(np.int64), all_distances[order], all_ids[order])


def pairs_within(
    views: Sequence[View],
    radius: int,
    *,
    threads: int,
    callback: Progress | None = None,
) -> NDArray[np.int64]:
    """All pairs of living rows within a radius: (smaller id, larger id, distance), by ids."""
    found = []
    masks = [view.alive for view in views]
    total, done = sum(len(view.rows) for view in views), 0
    for number, (rows, alive) in enumerate(views):
        for start in range(0, len(rows), JOIN_ROWS):
            stop = min(start + JOIN_ROWS, len(rows))
            chosen = np.arange(start, stop)
            chosen = chosen if alive is None else chosen[alive[start:stop]]
            # A pair is met from both sides: rows of earlier segments have met this one already.
            near = hamming_within(
                views[number:], masks[number:], np.asarray(rows.codes[chosen]), radius,
                threads=threads,
            )  # fmt: skip
            own = np.repeat(rows.ids_at(chosen), np.diff(near.limits))
            pairs = np.stack([np.minimum(own, near.ids), np.maximum(own, near.ids)])
            found.append(np.vstack([pairs, near.distances])[:, own != near.ids])
            done += stop - start
            if callback is not None:
                callback(done, total)
    joined = np.concatenate([np.empty((3, 0), dtype=np.int64), *found], axis=1)
    return np.unique(joined.T, axis=0)
