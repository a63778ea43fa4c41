"""Search in stages: a shortlist by one index, ordered by the next, ended by kept vectors.

Each stage orders what the one before it let through, and what ties there is ordered by the stage
before, then by id. A shortlist that ends among rows of equal Hamming distance is extended by such
rows, up to a tenth more, so that not their ids but their scores decide. Without a shortlist the
query tables score every row.

Rows may lie in several parts, each an index of its own; the answer does not depend on how they are
divided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.index.base import CodeIndex, Mask
from sghash.index.hamming import HammingIndex
from sghash.index.tables import TableIndex, with_offsets
from sghash.neighbors import PADDING_ID, Neighbors, empty_neighbors, padding_distance
from sghash.tables import QueryTables
from sghash.validation import Codes, Ids, Vectors, check_choice

RERANKS = ("none", "decoder", "vectors")
# Rows per neighbour asked for that a stage lets through by default.
LENGTH = 10
ALL = "all"
#: Candidates of all queries and parts that are held at a time, some tens of bytes each.
CANDIDATES = 1 << 23


class Stages(NamedTuple):
    """What decides in the end, and what the stages before it let through.

    `last` is "hamming", "tables" or "vectors". `by_hamming` None lets the tables score every row;
    `by_tables` None skips the tables.
    """

    last: str
    k: int
    by_hamming: int | None
    by_tables: int | None

    def among(self, n_rows: int) -> Stages:
        """The same for `n_rows` rows in all: no stage makes space for more than there are."""
        most = max(1, n_rows)
        by_hamming, by_tables = (
            None if length is None else min(length, most)
            for length in (self.by_hamming, self.by_tables)
        )
        return self._replace(by_hamming=by_hamming, by_tables=by_tables)

    @property
    def needs_codes(self) -> bool:
        """Whether any stage compares codes with codes."""
        return self.by_hamming is not None

    @property
    def needs_tables(self) -> bool:
        """Whether any stage scores codes."""
        return self.by_tables is not None


def plan_stages(
    rerank: str, k: int, shortlist: Any, *, kind: str = "hamming", has_vectors: bool = True
) -> Stages:
    """Check the options of a search and turn them into stages.

    `kind` is that of the index: codes of the kind "tables" are not compared with each other, so
    tables score every one of them.
    """
    check_choice(rerank, RERANKS, name="rerank")
    if rerank == "vectors" and not has_vectors:
        raise InvalidInput(
            'no vectors are kept here: search with rerank="decoder", or create the collection '
            'with keep_vectors="float16"'
        )
    if kind == "tables":
        return _by_tables(rerank, k, shortlist)
    if rerank == "none":
        if shortlist is not None:
            raise InvalidInput('a shortlist needs rerank="decoder" or rerank="vectors"')
        return Stages("hamming", k, k, None)
    if rerank == "decoder":
        if isinstance(shortlist, tuple):
            raise InvalidInput('a pair of shortlists needs rerank="vectors": give one of them')
        return Stages("tables", k, _length(shortlist, k), k)
    if isinstance(shortlist, tuple):
        first, by_tables = _pair(shortlist, k)
        return Stages("vectors", k, _length(first, by_tables), by_tables)
    by_hamming = _length(shortlist, k)
    return Stages("vectors", k, by_hamming, LENGTH * k if by_hamming is None else None)


def _by_tables(rerank: str, k: int, shortlist: Any) -> Stages:
    """Stages where every code is scored: only kept vectors can follow."""
    if rerank != "vectors":
        if shortlist not in (None, ALL):
            raise InvalidInput(
                "every code is scored here, so there is no shortlist: leave it out, or keep "
                'vectors and use rerank="vectors"'
            )
        return Stages("tables", k, None, k)
    if isinstance(shortlist, tuple):
        first, by_tables = _pair(shortlist, k)
        if first != ALL:
            raise InvalidInput(
                f'every code is scored here: the first shortlist must be "all", got {first!r}'
            )
        return Stages("vectors", k, None, by_tables)
    length = _length(shortlist, k)
    return Stages("vectors", k, None, LENGTH * k if length is None else length)


def _pair(shortlist: tuple[Any, ...], k: int) -> tuple[Any, int]:
    if len(shortlist) != 2:
        raise InvalidInput(f"a pair of shortlists was expected, got {shortlist!r}")
    by_tables = _length(shortlist[1], k)
    if by_tables is None:
        raise InvalidInput("the decoder's own shortlist must be a number")
    return shortlist[0], by_tables


def _length(shortlist: Any, k: int) -> int | None:
    """A number of rows, at least k; None for all."""
    if shortlist is None:
        return LENGTH * k
    if isinstance(shortlist, str) and shortlist == ALL:
        return None
    if isinstance(shortlist, bool) or not isinstance(shortlist, (int, np.integer)):
        raise InvalidInput(f'shortlist must be a whole number, "all" or None, got {shortlist!r}')
    if shortlist < k:
        raise InvalidInput(
            f"a shortlist of {shortlist} cannot give {k} neighbours: give at least {k}"
        )
    return int(shortlist)


class Part(NamedTuple):
    """Some of the rows: by Hamming distance, by tables, and as vectors, each where there is one.

    `mask` allows rows, None allows all. What an index or an array says of row i is said of the
    same row by the others.
    """

    hamming: HammingIndex | None = None
    tables: TableIndex | None = None
    vectors: NDArray[Any] | None = None
    mask: Mask | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows, allowed or not."""
        index = self.tables if self.hamming is None else self.hamming
        return 0 if index is None else len(index)


class Query(NamedTuple):
    """Some queries, as the stages need them: codes, tables, and vectors (n_queries, d)."""

    vectors: Vectors
    metric: str
    codes: Codes | None = None
    tables: QueryTables | None = None

    def part(self, chosen: slice) -> Query:
        """Some of the queries."""
        tables = self.tables
        if tables is not None:
            tables = tables._replace(tables=tables.tables[chosen], offsets=tables.offsets[chosen])
        codes = None if self.codes is None else self.codes[chosen]
        return Query(self.vectors[chosen], self.metric, codes, tables)


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


def run_stages(stages: Stages, parts: Sequence[Part], query: Query, *, threads: int) -> Neighbors:
    """The k nearest rows of each query by the last stage."""
    k, stages = stages.k, stages.among(sum(part.n_rows for part in parts))
    if not parts:
        return empty_neighbors(len(query.vectors), k, distance_type(stages))
    longest = max(stages.by_hamming or 0, stages.by_tables or 0)

    def answered(query: Query) -> Neighbors:
        return finish_stages(
            stages._replace(k=k),
            first_stage(stages, parts, query, threads=threads),
            lambda found: table_scores(parts, found, query, threads=threads),
            lambda found: vector_scores(parts, found, query, threads=threads),
            None if query.tables is None else query.tables.offsets,
        )

    return in_blocks(query, longest * len(parts), answered)


def in_blocks(query: Query, n_candidates: int, answered: Callable[[Query], Neighbors]) -> Neighbors:
    """Answer so many queries at a time that the candidates of each, so many, can be held."""
    step = max(1, CANDIDATES // max(1, n_candidates))
    if len(query.vectors) <= step:
        return answered(query)
    found = [
        answered(query.part(slice(start, start + step)))
        for start in range(0, len(query.vectors), step)
    ]
    return Neighbors(*(np.concatenate(fields) for fields in zip(*found, strict=True)))


def distance_type(stages: Stages) -> type[np.generic]:
    """Type of the distances that the last stage gives."""
    return np.int32 if stages.last == "hamming" else np.float32


def first_stage(stages: Stages, parts: Sequence[Part], query: Query, *, threads: int) -> Candidates:
    """What the first stage lets through, with some ties where others follow."""
    if stages.by_hamming is not None:
        ties = stages.last != "hamming"
        return hamming_candidates(parts, query, stages.by_hamming, threads=threads, ties=ties)
    assert stages.by_tables is not None  # one of the two stages comes first
    return table_candidates(parts, query, stages.by_tables, threads=threads)


def finish_stages(
    stages: Stages,
    found: Candidates,
    by_tables: Callable[[Candidates], Vectors],
    by_vectors: Callable[[Candidates], Vectors],
    offsets: Any,
) -> Neighbors:
    """The stages after the first, given what scores candidates."""
    k = stages.k
    if stages.last == "hamming":
        return answer(found, k)
    if stages.by_hamming is not None:
        found = _cut_with_ties(found, stages.by_hamming)
        if stages.by_tables is not None:
            found = ordered(found, by_tables(found), stages.by_tables)
    if stages.last == "tables":
        # Behind a shortlist, ties stay in its order.
        return with_offsets(answer(found, k), offsets, by_id=stages.by_hamming is None)
    return answer(ordered(found, by_vectors(found), k), k)


def hamming_candidates(
    parts: Sequence[Part], query: Query, k: int, *, threads: int, ties: bool = False
) -> Candidates:
    """The k nearest rows of all parts by (distance, id), and where they are.

    With `ties`, a tenth more columns: rows beyond the distance of the k-th need not be complete.
    """
    assert query.codes is not None  # this stage needs them
    found = []
    for owner, part in enumerate(parts):
        assert part.hamming is not None
        near = part.hamming.nearest_rows(query.codes, k, mask=part.mask, threads=threads, ties=ties)
        found.append(_placed(near, part.hamming, owner))
    return join_candidates(found, length_with_ties(k) if ties else k)


def length_with_ties(k: int) -> int:
    """Columns of a shortlist of k rows, with those that may tie with its last."""
    # Loaded here, for it loads the compiler, and a search without a shortlist may do without.
    from sghash.kernels.hamming.shortlist import with_ties

    return with_ties(k)


def table_candidates(parts: Sequence[Part], query: Query, k: int, *, threads: int) -> Candidates:
    """The k best rows of all parts by (score, id), every row being scored; without offsets."""
    assert query.tables is not None  # this stage needs them
    found = []
    for owner, part in enumerate(parts):
        assert part.tables is not None
        near = part.tables.nearest_rows(query.tables, k, mask=part.mask, threads=threads)
        found.append(_placed(near, part.tables, owner))
    return join_candidates(found, k)


def _placed(found: Neighbors, index: CodeIndex, owner: int) -> Candidates:
    """What was found in one part, with ids for its rows."""
    ids = np.where(found.ids < 0, PADDING_ID, index.row_ids.at(found.ids))
    return Candidates(found.distances, ids, np.full_like(ids, owner), found.ids)


def join_candidates(parts: Sequence[Candidates], k: int) -> Candidates:
    """The best k of all parts by (distance, id)."""
    if len(parts) == 1:
        return parts[0]
    joined = Candidates(*(np.concatenate(fields, axis=1) for fields in zip(*parts, strict=True)))
    last = np.where(joined.ids == PADDING_ID, np.iinfo(np.int64).max, joined.ids)
    return joined.take(np.lexsort((last, joined.distances), axis=1)[:, :k])


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


def table_scores(
    parts: Sequence[Part], candidates: Candidates, query: Query, *, threads: int
) -> Vectors:
    """Score of every candidate by query tables, without offsets; infinite for padding."""
    queries = query.tables
    assert queries is not None  # this stage needs them

    def score(part: Part, rows: NDArray[np.int64]) -> Vectors:
        assert part.tables is not None
        return part.tables.scores_of_rows(queries, rows, threads=threads)

    return _over_parts(parts, candidates, score)


def vector_scores(
    parts: Sequence[Part], candidates: Candidates, query: Query, *, threads: int
) -> Vectors:
    """Exact distance of every candidate's kept vector; infinite for padding."""
    from sghash.kernels.vectors.stored import kept_distances

    def score(part: Part, rows: NDArray[np.int64]) -> Vectors:
        assert part.vectors is not None  # the plan of the search has made sure
        return kept_distances(part.vectors, rows, query.vectors, query.metric, threads=threads)

    return _over_parts(parts, candidates, score)


def _over_parts(
    parts: Sequence[Part],
    candidates: Candidates,
    score: Callable[[Part, NDArray[np.int64]], Vectors],
) -> Vectors:
    """Scores of all candidates, each by its own part; `score` makes negative rows infinite."""
    rows = np.where(candidates.ids == PADDING_ID, -1, candidates.rows)
    if len(parts) == 1:
        return score(parts[0], rows)
    found = np.full(rows.shape, np.inf, dtype=np.float32)
    for owner, part in enumerate(parts):
        mine = np.where(candidates.owners == owner, rows, -1)
        np.minimum(found, score(part, mine), out=found)
    return found


def gather(arrays: Sequence[NDArray[Any]], candidates: Candidates) -> NDArray[Any]:
    """The candidates' rows of one array per part, (n_queries, m, width)."""
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
