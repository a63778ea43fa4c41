"""Scores of real queries against a few codes each, from a linear decoder.

A code of bits h stands for the vector origin + h @ directions. What depends on query and code is
linear in h, so four bits at a time are one entry of a table of sixteen. In L2 the code adds a term
of its own, see `code_terms`.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.kernels.checks import FLOAT32, UINT8, check_array, check_gram, check_rows, check_tables
from sghash.kernels.compiling import announce, compiled
from sghash.kernels.hamming.staging import word_of
from sghash.kernels.sorting import sort_pairs
from sghash.kernels.tables.terms import code_term
from sghash.kernels.threads import cut, run
from sghash.validation import Codes, Ids, Vectors

# Up to so many are kept sorted while they are found; more are sorted in the end.
INSERT_BELOW = 32
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
    check_array(codes, UINT8, 2, "codes")
    check_rows(rows, len(codes), len(tables))
    check_tables(tables, len(rows), codes.shape[1])
    if gram is not None:
        check_gram(gram, codes.shape[1])
    if not len(codes):
        return np.full(rows.shape, np.inf, dtype=np.float32)
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


def best_places(scores: Vectors, k: int) -> Ids:
    """Columns (n_queries, k) of the least scores, those that tie in their order; k <= columns.

    A score that is not a number counts as infinite.
    """
    check_array(scores, FLOAT32, 2, "scores")
    if not 0 <= k <= scores.shape[1]:
        raise InvalidInput(f"cannot take the best {k} of {scores.shape[1]} scores: ask for fewer")
    lost = np.isnan(scores)
    if lost.any():
        # Not below anything and not above: compiled code would leave its place in the order empty.
        scores = np.where(lost, np.float32(np.inf), scores)
    out = np.empty((len(scores), k), dtype=np.int64)
    fill = _insert_best if k <= INSERT_BELOW else _select_best
    announce(fill, "rescoring")
    fill(scores, out)
    return out


@compiled
def _insert_best(scores: NDArray[np.float32], out: NDArray[np.int64]) -> None:
    k = out.shape[1]
    for query in range(scores.shape[0]):
        used = 0
        for i in range(scores.shape[1]):
            place = used
            while place > 0 and scores[query, i] < scores[query, out[query, place - 1]]:
                place -= 1
            if place < k:
                used = min(used + 1, k)
                for j in range(used - 1, place, -1):
                    out[query, j] = out[query, j - 1]
                out[query, place] = i


@compiled
def _select_best(scores: NDArray[np.float32], out: NDArray[np.int64]) -> None:
    k = out.shape[1]
    columns, found = np.empty(k, dtype=np.int64), np.empty(k, dtype=np.float32)
    for query in range(scores.shape[0]):
        last = kth_smallest(scores[query].copy(), k)
        ties = k
        for i in range(scores.shape[1]):
            ties -= scores[query, i] < last
        used = 0
        for i in range(scores.shape[1]):
            score = scores[query, i]
            if score < last or (score == last and ties > 0):
                ties -= score == last
                columns[used], found[used] = i, score
                used += 1
        sort_pairs(found, columns)
        out[query] = columns


@compiled
def kth_smallest(values: NDArray[np.float32], k: int) -> np.float32:
    """The k-th smallest value; disturbs the order of `values`."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]
