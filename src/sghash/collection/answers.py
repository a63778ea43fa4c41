"""What a collection answers at one moment: everything below reads the moment it is given, once."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.collection.lists.targets import Visit, ask, check_target, search_for_recall
from sghash.collection.looking_up import Choice
from sghash.collection.moment import Moment, Scoring
from sghash.collection.planning.plan import Plan
from sghash.collection.ranges import Within, hamming_within, pairs_ways, pairs_within
from sghash.collection.records import keys_of
from sghash.collection.storage.manifest import Manifest
from sghash.collection.storage.segments import Progress
from sghash.collection.storage.state import State
from sghash.collection.stored_model import check_values, encode_queries
from sghash.collection.where.choice import allowed_rows
from sghash.errors import InvalidInput
from sghash.index import HammingIndex
from sghash.index.stages import Part, Query, Stages, plan_stages, run_stages
from sghash.neighbors import KeyedNeighbors, Neighbors
from sghash.validation import (
    Codes,
    Vectors,
    check_codes,
    check_ids,
    check_k,
    check_radius,
    check_threads,
    check_vectors,
)

_log = logging.getLogger("sghash.collection")
# Collections of which it was said that they have fewer rows than were asked for.
_said: set[str] = set()
# The same of plans: what was said of which collection.
_said_of_plans: set[tuple[str, str]] = set()


def neighbors_of(
    moment: Moment,
    queries: ArrayLike,
    k: int,
    *,
    rerank: str | None,
    shortlist: Any,
    where: Any,
    threads: int | None,
    target_recall: float | None = None,
) -> Neighbors:
    """The k nearest rows of each query, in the stages that the options or the plan ask for."""
    state = moment.state
    target_recall = target_of(state.manifest.parsed_plan, rerank, shortlist, target_recall)
    if target_recall is not None:
        check_chosen(rerank, shortlist)
        found, _ = visited(moment, queries, k, target_recall, where, threads)
        return keyed(state, found)
    stages, query, scoring = staged_query(moment, queries, k, rerank, shortlist)
    parts = parts_of(state, where, scoring)
    _say_if_fewer(state, k)
    return keyed(state, run_stages(stages, parts, query, threads=check_threads(threads)))


def staged_query(
    moment: Moment, queries: ArrayLike, k: int, rerank: str | None, shortlist: Any
) -> tuple[Stages, Query, Scoring | None]:
    """The stages that the options ask for, and what they need of the queries and the model."""
    state, holder = moment
    manifest = state.manifest
    stages = plan_stages(
        rerank or usual_rerank(manifest), check_k(k), shortlist, kind=manifest.kind,
        has_vectors=manifest.keep_vectors is not None,
    )  # fmt: skip
    array = check_vectors(queries, width=manifest.width, name="queries")
    scoring = holder.scoring if stages.needs_tables else None
    query = Query(
        array,
        manifest.metric,
        codes=encode_queries(holder.model, array) if stages.needs_codes else None,
        tables=None if scoring is None else scoring.scorer.query_tables(array),
    )
    return stages, query, scoring


def usual_rerank(manifest: Manifest) -> str:
    """What decides where nobody says: the vectors if they are kept, which is what they are for."""
    return "none" if manifest.keep_vectors is None else "vectors"


def target_of(
    plan: Plan | None, rerank: str | None, shortlist: Any, target_recall: float | None
) -> float | None:
    """The recall to be reached: that of the plan where nothing is asked for."""
    if target_recall is not None or rerank is not None or shortlist is not None:
        return target_recall
    return None if plan is None else plan.target_recall


def check_chosen(rerank: str | None, shortlist: Any) -> None:
    """Refuse what a target chooses by itself."""
    if rerank is not None or shortlist is not None:
        raise InvalidInput("target_recall chooses rerank and shortlist: leave them out")


def visited(
    moment: Moment, queries: ArrayLike, k: int, target_recall: Any, where: Any, threads: int | None
) -> tuple[Neighbors, list[Visit]]:
    """The k nearest rows of each query, with a recall to be reached, and what was visited."""
    state = moment.state
    target, k = check_target(target_recall), check_k(k)
    array = check_vectors(queries, width=state.manifest.width, name="queries")
    asked = ask(moment, array, k, inside_of(state, target), check_threads(threads))
    masks = allowed_rows(where, state, state.views)
    _say_if_fewer(state, k)
    return search_for_recall(state.views, masks, asked)


def search_inside(moment: Moment, queries: Vectors, k: int, inside: float) -> Neighbors:
    """Search for a recall as the lists and shortlists measure it, on one thread."""
    views = moment.state.views
    return search_for_recall(
        views, [view.alive for view in views], ask(moment, queries, k, inside, 1)
    )[0]


def inside_of(state: State, target: float) -> float:
    """What must be asked of lists and shortlists for a true recall, as the plan has measured it."""
    plan = state.manifest.parsed_plan
    point = None if plan is None else plan.point_for(target)
    if plan is None or point is None:
        return target
    _say_if_beyond(state, plan, target)
    return point.inside


def _say_if_beyond(state: State, plan: Plan, target: float) -> None:
    """Say once of a collection that its plan is old, or that it cannot reach what is asked."""
    n, best, identity = len(state), plan.best, state.manifest.identity
    if plan.is_old(n) and (identity, "old") not in _said_of_plans:
        _said_of_plans.add((identity, "old"))
        _log.warning(
            "the plan of this collection was measured with %d rows, now there are %d: call check()",
            plan.n_rows, n,
        )  # fmt: skip
    if best is not None and best < target and (identity, "best") not in _said_of_plans:
        _said_of_plans.add((identity, "best"))
        _log.warning(
            "a recall of %g was asked for; the best that was measured here is %.3f: build the "
            "collection with a higher target_recall, or with keep_vectors=\"float16\"",
            target, best,
        )  # fmt: skip


def parts_of(state: State, where: Any, scoring: Scoring | None) -> list[Part]:
    """Every segment with living rows, as the stages of a search see it."""
    masks = allowed_rows(where, state, state.views)
    parts = []
    for (rows, _), mask in zip(state.views, masks, strict=True):
        hamming = rows.index if isinstance(rows.index, HammingIndex) else None
        tables = None if scoring is None else rows.scored_by(scoring.like)
        parts.append(Part(hamming, tables, rows.vectors, mask))
    return parts


def neighbors_of_codes(
    moment: Moment,
    query_codes: ArrayLike,
    k: int,
    *,
    fingerprint: str,
    where: Any,
    threads: int | None,
) -> Neighbors:
    """The k nearest rows of codes that the model of this `fingerprint` made."""
    state = moment.state
    check_fingerprint(state, fingerprint)
    _check_comparable(state)
    codes = check_codes(query_codes, state.manifest.n_bits, name="query_codes")
    stages = plan_stages("none", check_k(k), None)
    query = Query(np.empty((len(codes), 0), np.float32), state.manifest.metric, codes)
    parts = parts_of(state, where, None)
    _say_if_fewer(state, k)
    return keyed(state, run_stages(stages, parts, query, threads=check_threads(threads)))


def keyed(state: State, found: Neighbors) -> Neighbors:
    """The same answer, with keys if any row of the collection has one."""
    if all(segment.rows.keys is None for segment in state.segments()):
        return found
    return KeyedNeighbors.of(found, partial(keys_of, state))


def _say_if_fewer(state: State, k: int) -> None:
    """Say once of a collection that it has fewer rows than were asked for."""
    n, identity = len(state), state.manifest.identity
    if k <= n or identity in _said:
        return
    _said.add(identity)
    _log.warning(
        "%d neighbours were asked for and the collection holds %d rows: the other places are "
        "filled with id -1", k, n,
    )  # fmt: skip


def rows_within(
    moment: Moment, queries: ArrayLike, radius: int, *, where: Any, threads: int | None
) -> Within:
    """All rows whose code differs from the query's in at most `radius` bits, and the ways gone."""
    state, holder = moment
    _check_comparable(state)
    array = check_vectors(queries, width=state.manifest.width, name="queries")
    return hamming_within(
        state.views,
        allowed_rows(where, state, state.views),
        encode_queries(holder.model, array),
        check_radius(radius),
        threads=check_threads(threads),
    )


def joined_within(
    moment: Moment, radius: int, *, threads: int | None, callback: Progress | None
) -> NDArray[np.int64]:
    """All pairs of rows whose codes differ in at most `radius` bits."""
    state = moment.state
    _check_comparable(state)
    return pairs_within(
        state.views, check_radius(radius), threads=check_threads(threads), callback=callback
    )


def ways_of_join(moment: Moment, radius: int) -> list[Choice]:
    """How `joined_within` would look for pairs within each segment."""
    _check_comparable(moment.state)
    return pairs_ways(moment.state.views, check_radius(radius))


def _check_comparable(state: State) -> None:
    if state.manifest.kind != HammingIndex.kind:
        raise InvalidInput(
            "the codes of this collection name rows of tables and have no Hamming distance: "
            "use search, or a collection whose model makes bits"
        )


def contains(state: State, id_: object) -> bool:
    """Whether there is a row of this id or key."""
    if isinstance(id_, str):
        return bool(state.find_keys([id_])[0] >= 0)
    if id_ is None:
        return False
    return bool(state.find(check_ids(np.asarray([id_]))).segments[0] >= 0)


def check_values_of(moment: Moment, codes: Codes) -> None:
    """Refuse codes that name what the model does not have; where codes are bits, any will do."""
    if moment.state.manifest.kind != HammingIndex.kind:
        check_values(moment.holder.model, codes)


def check_fingerprint(state: State, fingerprint: str) -> None:
    """Refuse codes of another model than the one the rows were encoded with."""
    own = state.manifest.fingerprint
    if fingerprint != own:
        raise InvalidInput(
            f"the collection holds codes of the model {own[:12]}, these come from "
            f"{fingerprint[:12]}: encode with the collection's own model"
        )
