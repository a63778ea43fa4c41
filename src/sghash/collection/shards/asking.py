"""One search over shards in several processes: each gives its share, the caller joins them.

A share holds the candidates of a shard with their scores by every stage, so that stages go on
over all shards as they would over one collection: the answer is the same, ties included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection import answers
from sghash.collection.moment import Moment
from sghash.errors import InvalidInput, StorageError
from sghash.index.shares import Scored, merge_scored, scored_candidates
from sghash.index.stages import Stages
from sghash.neighbors import PADDING_ID, Neighbors, merge_neighbors
from sghash.validation import check_threads


class Wanted(NamedTuple):
    """Options of a search that every shard gets.

    A condition may name any column of `kinds`, those of all shards, also where a shard has none.
    """

    k: int
    rerank: str | None = None
    shortlist: Any = None
    target_recall: float | None = None
    where: str | None = None
    kinds: Mapping[str, str] = MappingProxyType({})

    def __reduce__(self) -> tuple[Any, ...]:
        return Wanted, (*self[:-1], dict(self.kinds))


class Share(NamedTuple):
    """What one shard says to some queries; `seen` tells its moments apart.

    `found` is `Neighbors` where a recall was asked for, else the candidates of all stages.
    """

    shard: str
    fingerprint: str
    seen: tuple[str, int, int]
    stages: Stages | None
    found: Neighbors | Scored


def share_of(
    shard: str, moment: Moment, queries: Any, wanted: Wanted, *, threads: int | None
) -> Share:
    """What a shard has to say to queries (n_queries, d)."""
    state = moment.state if wanted.where is None else moment.state.knowing(wanted.kinds)
    moment, manifest = moment._replace(state=state), state.manifest
    seen = manifest.identity, manifest.generation, state.log_end
    target = answers.target_of(
        manifest.parsed_plan, wanted.rerank, wanted.shortlist, wanted.target_recall
    )
    if target is not None:
        answers.check_chosen(wanted.rerank, wanted.shortlist)
        near, _ = answers.visited(moment, queries, wanted.k, target, wanted.where, threads)
        return Share(shard, manifest.fingerprint, seen, None, near)
    stages, query, scoring = answers.staged_query(
        moment, queries, wanted.k, wanted.rerank, wanted.shortlist
    )
    parts = answers.parts_of(state, wanted.where, scoring)
    found = scored_candidates(stages, parts, query, threads=check_threads(threads))
    return Share(shard, manifest.fingerprint, seen, stages, found)


def merged(shares: Sequence[Share], k: int) -> Neighbors:
    """The answer of all shards to the same queries."""
    for share in shares[1:]:
        if share.fingerprint != shares[0].fingerprint:
            raise InvalidInput(
                f"the shard {share.shard} has another model than {shares[0].shard}: shards share "
                "one model"
            )
        if share.stages != shares[0].stages:
            raise InvalidInput(
                f"the shards {shares[0].shard} and {share.shard} follow different plans: name "
                "rerank or target_recall"
            )
    stages = shares[0].stages
    if stages is None:
        found = merge_neighbors([s.found for s in shares if isinstance(s.found, Neighbors)], k)
    else:
        found = merge_scored(stages, [s.found for s in shares if isinstance(s.found, Scored)])
    _refuse_twice(found.ids)
    return found


def check_one_moment(shares: Sequence[Share]) -> None:
    """Refuse shares of one shard that were taken at different moments."""
    seen: dict[str, tuple[str, int, int]] = {}
    for share in shares:
        if seen.setdefault(share.shard, share.seen) != share.seen:
            raise StorageError(
                f"the shard {share.shard} was changed while it was searched: search again"
            )


def _refuse_twice(ids: NDArray[np.int64]) -> None:
    rising = np.sort(ids, axis=1)
    twice = rising[:, 1:][(rising[:, 1:] == rising[:, :-1]) & (rising[:, 1:] != PADDING_ID)]
    if len(twice):
        raise InvalidInput(f"id {twice[0]} is in two shards: ids must be unique among all shards")
