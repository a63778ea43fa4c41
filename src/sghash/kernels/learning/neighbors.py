"""Inner loops of the search for neighbours to learn from: the best of scores, and a second look."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba.extending import register_jitable

from sghash.kernels.compiling import compiled

_fused = partial(compiled, error_model="numpy")
# A sum over columns in vectors: its order of additions is the compiler's.
_summing = partial(compiled, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "nnan"})
#: Scores that are compared with the worst of the best at once.
_STEP = 64


@register_jitable
def _insert(scores: Any, rows: Any, score: Any, row: Any) -> None:
    """Put a row into a list of the best, which is full and ordered; equals stay before it."""
    place = scores.shape[0] - 1
    while place > 0 and scores[place - 1] < score:
        scores[place], rows[place] = scores[place - 1], rows[place - 1]
        place -= 1
    scores[place], rows[place] = score, row


@register_jitable
def _take(row: Any, start: int, stop: int, candidates: Any, own: Any, best: Any, rows: Any) -> None:
    """Offer the candidates `start` to `stop` - 1 to a list of the best."""
    for j in range(start, stop):
        if row[j] > best[best.shape[0] - 1] and candidates[j] != own:
            _insert(best, rows, row[j], candidates[j])


@_fused
def best_others(scores: Any, own: Any, candidates: Any, found: Any) -> None:
    """Fill `found` (n, k) with the candidates of the highest `scores` (n, c), best first.

    Row i stands for the vector `own[i]`, which is not its own neighbour; `candidates` (c,) are
    the numbers of the columns. Where there are fewer than k, the rest of `found` is -1.
    """
    n_rows, n_candidates = scores.shape
    k, whole = found.shape[1], n_candidates // _STEP * _STEP
    best, rows = np.empty(k, dtype=np.float32), np.empty(k, dtype=np.int64)
    for i in range(n_rows):
        best[:] = -np.inf
        rows[:] = -1
        row, me = scores[i], own[i]
        for start in range(0, whole, _STEP):
            lowest, passing = best[k - 1], np.int32(0)
            for j in range(_STEP):
                passing += np.int32(row[start + j] > lowest)
            if passing:
                _take(row, start, start + _STEP, candidates, me, best, rows)
        _take(row, whole, n_candidates, candidates, me, best, rows)
        found[i] = rows


@_fused
def two_best(scores: Any, halves: Any, first: Any, second: Any) -> None:
    """Fill in the columns (n,) of the highest and second highest of `scores` (n, c) - `halves`."""
    for i in range(scores.shape[0]):
        row = scores[i]
        high, low = np.float32(-np.inf), np.float32(-np.inf)
        at, after = 0, 0
        for j in range(row.shape[0]):
            score = row[j] - halves[j]
            if score > low:
                if score > high:
                    high, low, at, after = score, high, j, at
                else:
                    low, after = score, j
        first[i], second[i] = at, after


@_summing
def join_neighborhoods(
    vectors: Any, halves: Any, neighborhoods: Any, first: int, found: Any
) -> Any:
    """Fill `found` (m, k) with the nearest among the neighbours, and theirs, of each row.

    `neighborhoods` (n, k) are what is known so far, -1 for none; the rows begin at `first`. A
    candidate's score is its product with the row less its `halves`. Returns the scores computed.
    """
    n, k = neighborhoods.shape
    best, rows = np.empty(k, dtype=np.float32), np.empty(k, dtype=np.int64)
    seen = np.full(n, -1, dtype=np.int64)
    n_scores = 0
    for at in range(found.shape[0]):
        row = first + at
        best[:] = -np.inf
        rows[:] = -1
        seen[row] = row
        for via in range(-1, k):
            middle = row if via < 0 else neighborhoods[row, via]
            if middle < 0:
                continue
            for place in range(k):
                candidate = neighborhoods[middle, place]
                if candidate < 0 or seen[candidate] == row:
                    continue
                seen[candidate] = row
                score = np.float32(0.0)
                for column in range(vectors.shape[1]):
                    score += vectors[row, column] * vectors[candidate, column]
                score -= halves[candidate]
                n_scores += 1
                if score > best[k - 1]:
                    _insert(best, rows, score, candidate)
        found[at] = rows
    return n_scores
