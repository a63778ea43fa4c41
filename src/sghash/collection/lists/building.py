"""Making the lists of a segment that was just written, and measuring what they find.

Lists are learned from kept vectors, or from what the codes stand for; a model whose codes stand for
nothing has no lists without vectors. Where rows were in lists before, those stay while they fit: a
row keeps its place, and rows that came join the nearest. Some rows are then taken for queries,
hidden from the search, and the curve of recall and cost that they give is stored with the lists.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.lists.stored import Lists
from sghash.collection.storage.manifest import AUTO, Manifest
from sghash.collection.storage.rows import Rows
from sghash.collection.stored_model import encode_queries
from sghash.errors import BadFile, InvalidInput
from sghash.index import PartitionedIndex
from sghash.index.lists.carrying import carried
from sghash.index.rows import RowIds
from sghash.kernels.vectors.kinds import is_small
from sghash.models.shared.scorers import Scorer
from sghash.validation import Vectors

#: Rows from which on `partitions="auto"` makes lists.
AUTO_ROWS = 20_000
#: Rows that are taken for queries at most, and one of how many.
N_SAMPLE, SAMPLE_SHARE = 800, 10
#: Neighbours that recall is measured of.
MEASURED_K = 10

logger = logging.getLogger("sghash.collection")

#: Makes the lists of a new segment: None where there are to be none.
Build = Callable[[Rows, "Earlier | None"], "Built | None"]


class Built(NamedTuple):
    """Lists, measured, what they were learned from, and how many rows that were."""

    lists: PartitionedIndex
    origin: str
    learned_rows: int


class Earlier(NamedTuple):
    """Lists of rows that came into a new segment: which of theirs each row was, -1 for others."""

    lists: Lists
    rows: NDArray[np.int64]


class Decoded:
    """What codes, or kept vectors of a small kind, stand for; made where rows are asked for."""

    def __init__(self, stored: NDArray[Any], width: int, decode: Callable[..., Any]) -> None:
        self.stored, self.width, self.decode = stored, width, decode

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and their width."""
        return len(self.stored), self.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return np.dtype(np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
        return np.asarray(self.decode(np.ascontiguousarray(self.stored[rows])), np.float32)


def builder_of(model: Any, manifest: Manifest) -> Build | None:
    """What makes lists for the segments of a collection; None where it shall have none."""
    partitions = manifest.partitions
    if partitions is None:
        return None

    def build(rows: Rows, earlier: Earlier | None) -> Built | None:
        n_lists = None if partitions == AUTO else int(partitions)
        if len(rows) < (AUTO_ROWS if n_lists is None else n_lists):
            return None
        try:
            return _built(rows, model, manifest.metric, n_lists, earlier)
        except InvalidInput as error:
            # The rows are whole without lists: to refuse the segment would help nobody.
            logger.warning("the segment is written without lists: %s", error)
            return None

    return build


def _built(
    rows: Rows, model: Any, metric: str, n_lists: int | None, earlier: Earlier | None
) -> Built:
    from sghash.kernels.vectors.stored import HALVES

    tables = model.capabilities.tables
    if rows.vectors is None and not tables:
        raise InvalidInput(
            f"{type(model).__name__} has no decoder to score codes by, and no vectors are kept"
        )
    if rows.vectors is not None and rows.vectors.dtype == np.float16 and not HALVES:
        raise InvalidInput("this CPU cannot widen float16: keep float32 vectors")
    if tables:
        empty = PartitionedIndex.for_model(model, metric=metric, n_lists=n_lists)
    else:
        n_bits = model.code_bits
        empty = PartitionedIndex(-(-n_bits // 8), n_bits=n_bits, metric=metric, n_lists=n_lists)
    places = _places(rows, model)
    origin = "decoded codes" if rows.vectors is None else "vectors"
    index, learned_rows = None, len(rows)
    if earlier is not None and earlier.lists.origin == origin:
        index = _continued(empty, earlier, rows, places, model)
    if index is None:
        index = empty.over(rows.codes, RowIds(len(rows)), vectors=places)
    else:
        assert earlier is not None  # it was continued
        learned_rows = earlier.lists.learned_rows
    _measure(index, rows, model)
    return Built(index, origin, learned_rows)


def _continued(
    empty: PartitionedIndex, earlier: Earlier, rows: Rows, places: Any, model: Any
) -> PartitionedIndex | None:
    """The rows in the lists there were; None where these do not fit them, or are damaged."""
    lists = earlier.lists
    layout = model.scorer(empty.metric).layout if model.capabilities.tables else None
    try:
        lists.check_fit(empty.metric, places.shape[1], layout)
        return carried(empty, lists.index, earlier.rows, rows.codes, places, lists.learned_rows)
    except BadFile as error:
        logger.warning("lists are learned anew from all rows: %s", error)
        return None


def sample_rows(n: int) -> NDArray[np.int64]:
    """Rows that are taken for queries, rising; the same at every call."""
    rng = np.random.default_rng(n)
    return np.sort(rng.choice(n, min(N_SAMPLE, n // SAMPLE_SHARE), replace=False))


def _measure(index: PartitionedIndex, rows: Rows, model: Any) -> None:
    """Measure the curve; where there are too few rows to measure with, there is none."""
    chosen = sample_rows(len(rows))
    k = min(MEASURED_K, len(rows) - len(chosen))
    if not len(chosen) or k < 1:
        return
    allowed = np.ones(len(rows), dtype=np.bool_)
    allowed[chosen] = False
    queries = vectors_at(rows, chosen, model)
    scorer = model.scorer(index.metric) if model.capabilities.tables else None
    if rows.vectors is not None:
        truth = nearest_kept(rows.vectors, chosen, queries, k, index.metric)
    else:
        tables = index.rules.over(rows.codes, RowIds(len(rows)))
        assert scorer is not None  # else there would be no lists
        truth = tables.search(scorer.query_tables(queries), k, mask=allowed, threads=1).ids
    asked_by = asked_with(index, rows, queries, model, scorer)
    index.measure(asked_by, truth, vectors=queries, kept=rows.vectors, mask=allowed)


def asked_with(
    index: PartitionedIndex, rows: Rows, queries: Vectors, model: Any, scorer: Scorer | None
) -> Any:
    """Checked queries as lists are searched with: vectors where the index maps them itself."""
    if rows.vectors is not None and index.query_map is not None:
        return queries
    return encode_queries(model, queries) if scorer is None else scorer.query_tables(queries)


def vectors_at(rows: Rows, chosen: NDArray[np.int64], model: Any) -> Vectors:
    """Vectors of some rows: those kept, or what their codes stand for."""
    return np.ascontiguousarray(_places(rows, model)[chosen], dtype=np.float32)


def _places(rows: Rows, model: Any) -> Any:
    """Vectors of all rows, as an array or made of what is asked for."""
    from sghash.kernels.vectors.stored import as_vectors

    width = int(model.n_features_in_)
    if rows.vectors is None:
        return Decoded(rows.codes, width, model.decode)
    if is_small(rows.vectors):
        return Decoded(rows.vectors, width, partial(as_vectors, width=width))
    return rows.vectors


def nearest_kept(
    vectors: NDArray[Any], chosen: NDArray[np.int64], queries: Vectors, k: int, metric: str
) -> NDArray[np.int64]:
    """The k nearest kept vectors of each query by (distance, row), rows of `chosen` left out."""
    if is_small(vectors):
        return _nearest_small(vectors, chosen, queries, k, metric)
    from sghash.kernels.vectors.exact import exact_neighbors

    found = exact_neighbors(vectors, queries, k + len(chosen), metric=metric).ids
    hidden = np.isin(found, chosen) | (found < 0)
    # What is hidden goes to the end; the others stay in their order.
    order = np.argsort(hidden, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(found, order, axis=1)


def _nearest_small(
    kept: NDArray[Any], chosen: NDArray[np.int64], queries: Vectors, k: int, metric: str
) -> NDArray[np.int64]:
    """The same by the distances that searches go by: not those of the vectors given back."""
    from sghash.kernels.vectors.stored import kept_distances

    shown = np.setdiff1d(np.arange(len(kept)), chosen)[None]
    k = min(k, shown.shape[1])
    found = np.empty((len(queries), k), dtype=np.int64)
    for place in range(len(queries) if k else 0):
        apart = kept_distances(kept, shown, queries[place : place + 1], metric)[0]
        # All that tie with the last: which of them come first, their rows decide.
        near = np.flatnonzero(apart <= np.partition(apart, k - 1)[k - 1])
        found[place] = shown[0, near[np.lexsort((near, apart[near]))[:k]]]
    return found
