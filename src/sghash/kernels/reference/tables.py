"""Scores of codes by tables: every code, entry by entry, in the order that the fast ones keep."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.reference.order import nearest
from sghash.neighbors import Neighbors
from sghash.validation import Codes, Ids, Vectors


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


def linear_scores(codes: Codes, tables: Vectors) -> Vectors:
    """All scores (n_queries, n) float32 by tables (n_queries, 2 * n_bytes, 16) of half bytes."""
    scores = np.zeros((len(tables), len(codes)), dtype=np.float32)
    for byte in range(codes.shape[1]):
        high, low = codes[:, byte] >> 4, codes[:, byte] & 15
        scores += tables[:, 2 * byte, high] + tables[:, 2 * byte + 1, low]
    return scores


def code_terms(codes: Codes, tables: Vectors, *, threads: int = 1) -> Vectors:
    """What every code adds by itself (n,) float32, from the tables of `terms.gram_tables`.

    For each pair of words, the entries of the half bytes of the first where the second has bits.
    """
    n, n_bytes = codes.shape
    n_words = -(-n_bytes // 8)
    padded = np.zeros((n, 8 * n_words), dtype=np.uint8)
    padded[:, :n_bytes] = codes
    # Lowest byte first, and within a byte the lowest bit.
    bits = np.unpackbits(padded, axis=1, bitorder="little").reshape(n, n_words, 64)
    halves = np.stack([padded & 15, padded >> 4], axis=2).reshape(n, n_words, 16)
    terms = np.zeros(n)
    pairs = [(a, b) for a in range(n_words) for b in range(a, n_words)]
    for table, (first, second) in zip(tables.astype(np.float64), pairs, strict=True):
        for group in range(16):
            entries = table[16 * group + halves[:, first, group]]
            terms += (entries * bits[:, second]).sum(axis=1)
    return terms.astype(np.float32)


def asymmetric_neighbors(
    codes: Codes,
    tables: Vectors,
    k: int,
    *,
    terms: Any = None,
    mask: NDArray[np.bool_] | None = None,
    threads: int | None = 1,
) -> Neighbors:
    """The k rows with the least score of each query, by (score, row)."""
    scores = linear_scores(codes, tables)
    return nearest(scores if terms is None else scores + code_terms(codes, terms.gram), k, mask)


def scores(
    codes: Codes, rows: Ids, tables: Vectors, gram: Vectors | None = None, *, threads: int = 1
) -> Vectors:
    """Scores (n_queries, m) of the codes in `rows` (n_queries, m); infinite where negative."""
    if not len(codes):
        return np.full(rows.shape, np.inf, dtype=np.float32)
    every = linear_scores(codes, tables)
    if gram is not None:
        every = every + code_terms(codes, gram)
    found = np.take_along_axis(every, np.maximum(rows, 0), axis=1)
    return np.where(rows < 0, np.float32(np.inf), found)


def best_places(scores: Vectors, k: int) -> Ids:
    """Columns (n_queries, k) of the least scores; NaN counts as infinite."""
    known = np.where(np.isnan(scores), np.float32(np.inf), scores)
    return np.argsort(known, axis=1, kind="stable")[:, :k]
