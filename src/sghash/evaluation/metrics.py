"""What is measured, each a pure function whose docstring is its definition in every report.

`ground_truth` is what `sghash.evaluation.ground_truth` returns: the true neighbours' ids, k columns
or more, where further columns hold rows tied with the k-th. `retrieved` are the ids (m, n or more)
that a search returned, nearest first, ordered by (distance, id) where distances are equal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput
from sghash.neighbors import PADDING_ID, Neighbors

_BLOCK_QUERIES = 256


def recall(ground_truth: ArrayLike, retrieved: ArrayLike, *, k: int, n: int) -> float:
    """RecallK@N: the fraction of the K true neighbours among the first N retrieved, over queries.

    Where further rows are as near as the K-th true neighbour, any of them counts, K at most.
    Rows with codes at equal distance are retrieved in the order of their ids.
    """
    return float(recall_by_query(ground_truth, retrieved, k=k, n=n).mean())


def recall_by_query(
    ground_truth: ArrayLike, retrieved: ArrayLike, *, k: int, n: int
) -> NDArray[np.float64]:
    """RecallK@N of each query alone."""
    found = _hits(ground_truth, retrieved, k, n).sum(axis=1)
    return np.asarray(np.minimum(found, k) / k, dtype=np.float64)


def precision(ground_truth: ArrayLike, retrieved: ArrayLike, *, k: int, n: int) -> float:
    """PrecisionK@N: the fraction of the first N retrieved that are among the K true neighbours.

    Where further rows are as near as the K-th true neighbour, any of them counts, K at most.
    """
    found = _hits(ground_truth, retrieved, k, n).sum(axis=1)
    return float(np.minimum(found, k).mean() / n)


def average_precision(ground_truth: ArrayLike, retrieved: ArrayLike, *, k: int, n: int) -> float:
    """mAP: the mean over queries of (1/K) * sum of the precision at each true neighbour's rank.

    Only the first N retrieved are seen; a true neighbour beyond them adds nothing.
    """
    hits = _hits(ground_truth, retrieved, k, n)
    counted = hits & (np.cumsum(hits, axis=1) <= k)
    return float((_precision_at_hits(counted)).sum(axis=1).mean() / k)


def label_average_precision(
    base_labels: ArrayLike, query_labels: ArrayLike, retrieved: ArrayLike, *, n: int
) -> float:
    """Label mAP@N: a retrieved row is right if it has the query's label; the mean over queries of
    the average precision at the right rows, over those among the first N (0 where none is right).
    """
    ids = _table(retrieved, n)
    labels = np.asarray(base_labels)
    right = (labels[np.maximum(ids, 0)] == np.asarray(query_labels)[:, None]) & (ids != PADDING_ID)
    totals = right.sum(axis=1)
    return float((_precision_at_hits(right).sum(axis=1) / np.maximum(totals, 1)).mean())


def expected_recall(
    ground_truth: Neighbors,
    true_distances: ArrayLike,
    boundary: ArrayLike,
    n_nearer: ArrayLike,
    n_tied: ArrayLike,
    *,
    k: int,
    n: int,
) -> float:
    """Expected RecallK@N: RecallK@N if all ties, in codes and in the truth, were broken at random.

    For each query, `true_distances` (m, columns of the ground truth) are the code distances of its
    true neighbours, `boundary` is the code distance of the N-th retrieved row, `n_nearer` rows are
    nearer than that and `n_tied` rows are exactly that far, over the whole base.
    """
    far, limit = np.asarray(true_distances), np.asarray(boundary)[:, None]
    chance = (n - np.asarray(n_nearer, dtype=np.float64)) / np.asarray(n_tied)
    retrieved = np.where(far < limit, 1.0, np.where(far == limit, chance[:, None], 0.0))
    return float((retrieved * _tie_weights(ground_truth, k)).sum(axis=1).mean() / k)


def reconstruction_error(vectors: ArrayLike, decoded: ArrayLike) -> float:
    """The mean over vectors of the squared Euclidean distance to what their codes decode to."""
    difference = np.asarray(vectors, dtype=np.float64) - np.asarray(decoded, dtype=np.float64)
    return float(np.mean(np.sum(difference**2, axis=1)))


def unexplained_variance(vectors: ArrayLike, decoded: ArrayLike) -> float:
    """The reconstruction error divided by the mean squared distance to the mean of the vectors."""
    rows = np.asarray(vectors, dtype=np.float64)
    spread = float(np.mean(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1)))
    if spread == 0.0:
        raise InvalidInput("the vectors are all equal: there is no variance to explain")
    return reconstruction_error(rows, decoded) / spread


def bits_in_use(bits: ArrayLike) -> float:
    """The sum over bits of the entropy of how often each is set: n_bits if all are balanced."""
    share = np.asarray(bits, dtype=bool).mean(axis=0)
    known = share[(share > 0) & (share < 1)]
    return float(-np.sum(known * np.log2(known) + (1 - known) * np.log2(1 - known)))


def description_length(bits: ArrayLike, vectors: ArrayLike, decoded: ArrayLike) -> float:
    """Bits per vector to send its code (each bit by its frequency) and what the code leaves over.

    The rest is Gaussian noise with the mean squared error e per coordinate: d/2 * log2(2 pi e e).
    It may be negative: a density is not a probability, so only differences have a meaning.
    """
    width = int(np.asarray(vectors).shape[1])
    error = reconstruction_error(vectors, decoded) / width
    if error == 0.0:
        raise InvalidInput("the vectors are decoded without any error: the length has no limit")
    return bits_in_use(bits) + width / 2 * float(np.log2(2 * np.pi * np.e * error))


def queries_per_second(n_queries: int, seconds: float) -> float:
    """Queries answered per second of wall clock, all threads together, encoding not counted.

    Each query asks for as many rows as the largest N.
    """
    return n_queries / seconds


def bytes_per_vector(codes: NDArray[np.uint8]) -> float:
    """Bytes that one packed code takes: n_bits / 8, rounded up."""
    return float(codes.shape[1])


class Metric(NamedTuple):
    """A function of this file, and which way is better."""

    measure: Callable[..., float]
    better: str

    @property
    def definition(self) -> str:
        """What is measured, in the words of the function's docstring."""
        return " ".join((inspect.getdoc(self.measure) or "").split())


#: Every metric by name.
METRICS: dict[str, Metric] = {
    "recall": Metric(recall, "higher"),
    "expected_recall": Metric(expected_recall, "higher"),
    "precision": Metric(precision, "higher"),
    "average_precision": Metric(average_precision, "higher"),
    "label_average_precision": Metric(label_average_precision, "higher"),
    "reconstruction_error": Metric(reconstruction_error, "lower"),
    "unexplained_variance": Metric(unexplained_variance, "lower"),
    "bits_in_use": Metric(bits_in_use, "higher"),
    "description_length": Metric(description_length, "lower"),
    "queries_per_second": Metric(queries_per_second, "higher"),
    "bytes_per_vector": Metric(bytes_per_vector, "lower"),
}


def _table(ids: ArrayLike, n: int) -> NDArray[np.int64]:
    table = np.asarray(ids)
    if table.ndim != 2 or table.shape[1] < n or n < 1:
        raise InvalidInput(
            f"the first {n} ids of each query are needed, the table has shape {table.shape}: "
            f"search with k >= {n}"
        )
    return table[:, :n]


def _hits(ground_truth: ArrayLike, retrieved: ArrayLike, k: int, n: int) -> NDArray[np.bool_]:
    """Whether each of the first n retrieved is a true neighbour; bool (m, n)."""
    truth, ids = np.asarray(ground_truth), _table(retrieved, n)
    if len(truth) != len(ids) or truth.ndim != 2 or not 1 <= k <= truth.shape[1]:
        raise InvalidInput(
            f"the ground truth has shape {truth.shape}, {len(ids)} queries and k = {k} are "
            "measured: compute it for them"
        )
    hits = np.empty(ids.shape, dtype=np.bool_)
    for first in range(0, len(ids), _BLOCK_QUERIES):
        part = slice(first, first + _BLOCK_QUERIES)
        hits[part] = (ids[part, :, None] == truth[part, None, :]).any(axis=2)
    hits &= ids != PADDING_ID
    return hits


def _precision_at_hits(hits: NDArray[np.bool_]) -> NDArray[np.float64]:
    ranks = np.arange(1, hits.shape[1] + 1)
    return np.where(hits, np.cumsum(hits, axis=1) / ranks, 0.0)


def _tie_weights(ground_truth: Neighbors, k: int) -> NDArray[np.float64]:
    """How much each true neighbour counts: 1, or its share of the places that tied rows fill."""
    distances = ground_truth.distances
    last = distances[:, k - 1 : k]
    nearer, tied = distances < last, (distances == last) & (ground_truth.ids != PADDING_ID)
    places = k - nearer.sum(axis=1, keepdims=True)
    share = places / np.maximum(tied.sum(axis=1, keepdims=True), 1)
    weights: NDArray[Any] = np.where(nearer, 1.0, np.where(tied, share, 0.0))
    return weights
