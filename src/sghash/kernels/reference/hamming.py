"""All Hamming distances, then a sort."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.reference.order import nearest
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.validation import Codes


def hamming_distances(codes: Codes, query_codes: Codes) -> NDArray[np.int32]:
    """All distances (n_queries, n) between packed codes."""
    differ = query_codes[:, None, :] ^ codes[None, :, :]
    return np.bitwise_count(differ).sum(axis=2, dtype=np.int32)


def hamming_neighbors(
    codes: Codes,
    query_codes: Codes,
    k: int,
    *,
    n_bits: int,
    mask: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> Neighbors:
    """The k nearest rows of each query by (distance, row)."""
    return nearest(hamming_distances(codes, query_codes), k, mask)


def hamming_range(
    codes: Codes,
    query_codes: Codes,
    radius: int,
    *,
    n_bits: int,
    mask: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> RangeNeighbors:
    """All rows with distance <= radius, of each query by (distance, row)."""
    distances = hamming_distances(codes, query_codes)
    limits, found_distances, found_rows = [0], [], []
    for row_distances in distances:
        inside = row_distances <= radius
        rows = np.flatnonzero(inside if mask is None else inside & mask)
        order = np.lexsort((rows, row_distances[rows]))
        found_distances.append(row_distances[rows][order])
        found_rows.append(rows[order])
        limits.append(limits[-1] + len(rows))
    empty_distances, empty_rows = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
    return RangeNeighbors(
        np.asarray(limits, dtype=np.int64),
        np.concatenate([empty_distances, *found_distances]),
        np.concatenate([empty_rows, *found_rows]),
    )


def hamming_shortlist(
    codes: Codes,
    query_codes: Codes,
    length: int,
    *,
    n_bits: int,
    mask: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> Neighbors:
    """The `length` nearest rows by (distance, row) and a tenth more, which may tie."""
    return nearest(hamming_distances(codes, query_codes), length + length // 10, mask)
