"""Search in stages: Hamming shortlist, scores from the decoder, exact distances of kept vectors.

Each stage orders what the one before it let through; where two rows tie, the next stage decides,
and in the end the id. A shortlist that ends among rows of equal Hamming distance is extended by
such rows, up to twice its length, so that not their ids but their scores decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.decoding import Decoder, query_scores
from sghash.collection.segments import Progress, View
from sghash.kernels import hamming_neighbors, hamming_range
from sghash.neighbors import (
    PADDING_ID,
    Neighbors,
    RangeNeighbors,
    empty_neighbors,
    padding_distance,
)
from sghash.validation import Codes, Ids, Vectors

# Rows of one side that a join compares with everything at a time.
JOIN_ROWS = 4096
_KINDS = {"l2": 0, "ip": 1, "cosine": 2}
_Mask = NDArray[np.bool_]


class Candidates(NamedTuple):
    """Rows still in question: (n_queries, m) each; padding has id -1."""

    distances: NDArray[Any]
    ids: Ids
    owners: NDArray[np.int64]
    rows: NDArray[np.int64]

    def take(self, order: NDArray[np.int64]) -> Candidates:
        """Reorder, and cut to, the columns in `order` (n_queries, m')."""
        return Candidates(*(np.take_along_axis(field, order, axis=1) for field in self))


def hamming_candidates(
    views: Sequence[View],
    masks: Sequence[_Mask | None],
    query_codes: Codes,
    k: int,
    *,
    n_bits: int,
    threads: int,
) -> Candidates:
    """The k nearest rows of all segments by (distance, id), and where they are."""
    parts = []
    for owner, (view, mask) in enumerate(zip(views, masks, strict=True)):
        found = hamming_neighbors(
            view.rows.codes, query_codes, k, n_bits=n_bits, mask=mask, threads=threads
        )
        ids = np.where(found.ids < 0, PADDING_ID, view.rows.ids_at(found.ids))
        parts.append(Candidates(found.distances, ids, np.full_like(ids, owner), found.ids))
    if len(parts) == 1:
        return parts[0]
    if not parts:
        distances, ids = empty_neighbors(len(query_codes), k, np.int32)
        return Candidates(distances, ids, ids, ids)
    joined = Candidates(*(np.concatenate(fields, axis=1) for fields in zip(*parts, strict=True)))
    last = np.where(joined.ids == PADDING_ID, np.iinfo(np.int64).max, joined.ids)
    return joined.take(np.lexsort((last, joined.distances), axis=1)[:, :k])


def with_ties(candidates: Candidates, length: int) -> Candidates:
    """Cut to `length` columns, and mark as padding what is beyond the distance of the last one."""
    if candidates.ids.shape[1] <= length:
        return candidates
    beyond = candidates.distances > candidates.distances[:, length - 1 : length]
    width = int(np.count_nonzero(~beyond, axis=1).max(initial=length))
    ids = np.where(beyond, PADDING_ID, candidates.ids)[:, :width]
    return Candidates(
        candidates.distances[:, :width],
        ids,
        candidates.owners[:, :width],
        candidates.rows[:, :width],
    )


def decoder_scores(
    views: Sequence[View], candidates: Candidates, decoder: Decoder, queries: Vectors, threads: int
) -> Vectors:
    """Score of every candidate in the metric of the decoder; infinite for padding."""
    from sghash.kernels.rescoring import scores

    tables, offsets = query_scores(decoder, queries)
    codes = gather([view.rows.codes for view in views], candidates)
    found = scores(codes, tables, decoder.pairs, threads=threads) + offsets[:, None]
    return np.where(candidates.ids == PADDING_ID, np.float32(np.inf), found)


def vector_scores(
    views: Sequence[View], candidates: Candidates, queries: Vectors, metric: str
) -> Vectors:
    """Exact distance of every candidate's kept vector; infinite for padding."""
    from sghash.kernels.rescoring import vector_distances

    kept = [view.rows.vectors for view in views if view.rows.vectors is not None]
    vectors = gather(kept, candidates).astype(np.float32)
    found = vector_distances(vectors, queries, _KINDS[metric])
    return np.where(candidates.ids == PADDING_ID, np.float32(np.inf), found)


def gather(arrays: Sequence[NDArray[Any]], candidates: Candidates) -> NDArray[Any]:
    """The candidates' rows of one array per segment, (n_queries, m, width)."""
    rows = np.maximum(candidates.rows, 0)
    if len(arrays) == 1:
        return arrays[0][rows]
    out = np.zeros((*rows.shape, arrays[0].shape[1]), dtype=arrays[0].dtype)
    for owner, array in enumerate(arrays):
        here = candidates.owners == owner
        out[here] = array[rows[here]]
    return out


def ordered(candidates: Candidates, scores: Vectors, k: int) -> Candidates:
    """The k best by (score, what the stage before said, id); distances become the scores."""
    order = np.lexsort((candidates.ids, candidates.distances, scores), axis=1)[:, :k]
    best = candidates.take(order)
    return best._replace(distances=np.take_along_axis(scores, order, axis=1))


def answer(candidates: Candidates, k: int) -> Neighbors:
    """The first k candidates as `Neighbors`, padded."""
    result = empty_neighbors(len(candidates.ids), k, candidates.distances.dtype)
    width = min(k, candidates.ids.shape[1])
    missing = candidates.ids[:, :width] == PADDING_ID
    result.ids[:, :width] = candidates.ids[:, :width]
    padding = padding_distance(result.distances.dtype)
    result.distances[:, :width] = np.where(missing, padding, candidates.distances[:, :width])
    return result


def hamming_within(
    views: Sequence[View],
    masks: Sequence[_Mask | None],
    query_codes: Codes,
    radius: int,
    *,
    n_bits: int,
    threads: int,
) -> RangeNeighbors:
    """All rows of all segments within a radius, of each query by (distance, id)."""
    n_queries = len(query_codes)
    queries, distances, ids = [], [], []
    for view, mask in zip(views, masks, strict=True):
        found = hamming_range(
            view.rows.codes, query_codes, radius, n_bits=n_bits, mask=mask, threads=threads
        )
        queries.append(np.repeat(np.arange(n_queries), np.diff(found.limits)))
        distances.append(found.distances)
        ids.append(view.rows.ids_at(found.ids))
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
    n_bits: int,
    threads: int,
    progress: Progress | None = None,
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
                n_bits=n_bits, threads=threads,
            )  # fmt: skip
            own = np.repeat(rows.ids_at(chosen), np.diff(near.limits))
            pairs = np.stack([np.minimum(own, near.ids), np.maximum(own, near.ids)])
            found.append(np.vstack([pairs, near.distances])[:, own != near.ids])
            done += stop - start
            if progress is not None:
                progress(done, total)
    joined = np.concatenate([np.empty((3, 0), dtype=np.int64), *found], axis=1)
    return np.unique(joined.T, axis=0)
