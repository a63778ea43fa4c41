"""Stages of a search over rows in several processes: each gives its share, one puts them together.

A share holds the candidates of the first stage with their scores by all later ones, so that stages
go on over all rows as they do in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sghash.index.stages import (
    Candidates,
    Part,
    Query,
    Stages,
    distance_type,
    finish_stages,
    first_stage,
    join_candidates,
    length_with_ties,
    table_scores,
    vector_scores,
)
from sghash.neighbors import PADDING_ID, Neighbors, empty_neighbors
from sghash.validation import Vectors


class Scored(NamedTuple):
    """What the stages of a search must know of some of the rows: plain arrays, which travel.

    The candidates of the first stage, and their scores by the stages behind it, where there are
    any; `n_rows` is the number of all rows these were chosen from.
    """

    found: Candidates
    by_tables: Vectors | None
    by_vectors: Vectors | None
    offsets: Any
    n_rows: int


def scored_candidates(
    stages: Stages, parts: Sequence[Part], query: Query, *, threads: int
) -> Scored:
    """The share of some parts in a search over these and others."""
    n_rows = sum(part.n_rows for part in parts)
    offsets = None if query.tables is None else query.tables.offsets
    if not parts:
        found = Candidates(
            *empty_neighbors(len(query.vectors), 0, distance_type(stages)),
            *(np.empty((len(query.vectors), 0), dtype=np.int64) for _ in range(2)),
        )
        nothing = np.empty((len(query.vectors), 0), dtype=np.float32)
        return Scored(found, nothing, nothing, offsets, 0)
    own = stages.among(n_rows)
    found = first_stage(own, parts, query, threads=threads)
    tables = vectors = None
    if stages.by_hamming is not None and stages.by_tables is not None:
        tables = table_scores(parts, found, query, threads=threads)
    if stages.last == "vectors":
        vectors = vector_scores(parts, found, query, threads=threads)
    return Scored(found, tables, vectors, offsets, n_rows)


def merge_scored(stages: Stages, shares: Sequence[Scored]) -> Neighbors:
    """What `run_stages` would say of all parts that these shares come from, to the last tie."""
    k, stages = stages.k, stages.among(sum(share.n_rows for share in shares))
    # Rows are columns from here on: where a candidate's scores stand in those of all shares.
    columns = np.cumsum([0, *(share.found.ids.shape[1] for share in shares)])
    placed = [
        share.found._replace(rows=np.zeros_like(share.found.ids) + np.arange(start, stop))
        for share, (start, stop) in zip(shares, pairwise(columns.tolist()), strict=True)
    ]
    most = stages.by_tables if stages.by_hamming is None else stages.by_hamming
    assert most is not None  # one of the two stages comes first
    ties = stages.by_hamming is not None and stages.last != "hamming"
    found = join_candidates(placed, length_with_ties(most) if ties else most)

    def taken(scores: list[Vectors | None]) -> Callable[[Candidates], Vectors]:
        def score(candidates: Candidates) -> Vectors:
            every = np.concatenate([one for one in scores if one is not None], axis=1)
            own = np.take_along_axis(every, candidates.rows, axis=1)
            return np.where(candidates.ids == PADDING_ID, np.float32(np.inf), own)

        return score

    return finish_stages(
        stages._replace(k=k), found, taken([share.by_tables for share in shares]),
        taken([share.by_vectors for share in shares]), shares[0].offsets,
    )  # fmt: skip
