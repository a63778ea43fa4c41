"""Scores of real queries against a few codes each, from a linear decoder.

A code of bits h stands for the vector origin + h @ directions. What depends on query and code is
linear in h, so four bits at a time are one entry of a table of sixteen. In L2 the code adds a term
of its own, h K h with K = directions @ directions.T; it is a sum over pairs of such groups.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import announce, compiled
from sghash.kernels.pieces import cut, run
from sghash.validation import Codes, Vectors

# The bits of every value of a nibble, first bit first: (4, 16).
_NIBBLE_BITS = np.unpackbits(np.arange(16, dtype=np.uint8)[:, None], axis=1).T[4:]
_FLOAT_BITS = _NIBBLE_BITS.astype(np.float64)


def nibble_tables(slopes: NDArray[np.float64], n_bytes: int) -> Vectors:
    """Tables (n, 2 * n_bytes, 16) float32 of sums of slopes (n, n_bits) over set bits."""
    padded = np.zeros((len(slopes), 8 * n_bytes))
    padded[:, : slopes.shape[1]] = slopes
    return (padded.reshape(len(slopes), -1, 4) @ _FLOAT_BITS).astype(np.float32)


def pair_tables(gram: NDArray[np.float64], n_bytes: int) -> Vectors:
    """Tables (n_pairs, 256) float32 of the parts of h K h, for all pairs g <= g' of nibbles."""
    n_groups = 2 * n_bytes
    padded = np.zeros((4 * n_groups, 4 * n_groups))
    padded[: len(gram), : len(gram)] = gram
    blocks = padded.reshape(n_groups, 4, n_groups, 4)
    tables = np.empty((n_groups * (n_groups + 1) // 2, 256), dtype=np.float32)
    place = 0
    for first in range(n_groups):
        for second in range(first, n_groups):
            products = _FLOAT_BITS.T @ blocks[first, :, second, :] @ _FLOAT_BITS
            if first == second:
                # Within a group both nibbles are the same one: only the diagonal is ever used.
                products = np.diag(np.diag(products))
            else:
                products *= 2
            tables[place] = products.reshape(-1)
            place += 1
    return tables


def code_terms(codes: Codes, pairs: Vectors, *, threads: int = 1) -> Vectors:
    """h K h of every code (n, n_bytes), (n,) float32."""
    terms = np.empty(len(codes), dtype=np.float32)
    announce(_terms, "rescoring")

    def compute(start: int, stop: int, stopped: threading.Event) -> None:
        for first in range(start, stop, 1 << 16):
            if stopped.is_set():
                return
            last = min(first + (1 << 16), stop)
            _terms(codes[first:last], pairs, terms[first:last])

    run([(compute, part) for part in cut(len(codes), threads)])
    return terms


def scores(
    candidates: Codes, tables: Vectors, pairs: Vectors | None = None, *, threads: int = 1
) -> Vectors:
    """Scores (n_queries, m) float32 of candidate codes (n_queries, m, n_bytes), smaller is nearer.

    What depends on the query alone is left out.
    """
    found = np.empty(candidates.shape[:2], dtype=np.float32)
    own = np.empty((0, 256), dtype=np.float32) if pairs is None else pairs
    announce(_scores, "rescoring")

    def compute(start: int, stop: int, stopped: threading.Event) -> None:
        if not stopped.is_set():
            _scores(
                np.ascontiguousarray(candidates[start:stop]),
                tables[start:stop],
                own,
                found[start:stop],
            )

    run([(compute, part) for part in cut(len(candidates), threads)])
    return found


# Numba counts references at every slice of an array, which costs more than a score: the functions
# below take whole arrays and places in them.


@compiled
def code_term(codes: NDArray[np.uint8], row: int, pairs: NDArray[np.float32]) -> np.float32:
    """The term h K h of the code in one row."""
    n_groups = 2 * codes.shape[1]
    total = np.float32(0)
    place = 0
    for first in range(n_groups):
        high = _nibble(codes, row, first) << 4
        part = np.float32(0)
        for second in range(first, n_groups):
            part += pairs[place, high | _nibble(codes, row, second)]
            place += 1
        total += part
    return total


@compiled
def _nibble(codes: NDArray[np.uint8], row: int, group: int) -> np.int64:
    byte = np.int64(codes[row, group >> 1])
    return byte & 15 if group & 1 else byte >> 4


@compiled
def _terms(codes: NDArray[np.uint8], pairs: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    for row in range(codes.shape[0]):
        out[row] = code_term(codes, row, pairs)


@compiled
def linear_score(
    codes: NDArray[np.uint8], row: int, tables: NDArray[np.float32], query: int
) -> np.float32:
    """The part of a score that is linear in the bits."""
    total = np.float32(0)
    for byte in range(codes.shape[1]):
        value = codes[row, byte]
        total += tables[query, 2 * byte, value >> 4] + tables[query, 2 * byte + 1, value & 15]
    return total


@compiled
def _scores(
    candidates: NDArray[np.uint8],
    tables: NDArray[np.float32],
    pairs: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    n_queries, m, n_bytes = candidates.shape
    codes = candidates.reshape(n_queries * m, n_bytes)
    for query in range(n_queries):
        for i in range(m):
            row = query * m + i
            score = linear_score(codes, row, tables, query)
            if pairs.shape[0]:
                score += code_term(codes, row, pairs)
            out[query, i] = score


@compiled
def vector_distances(
    candidates: NDArray[np.float32], queries: NDArray[np.float32], kind: int
) -> NDArray[np.float32]:
    """Exact distances (n_queries, m) of vectors (n_queries, m, d): 0 is L2, 1 is -ip, 2 cosine."""
    n_queries, m, width = candidates.shape
    out = np.empty((n_queries, m), dtype=np.float32)
    for query in range(n_queries):
        for i in range(m):
            total, square, own = 0.0, 0.0, 0.0
            for j in range(width):
                x, q = np.float64(candidates[query, i, j]), np.float64(queries[query, j])
                if kind == 0:
                    total += (q - x) * (q - x)
                else:
                    total += q * x
                    if kind == 2:
                        square += x * x
                        own += q * q
            if kind == 1:
                total = -total
            elif kind == 2:
                norms = np.sqrt(square * own)
                total = 1.0 - (total / norms if norms > 0 else 0.0)
            out[query, i] = np.float32(total)
    return out
