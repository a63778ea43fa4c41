"""Trials on a sample: how true kept vectors are, and how far down a code puts true neighbours.

A trial learns from few rows in few steps, so that all of them together take seconds; what is chosen
is learned from all, and measured again. What decides are counts and a fixed table of costs, never
the clock: the same vectors and the same seed give the same choice.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.incoming import as_kept
from sghash.collection.lists.building import AUTO_ROWS
from sghash.collection.planning.looking import Look, recalls, without_own
from sghash.collection.planning.pipelines import Pipeline
from sghash.errors import SghashError
from sghash.validation import Ids, Vectors, available_cores

logger = logging.getLogger("sghash.collection")

#: Rows that a trial learns from and searches, and its queries.
TRIAL_ROWS, TRIAL_QUERIES = 8000, 200
#: Rows and options of a trial by the model: what is slow to learn learns from less.
LESS: dict[str, tuple[int, dict[str, Any]]] = {
    "GenerativeQuantizer": (4000, {"n_rounds": 2, "n_sweeps": 2}),
    "SGH": (TRIAL_ROWS, {"n_steps": 120}),
}
# Steps of a trial of long codes, which begin where iterative quantization ends.
_LONG_BITS, _LONG_STEPS = 512, 40
# Shortlists that are tried, in rows per neighbour.
LENGTHS = (1, 2, 3, 5, 7, 10, 15, 25, 40, 60, 100)
#: Nanoseconds of a query by what it does: a code that is scanned, a byte of it, a row that is
#: fetched for the last decision, a byte of that.
CODE_COST, BYTE_COST, ROW_COST, KEPT_BYTE_COST = 1.0, 0.15, 40.0, 0.08
#: The share of rows that a search of lists looks at.
VISITED_SHARE = 0.08


class Ranked(NamedTuple):
    """How well a code orders rows of the trial: recall by length of the shortlist, in rows."""

    n_rows: int
    recall: dict[int, float]
    #: Recall of the code alone among a quarter of the rows: the more rows, the lower.
    recall_of_quarter: float

    def alone(self, n: int) -> float:
        """Recall expected where the code alone decides among n rows."""
        k_recall = next(iter(self.recall.values()))
        lost = max(0.0, self.recall_of_quarter - k_recall)
        steps = max(0.0, np.log(max(n, 1) / self.n_rows) / np.log(4))
        return float(max(0.0, k_recall - lost * steps))

    def length_for(self, target: float) -> int | None:
        """The shortest list that has this share of the true neighbours; None if none has."""
        return next((rows for rows, found in self.recall.items() if found >= target), None)


def fidelity(look: Look, kind: str, k: int) -> tuple[float, float]:
    """Recall where kept vectors of this kind decide about all rows, and its standard error.

    Only the nearest rows are asked: rounding moves a row by far less than the others are apart.
    """
    from sghash.kernels.vectors.stored import kept_distances

    if not look.near.size:
        return 1.0, 0.0
    found = np.empty((len(look.queries), min(k, look.near.shape[1])), dtype=np.int64)
    step = max(1, (1 << 24) // (look.near.shape[1] * look.width))
    for start in range(0, len(found), step):
        part = slice(start, start + step)
        places = look.places[part]
        some, local = np.unique(places, return_inverse=True)
        kept = as_kept(np.ascontiguousarray(look.sample[some]), kind)
        local = np.where(places < 0, -1, local.reshape(places.shape)).astype(np.int64)
        apart = kept_distances(
            kept, local, look.queries[part], look.metric, threads=available_cores()
        )
        order = np.lexsort((look.near[part], apart), axis=1)[:, : found.shape[1]]
        found[part] = np.take_along_axis(look.near[part], order, axis=1)
    hits = recalls(look, found, k)
    return float(hits.mean()), float(hits.std() / np.sqrt(max(1, len(hits))))


def ranked(look: Look, pipeline: Pipeline, k: int, random_state: int) -> Ranked | None:
    """Learn the code on some rows and see how it orders them; None where it cannot be learned."""
    n_rows, options = LESS.get(pipeline.model, (TRIAL_ROWS, {}))
    if pipeline.model == "SGH" and 8 * pipeline.code_bytes >= _LONG_BITS:
        options = {**options, "n_steps": _LONG_STEPS}
    rng = np.random.default_rng(random_state)
    places = np.sort(rng.permutation(len(look.sample))[:n_rows])
    rows = np.ascontiguousarray(look.sample[places])
    queries = look.queries[:TRIAL_QUERIES]
    own = _own_places(look, places)[: len(queries)]
    try:
        model = pipeline.new_model(look.metric, random_state, **options).fit(rows)
        codes = model.encode(rows)
    except SghashError as error:
        logger.info("%s is left out: %s", pipeline.code_name, error)
        return None
    found = {}
    for share in (4, 1):
        some = slice(0, max(1, len(rows) // share))
        found[share] = _recall_by_length(rows[some], codes[some], queries, own, model, look, k)
    by_length = found[1]
    return Ranked(len(rows), by_length, next(iter(found[4].values())))


def _own_places(look: Look, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each query stands among the rows of a trial; -1 where it does not."""
    if not len(look.own):
        return np.full(len(look.queries), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(places, look.own), len(places) - 1)
    return np.where(places[at] == look.own, at, -1)


def _recall_by_length(
    rows: Vectors,
    codes: NDArray[np.uint8],
    queries: Vectors,
    own: NDArray[np.int64],
    model: Any,
    look: Look,
    k: int,
) -> dict[int, float]:
    from sghash.index import TableIndex
    from sghash.kernels.vectors.exact import exact_neighbors

    cores = available_cores()
    scorer = model.scorer(look.metric)
    index = TableIndex(scorer.layout.n_bytes, n_bits=scorer.layout.n_bits, gram=scorer.layout.gram)
    index.add(codes)
    k = max(1, min(k, len(rows) - 1))
    truth = exact_neighbors(rows, queries, k + 1, metric=look.metric, threads=cores)
    longest = min(len(rows), LENGTHS[-1] * k + 1)
    near = index.search(scorer.query_tables(queries), longest, threads=cores)
    local = np.where(own < len(rows), own, -1)
    true = without_own(truth.distances, truth.ids, local)[1]
    order = without_own(near.distances, near.ids, local)[1]
    return {length * k: _share(true, order[:, : length * k]) for length in LENGTHS}


def _share(true: Ids, found: Ids) -> float:
    hits = (true[:, :, None] == found[:, None, :]).any(axis=2)
    return float(hits.mean()) if hits.size else 1.0


def microseconds(pipeline: Pipeline, n: int, length: int, n_trial: int) -> float:
    """What a query is expected to cost, where so many rows of the trial had to be fetched."""
    visited = n * VISITED_SHARE if n >= AUTO_ROWS else n
    scan = visited * (CODE_COST + BYTE_COST * pipeline.code_bytes)
    fetched = 0.0
    if pipeline.keep is not None:
        rows = length * max(1.0, visited / n_trial)
        fetched = rows * (ROW_COST + KEPT_BYTE_COST * pipeline.kept_bytes)
    return (scan + fetched) / 1000
