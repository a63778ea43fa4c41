"""Scores of real queries against codes, without decoding: the query is never turned into bits.

With x(h) = alpha + U h the vector that a code stands for, smaller is nearer for every metric:

    "l2"      |q - x(h)|² = |q - alpha|² - 2 (q - alpha) . U h + |U h|²
    "ip"      -q . x(h)
    "cosine"  1 - q . x(h), q of unit length (codes stand for unit vectors)

All but |U h|² is linear in the bits, so it is a sum over bytes of one number per byte value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.models.sgh.paper.generative import GaussianDecoder, code_values
from sghash.validation import Vectors, n_bytes_of

# The eight bits of every byte value, first bit first: (8, 256).
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).T


class QueryTables(NamedTuple):
    """score(q, code) = `offsets`[q] + sum_j `tables`[q, j, code[j]] (+ the code's own term in L2).

    `tables` (n_queries, n_bytes, 256) and `offsets` (n_queries,), both float32; the term that
    depends on the code alone comes from the model's `code_terms` (zero except for "l2").
    """

    tables: Vectors
    offsets: Vectors


def query_tables(
    queries: Vectors, decoder: GaussianDecoder, *, coding: str, metric: str
) -> QueryTables:
    """Tables for queries (n, d) that are already of unit length if the metric is "cosine"."""
    q = queries.astype(np.float64)
    n_bits = decoder.weights.shape[0]
    if metric == "l2":
        centred = q - decoder.bias
        slopes, offsets = -2 * centred @ decoder.weights.T, np.square(centred).sum(axis=1)
    else:
        slopes = -q @ decoder.weights.T
        offsets = -q @ decoder.bias + (1.0 if metric == "cosine" else 0.0)
    n_bytes = n_bytes_of(n_bits)
    padded = np.zeros((len(q), 8 * n_bytes))
    padded[:, :n_bits] = slopes
    tables = padded.reshape(len(q), n_bytes, 8) @ code_values(_BITS, coding, np.float64)
    return QueryTables(tables.astype(np.float32), offsets.astype(np.float32))


def code_terms(
    bits: NDArray[np.bool_], decoder: GaussianDecoder, *, coding: str, metric: str
) -> Vectors:
    """What a code adds to every score by itself: |U h|² in L2, else zero; (n,) float32."""
    if metric != "l2":
        return np.zeros(len(bits), dtype=np.float32)
    directions = code_values(bits, coding, np.float64) @ decoder.weights
    return np.square(directions).sum(axis=1).astype(np.float32)
