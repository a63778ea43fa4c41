"""Scores of real queries against a few codes each, from a linear decoder.

A code of bits h stands for the vector origin + h @ directions. What depends on query and code is
linear in h, so four bits at a time are one entry of a table of sixteen. In L2 the code adds a term
of its own, see `code_terms`.
"""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.code_terms import code_term
from sghash.kernels.compiling import announce, compiled
from sghash.kernels.pieces import cut, run
from sghash.kernels.staging import word_of
from sghash.validation import Codes, Ids, Vectors

# The bits of every value of a nibble, first bit first: (4, 16).
_NIBBLE_BITS = np.unpackbits(np.arange(16, dtype=np.uint8)[:, None], axis=1).T[4:]
_FLOAT_BITS = _NIBBLE_BITS.astype(np.float64)


def nibble_tables(slopes: NDArray[np.float64], n_bytes: int) -> Vectors:
    """Tables (n, 2 * n_bytes, 16) float32 of sums of slopes (n, n_bits) over set bits."""
    padded = np.zeros((len(slopes), 8 * n_bytes))
    padded[:, : slopes.shape[1]] = slopes
    return (padded.reshape(len(slopes), -1, 4) @ _FLOAT_BITS).astype(np.float32)


def scores(
    codes: Codes, rows: Ids, tables: Vectors, gram: Vectors | None = None, *, threads: int = 1
) -> Vectors:
    """Scores (n_queries, m) float32 of the codes in `rows` (n_queries, m), smaller is nearer.

    A negative row has an infinite score. What depends on the query alone is left out. `gram` are
    the tables of a code's own terms.
    """
    found = np.empty(rows.shape, dtype=np.float32)
    own = np.empty((0, 0, 0), dtype=np.float32) if gram is None else gram
    announce(_scores, "rescoring")

    def compute(start: int, stop: int, stopped: threading.Event) -> None:
        if not stopped.is_set():
            _scores(codes, rows[start:stop], tables[start:stop], own, found[start:stop])

    run([(compute, part) for part in cut(len(rows), threads)])
    return found


@compiled
def linear_score(
    codes: NDArray[np.uint8], row: int, tables: NDArray[np.float32], query: int
) -> np.float32:
    """The part of a score that is linear in the bits."""
    total = np.float32(0)
    for byte in range(tables.shape[1] >> 1):
        value = codes[row, byte]
        total += tables[query, 2 * byte, value >> 4] + tables[query, 2 * byte + 1, value & 15]
    return total


@compiled
def _scores(
    codes: NDArray[np.uint8],
    rows: NDArray[np.int64],
    tables: NDArray[np.float32],
    gram: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    n_words = (codes.shape[1] + 7) >> 3
    words = np.empty((rows.shape[1], n_words), dtype=np.uint64)
    held = words.view(np.uint8)
    for query in range(rows.shape[0]):
        # All codes first: the memory then serves many of them at a time.
        for i in range(rows.shape[1]):
            for word in range(n_words):
                words[i, word] = word_of(codes, max(rows[query, i], 0), word)
        for i in range(rows.shape[1]):
            score = np.float32(np.inf)
            if rows[query, i] >= 0:
                score = linear_score(held, i, tables, query)
                if gram.shape[0]:
                    score += code_term(held, i, gram)
            out[query, i] = score


@compiled
def best_places(
    scores: NDArray[np.float32], distances: NDArray[np.float64], ids: NDArray[np.int64], k: int
) -> NDArray[np.int64]:
    """Columns (n_queries, k) of the best by (score, distance, id), k at most their number."""
    n_queries, m = scores.shape
    out = np.empty((n_queries, k), dtype=np.int64)
    for query in range(n_queries):
        used = 0
        for i in range(m):
            place = used
            while place > 0:
                other = out[query, place - 1]
                if scores[query, i] > scores[query, other]:
                    break
                if scores[query, i] == scores[query, other]:
                    near, far = distances[query, i], distances[query, other]
                    if near > far or (near == far and ids[query, i] > ids[query, other]):
                        break
                place -= 1
            if place < k:
                used = min(used + 1, k)
                for j in range(used - 1, place, -1):
                    out[query, j] = out[query, j - 1]
                out[query, place] = i
    return out


def vector_distances(candidates: Vectors, queries: Vectors, kind: int) -> Vectors:
    """Distances (n_queries, m) of vectors (n_queries, m, d): kind 0 is L2, 1 is -ip, 2 cosine."""
    out = np.empty(candidates.shape[:2], dtype=np.float32)
    announce(_squares if kind == 0 else _products, "rescoring")
    if kind == 0:
        _squares(candidates, queries, out)
        return out
    lengths = np.ones_like(out)
    _products(candidates, queries, lengths, out)
    if kind == 2:
        norms = lengths * np.linalg.norm(queries, axis=1).astype(np.float32)[:, None]
        return 1 + np.divide(out, norms, out=np.zeros_like(out), where=norms > 0)
    return out


# Sums in any order, so that they are computed in vectors; the same order at every call.
_summing = partial(compiled, fastmath=True)


@_summing
def _squares(
    candidates: NDArray[np.float32], queries: NDArray[np.float32], out: NDArray[np.float32]
) -> None:
    for query in range(candidates.shape[0]):
        for i in range(candidates.shape[1]):
            total = np.float32(0)
            for j in range(candidates.shape[2]):
                difference = queries[query, j] - candidates[query, i, j]
                total += difference * difference
            out[query, i] = total


@_summing
def _products(
    candidates: NDArray[np.float32],
    queries: NDArray[np.float32],
    lengths: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Negative inner products, and the lengths of the candidates."""
    for query in range(candidates.shape[0]):
        for i in range(candidates.shape[1]):
            total, square = np.float32(0), np.float32(0)
            for j in range(candidates.shape[2]):
                x = candidates[query, i, j]
                total += queries[query, j] * x
                square += x * x
            out[query, i] = -total
            lengths[query, i] = np.sqrt(square)
