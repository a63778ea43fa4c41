"""What can be asked of a collection, whoever holds it: every answer is of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.collection import answers
from sghash.collection.explaining import Explanation, explained
from sghash.collection.lists.tuning import Tuned, tune
from sghash.collection.moment import Moment
from sghash.collection.planning.plan import Plan
from sghash.collection.recent import Recent
from sghash.collection.records import Records, read_records
from sghash.collection.storage import verification
from sghash.collection.where.choice import ids_of, live_ids
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.progress import Callback, counting
from sghash.validation import Ids

if TYPE_CHECKING:
    from sghash.collection.planning.checking import Checkup


class Reading:
    """Abstract: the questions to a collection, answered from the moment that it holds."""

    _moment: Moment
    _recent: Recent
    _folders: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self._moment.state)

    def __contains__(self, id_: object) -> bool:
        return answers.contains(self._moment.state, id_)

    @property
    def n_bits(self) -> int:
        """Length of the codes."""
        return self._moment.state.manifest.n_bits

    @property
    def metric(self) -> str:
        """What `rerank` scores: "l2", "ip" or "cosine"."""
        return self._moment.state.manifest.metric

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model that made the codes."""
        return self._moment.state.manifest.fingerprint

    @property
    def ids(self) -> Ids:
        """All ids, rising; a boolean `where` is aligned with them."""
        return live_ids(self._moment.state.views)

    @property
    def model(self) -> Any:
        """The model that made the codes; read from the folder, and checked, when first needed."""
        return self._moment.holder.model

    def check_fingerprint(self, fingerprint: str) -> None:
        """Refuse codes of another model than the one the collection was made with."""
        answers.check_fingerprint(self._moment.state, fingerprint)

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        rerank: str | None = None,
        shortlist: int | str | tuple[int | str, int] | None = None,
        target_recall: float | None = None,
        where: Any = None,
        threads: int | None = None,
    ) -> Neighbors:
        """Return the k nearest rows of each query (n_queries, d), nearest first.

        Without options a collection that was made by `build` follows its plan, and finds the share
        of the true neighbours that it was built for. Any other compares all codes, and lets kept
        vectors decide among the nearest where there are any.

        `rerank` says what decides: "none" the Hamming distance of the codes (int32), "decoder"
        the distance between the query and what the code stands for (float32), "vectors" the exact
        distance to the kept vector (float32). The latter two look at `shortlist` rows per query,
        the nearest by Hamming distance; None is 10 k, "all" lets the decoder score every row. For
        "vectors" it may be a pair: how many rows Hamming distance ("all" for every one) and how
        many the decoder lets through. Codes of quantizers have no Hamming distance: the decoder
        scores every row. `where` is a boolean mask over `ids`, a list of ids or keys, or a
        condition on metadata such as `"year >= 2000 and lang == 'de'"`.

        `target_recall` (above 0, at most 1) asks for a share of the true neighbours instead, and
        chooses what to visit: lists where `compact` has made them, else a shortlist that is long
        enough. The kept vectors decide; without them the decoder, and the share is that of what
        it would find among all rows.

        Where fewer than k rows are there, the other places hold id -1 and the largest distance.
        `keys` of the answer are those the rows were added under.
        """
        self._recent.note(queries)
        return answers.neighbors_of(
            self._moment, queries, k, rerank=rerank, shortlist=shortlist, where=where,
            threads=threads, target_recall=target_recall,
        )  # fmt: skip

    @property
    def plan(self) -> Plan | None:
        """What `build` chose and measured; None where the collection was made by hand."""
        return self._moment.state.manifest.parsed_plan

    @property
    def roles(self) -> dict[str, str]:
        """What `describe` was told: columns by role, and the size of the picture a vector is."""
        return dict(self._moment.state.manifest.roles)

    def check(self) -> Checkup:
        """Measure searches again, of some rows and of the latest queries; say if the plan holds.

        The queries are those that this object was asked since it was opened, a few hundred at most.
        """
        from sghash.collection.planning.checking import check

        return check(self._moment, self._recent.queries(self._moment.state.manifest.width))

    @property
    def moment(self) -> Moment:
        """The rows and the model that searches see now."""
        return self._moment

    def explain(self, query: ArrayLike | None, k: int = 10, **options: Any) -> Explanation:
        """Answer one query and say what was visited in each segment, and what it took.

        The options are those of `search`; with `radius`, those of `range_search`. With a `radius`
        and None for the query nothing is answered: it says how `similarity_join` would go.
        """
        return explained(self._moment, query, k, **options)

    def tune(self, k: int = 10, *, n_queries: int = 200) -> list[Tuned]:
        """Measure ways to search: recall and queries per second, one at a time, fastest first.

        Rows of the collection are the queries, each left out of its own answer. Recall is that of
        the kept vectors' neighbours; without them, of the decoder's.
        """
        return tune(self._moment, k=k, n_queries=n_queries)

    def search_codes(
        self,
        query_codes: ArrayLike,
        k: int = 10,
        *,
        fingerprint: str,
        where: Any = None,
        threads: int | None = None,
    ) -> Neighbors:
        """Like `search` without reranking, for codes made by the model of this `fingerprint`."""
        return answers.neighbors_of_codes(
            self._moment, query_codes, k, fingerprint=fingerprint, where=where, threads=threads
        )

    def range_search(
        self,
        queries: ArrayLike,
        radius: int,
        *,
        where: Any = None,
        threads: int | None = None,
    ) -> RangeNeighbors:
        """Return all rows whose code differs from the query's in at most `radius` bits.

        Where that costs less than looking at every code, rows are looked up by parts of their
        bits; the tables for it are built once searches have paid for them, and stay in memory.
        """
        found = answers.rows_within(self._moment, queries, radius, where=where, threads=threads)
        return found.neighbors

    def get(self, ids: ArrayLike | Sequence[str]) -> Records:
        """Return what is stored under these ids or keys, in the order given."""
        state, holder = self._moment
        return read_records(state, ids_of(ids, state), holder.model)

    def similarity_join(
        self, radius: int, *, threads: int | None = None, callback: Callback | None = None
    ) -> NDArray[np.int64]:
        """Return all pairs of rows whose codes differ in at most `radius` bits.

        One row per pair, (n_pairs, 3) int64: the smaller id, the larger id, the distance; by ids.
        """
        told = counting(callback, "joining")
        return answers.joined_within(self._moment, radius, threads=threads, callback=told)

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes: rows, deleted rows, segments, bytes on disk and per row.

        `staged_jobs` are those that workers have written segments for, and nobody committed yet.
        """
        from sghash.collection.jobs.staging import staged_jobs

        state = self._moment.state
        staged = sum(staged_jobs(folder, state.manifest) for folder in self._folders)
        return {**verification.stats(state), "staged_jobs": staged}


class Snapshot(Reading):
    """A collection as it is now, for questions that belong together: later changes do not show."""

    def __init__(self, of: Reading) -> None:
        self._moment, self._recent, self._folders = of._moment, of._recent, of._folders
