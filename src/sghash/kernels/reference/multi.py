"""Searches through tables of keys, without the tables: every code is compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.reference.hamming import hamming_distances, hamming_neighbors, hamming_range
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.validation import Codes


def multi_neighbors(
    tables: Any,
    codes: Codes,
    query_codes: Codes,
    k: int,
    *,
    now: NDArray[np.int64] | None = None,
    n_known: int | None = None,
    mask: NDArray[np.bool_] | None = None,
    budget: float = np.inf,
    threads: int = 1,
) -> Neighbors:
    """The k nearest rows of each query by (distance, row), whatever the tables know."""
    return hamming_neighbors(codes, query_codes, k, n_bits=8 * codes.shape[1], mask=mask)


def multi_range(
    tables: Any,
    codes: Codes,
    query_codes: Codes,
    radius: int,
    *,
    now: NDArray[np.int64] | None = None,
    n_known: int | None = None,
    mask: NDArray[np.bool_] | None = None,
    budget: float = np.inf,
    threads: int = 1,
) -> RangeNeighbors:
    """All rows within `radius` of each query by (distance, row)."""
    return hamming_range(codes, query_codes, radius, n_bits=8 * codes.shape[1], mask=mask)


def multi_pairs(
    tables: Any, codes: Codes, radius: int, *, threads: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """All pairs of rows within `radius`, the smaller row first, by rows; and their distances."""
    distances = hamming_distances(codes, codes)
    first, second = np.nonzero(np.triu(distances <= radius, 1))
    return first, second, distances[first, second]
