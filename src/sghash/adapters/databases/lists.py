"""Lists of rows near one centroid, as a database keeps them: which to visit, and how to store."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.index.lists.centroids import Partitions
from sghash.validation import Ids


def nearest_lists(partitions: Partitions, places: NDArray[Any], probes: int) -> Ids:
    """The nearest lists (n_queries, probes) of queries."""
    if partitions.by_code:
        from sghash.kernels import hamming_neighbors

        k = min(probes, partitions.n_lists)
        n_bits = 8 * places.shape[1]
        return hamming_neighbors(partitions.centroids, places, k, n_bits=n_bits, threads=1).ids
    wide = partitions.centroids.astype(np.float32)
    scores = np.einsum("ij,ij->i", wide, wide) / 2 - partitions.prepared(places) @ wide.T
    return np.argsort(scores, axis=1, kind="stable")[:, :probes]


def probes_within(partitions: Partitions, probes: int, allowed: NDArray[np.bool_] | None) -> int:
    """Lists to visit, as many more as a mask leaves rows out."""
    if allowed is None:
        return probes
    from sghash.index.lists.probing import probes_through

    return min(partitions.n_lists, probes_through(allowed, probes))


def to_stored(partitions: Partitions | None, n_bits: int) -> tuple[str | None, int, bytes | None]:
    """Metric, width and centroids of lists of codes of so many bits, as columns of a note."""
    if partitions is None:
        return None, 0, None
    if not isinstance(partitions, Partitions):
        raise InvalidInput("partitions must be those of a PartitionedIndex with rows in it")
    width = partitions.centroids.shape[1]
    if partitions.by_code and width != (n_bits + 7) // 8:
        raise InvalidInput(f"the lists are those of codes of {width} bytes, not of {n_bits} bits")
    return partitions.metric, width, partitions.centroids.tobytes()


def from_stored(metric: str | None, width: int, centroids: bytes | None) -> Partitions | None:
    """The lists of such columns; None where there are none."""
    if metric is None or centroids is None:
        return None
    kind = np.uint8 if metric == "hamming" else np.float16
    values = np.frombuffer(centroids, dtype=kind).reshape(-1, width)
    no_groups = np.empty((0, width), dtype=np.float16)
    return Partitions(values, metric, np.zeros(1, dtype=np.int64), no_groups)
