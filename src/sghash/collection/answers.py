"""What a collection answers at one moment: everything below reads the moment it is given, once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.collection.moment import Moment
from sghash.collection.ranges import hamming_within, pairs_within
from sghash.collection.search import answer, hamming_candidates, run_stages
from sghash.collection.stages import plan_stages
from sghash.collection.storage.segments import Progress
from sghash.collection.storage.state import State
from sghash.collection.stored_model import encode_queries
from sghash.collection.where.choice import allowed_rows
from sghash.errors import InvalidInput
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.validation import check_codes, check_k, check_radius, check_threads, check_vectors


def neighbors_of(
    moment: Moment,
    queries: ArrayLike,
    k: int,
    *,
    rerank: str,
    shortlist: Any,
    where: Any,
    threads: int | None,
) -> Neighbors:
    """The k nearest rows of each query, in the stages that the options ask for."""
    state, holder = moment
    manifest = state.manifest
    plan = plan_stages(rerank, check_k(k), shortlist, manifest)
    array = check_vectors(queries, width=manifest.width, name="queries")
    return run_stages(
        plan,
        state.views,
        allowed_rows(where, state, state.views),
        array,
        encode_queries(holder.model, array),
        decoder=holder.decoder if plan.needs_decoder else None,
        metric=manifest.metric,
        n_bits=manifest.n_bits,
        threads=check_threads(threads),
    )


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
    n_bits = state.manifest.n_bits
    found = hamming_candidates(
        state.views,
        allowed_rows(where, state, state.views),
        check_codes(query_codes, n_bits, name="query_codes"),
        check_k(k),
        n_bits=n_bits,
        threads=check_threads(threads),
    )
    return answer(found, k)


def rows_within(
    moment: Moment, queries: ArrayLike, radius: int, *, where: Any, threads: int | None
) -> RangeNeighbors:
    """All rows whose code differs from the query's in at most `radius` bits."""
    state, holder = moment
    array = check_vectors(queries, width=state.manifest.width, name="queries")
    return hamming_within(
        state.views,
        allowed_rows(where, state, state.views),
        encode_queries(holder.model, array),
        check_radius(radius),
        n_bits=state.manifest.n_bits,
        threads=check_threads(threads),
    )


def joined_within(
    moment: Moment, radius: int, *, threads: int | None, callback: Progress | None
) -> NDArray[np.int64]:
    """All pairs of rows whose codes differ in at most `radius` bits."""
    state = moment.state
    return pairs_within(
        state.views,
        check_radius(radius),
        n_bits=state.manifest.n_bits,
        threads=check_threads(threads),
        callback=callback,
    )


def check_fingerprint(state: State, fingerprint: str) -> None:
    """Refuse codes of another model than the one the rows were encoded with."""
    own = state.manifest.fingerprint
    if fingerprint != own:
        raise InvalidInput(
            f"the collection holds codes of the model {own[:12]}, these come from "
            f"{fingerprint[:12]}: encode with the collection's own model"
        )
