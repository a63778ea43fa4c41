"""The obviously right twin of every fast kernel, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.neighbors import Neighbors, RangeNeighbors, empty_neighbors
from sghash.validation import Codes, Vectors


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


def vector_distances(vectors: Vectors, queries: Vectors, metric: str) -> NDArray[np.float32]:
    """All distances (n_queries, n), computed in double precision, rounded to float32.

    "l2" is the squared Euclidean distance, "ip" the negative inner product, "cosine" one minus
    the cosine, itself rounded to float32 (a zero vector has cosine 0 with everything).
    """
    x, q = vectors.astype(np.float64), queries.astype(np.float64)
    if metric == "l2":
        exact = ((q[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)
    else:
        exact = -(q @ x.T)
        if metric == "cosine":
            norms = np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(x, axis=1)[None, :]
            cosine = np.divide(exact, norms, out=np.zeros_like(exact), where=norms > 0)
            return np.float32(1) + cosine.astype(np.float32)
    return exact.astype(np.float32)


def exact_neighbors(
    vectors: Vectors, queries: Vectors, k: int, *, metric: str = "l2", threads: int = 1
) -> Neighbors:
    """The k nearest vectors of each query by (distance, row)."""
    return nearest(vector_distances(vectors, queries, metric), k, None)


def byte_table_scores(codes: Codes, tables: Vectors) -> Vectors:
    """All scores (n_queries, n) float32: entries added up in the order of bytes."""
    scores = np.zeros((len(tables), len(codes)), dtype=np.float32)
    for byte in range(codes.shape[1]):
        scores += tables[:, byte, codes[:, byte]]
    return scores


def byte_table_neighbors(
    codes: Codes,
    tables: Vectors,
    k: int,
    *,
    mask: NDArray[np.bool_] | None = None,
    threads: int | None = 1,
) -> Neighbors:
    """The k rows with the least score of each query, by (score, row)."""
    return nearest(byte_table_scores(codes, tables), k, mask)


def nearest(distances: NDArray[Any], k: int, mask: NDArray[np.bool_] | None) -> Neighbors:
    """The k smallest of each row of a full distance matrix, ties by column."""
    result = empty_neighbors(len(distances), k, distances.dtype)
    columns = np.arange(distances.shape[1]) if mask is None else np.flatnonzero(mask)
    for i, row in enumerate(distances):
        order = columns[np.lexsort((columns, row[columns]))[:k]]
        result.ids[i, : len(order)] = order
        result.distances[i, : len(order)] = row[order]
    return result
