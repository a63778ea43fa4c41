"""Search in stages: Hamming shortlist, scores from the decoder, exact distances of kept vectors.

Each stage orders what the one before it let through, and what ties there is ordered by the stage
before, then by id. A shortlist that ends among rows of equal Hamming distance is extended by such
rows, up to a tenth more, so that not their ids but their scores decide. Without a shortlist
the decoder scores every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.decoding import Decoder, query_scores
from sghash.collection.stages import Stages
from sghash.collection.storage.segments import View
from sghash.kernels import hamming_neighbors
from sghash.neighbors import (
    PADDING_ID,
    Neighbors,
    empty_neighbors,
    padding_distance,
)
from sghash.validation import Codes, Ids, Vectors

_Mask = NDArray[np.bool_]


class Candidates(NamedTuple):
    """Rows still in question: (n_queries, m) each, by (distance, id); padding has id -1."""

    distances: NDArray[Any]
    ids: Ids
    owners: NDArray[np.int64]
    rows: NDArray[np.int64]

    def take(self, order: NDArray[np.int64]) -> Candidates:
        """Reorder, and cut to, the columns in `order` (n_queries, m')."""
        queries = np.arange(len(order))[:, None]
        return Candidates(*(field[queries, order] for field in self))


def hamming_candidates(
    views: Sequence[View],
    masks: Sequence[_Mask | None],
    query_codes: Codes,
    k: int,
    *,
    n_bits: int,
    threads: int,
    ties: bool = False,
) -> Candidates:
    """The k nearest rows of all segments by (distance, id), and where they are.

    With `ties`, a tenth more columns: rows beyond the distance of the k-th need not be complete.
    """
    from sghash.kernels.hamming.shortlist import hamming_shortlist, with_ties

    parts = []
    search = hamming_shortlist if ties else hamming_neighbors
    for owner, (view, mask) in enumerate(zip(views, masks, strict=True)):
        found = search(view.rows.codes, query_codes, k, n_bits=n_bits, mask=mask, threads=threads)
        parts.append(_placed(found, view, owner))
    if not parts:
        distances, ids = empty_neighbors(len(query_codes), k, np.int32)
        return Candidates(distances, ids, ids, ids)
    return _joined(parts, with_ties(k) if ties else k)


def _placed(found: Neighbors, view: View, owner: int) -> Candidates:
    """What a kernel found in one segment, with ids for its rows."""
    ids = np.where(found.ids < 0, PADDING_ID, view.rows.ids_at(found.ids))
    return Candidates(found.distances, ids, np.full_like(ids, owner), found.ids)


def _joined(parts: Sequence[Candidates], k: int) -> Candidates:
    """The best k of all segments by (distance, id)."""
    if len(parts) == 1:
        return parts[0]
    joined = Candidates(*(np.concatenate(fields, axis=1) for fields in zip(*parts, strict=True)))
    last = np.where(joined.ids == PADDING_ID, np.iinfo(np.int64).max, joined.ids)
    return joined.take(np.lexsort((last, joined.distances), axis=1)[:, :k])


def run_stages(
    stages: Stages,
    views: Sequence[View],
    masks: Sequence[_Mask | None],
    queries: Vectors,
    query_codes: Codes,
    *,
    decoder: Decoder | None,
    metric: str,
    n_bits: int,
    threads: int,
) -> Neighbors:
    """The k nearest rows by the last stage; `decoder` is needed where a stage uses it."""
    if stages.rerank == "none" or not views:
        found = hamming_candidates(
            views, masks, query_codes, stages.k, n_bits=n_bits, threads=threads
        )
        return answer(found, stages.k)
    last = stages.rerank == "decoder"
    n_decoded = stages.k if last else stages.by_decoder
    if stages.by_hamming is None:
        found = decoder_candidates(views, masks, decoder, queries, n_decoded or stages.k, threads)
    else:
        found = hamming_candidates(
            views, masks, query_codes, stages.by_hamming, n_bits=n_bits, threads=threads, ties=True
        )
        found = _cut_with_ties(found, stages.by_hamming)
        if n_decoded is not None and decoder is not None:
            scores = decoder_scores(views, found, decoder, queries, threads)
            found = ordered(found, scores, n_decoded)
    if not last:
        found = ordered(found, vector_scores(views, found, queries, metric, threads), stages.k)
    return answer(found, stages.k)


def decoder_candidates(
    views: Sequence[View],
    masks: Sequence[_Mask | None],
    decoder: Decoder | None,
    queries: Vectors,
    k: int,
    threads: int,
) -> Candidates:
    """The k best rows of all segments by (score, id), every row being scored."""
    from sghash.kernels.tables.search import asymmetric_neighbors

    assert decoder is not None  # the caller's promise, not the user's input
    tables, offsets = query_scores(decoder, queries)
    parts = []
    for owner, (view, mask) in enumerate(zip(views, masks, strict=True)):
        terms = None if decoder.gram is None else view.rows.terms(decoder.gram, threads)
        found = asymmetric_neighbors(
            view.rows.codes, tables, k, terms=terms, mask=mask, threads=threads
        )
        parts.append(_placed(found, view, owner))
    found_all = _joined(parts, k)
    return found_all._replace(distances=found_all.distances + offsets[:, None])


def _cut_with_ties(candidates: Candidates, length: int) -> Candidates:
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
    from sghash.kernels.tables.rescoring import scores

    tables, offsets = query_scores(decoder, queries)

    def score(view: View, rows: NDArray[np.int64]) -> Vectors:
        return scores(view.rows.codes, rows, tables, decoder.gram, threads=threads)

    return _over_segments(views, candidates, score) + offsets[:, None]


def vector_scores(
    views: Sequence[View], candidates: Candidates, queries: Vectors, metric: str, threads: int
) -> Vectors:
    """Exact distance of every candidate's kept vector; infinite for padding."""
    from sghash.kernels.vectors.stored import kept_distances

    def score(view: View, rows: NDArray[np.int64]) -> Vectors:
        assert view.rows.vectors is not None  # the plan of the search has made sure
        return kept_distances(view.rows.vectors, rows, queries, metric, threads=threads)

    return _over_segments(views, candidates, score)


def _over_segments(
    views: Sequence[View],
    candidates: Candidates,
    score: Callable[[View, NDArray[np.int64]], Vectors],
) -> Vectors:
    """Scores of all candidates, each by its own segment; `score` makes negative rows infinite."""
    rows = np.where(candidates.ids == PADDING_ID, -1, candidates.rows)
    if len(views) == 1:
        return score(views[0], rows)
    found = np.full(rows.shape, np.inf, dtype=np.float32)
    for owner, view in enumerate(views):
        mine = np.where(candidates.owners == owner, rows, -1)
        np.minimum(found, score(view, mine), out=found)
    return found


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
    """The k best by score; what ties stays in the order of the stage before, then of ids."""
    from sghash.kernels.tables.rescoring import best_places

    order = best_places(scores, min(k, scores.shape[1]))
    return candidates._replace(distances=scores).take(order)


def answer(candidates: Candidates, k: int) -> Neighbors:
    """The first k candidates as `Neighbors`, padded."""
    result = empty_neighbors(len(candidates.ids), k, candidates.distances.dtype)
    width = min(k, candidates.ids.shape[1])
    missing = candidates.ids[:, :width] == PADDING_ID
    result.ids[:, :width] = candidates.ids[:, :width]
    padding = padding_distance(result.distances.dtype)
    result.distances[:, :width] = np.where(missing, padding, candidates.distances[:, :width])
    return result
