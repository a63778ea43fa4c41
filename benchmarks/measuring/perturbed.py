"""A stream of perturbed descriptors as compiled loops: rows, and their exact nearest to queries.

Row r is always the same, whoever makes it: a base row drawn at random, each bin x with Gaussian
noise of standard deviation 2 * sqrt(x + 1), rounded and cut to 0..255. What is drawn depends on the
seed and on r alone, so that threads may take any rows.
"""

from __future__ import annotations

import numba
import numpy as np
from scipy.special import ndtri

SCALE = 2.0
K = 10
N_AXES, MARGIN = 46, np.float32(64)
_PART_ROWS = 512
#: Normal numbers at equal steps of probability: 16 random bits choose one.
NORMAL = ndtri((np.arange(65536) + 0.5) / 65536).astype(np.float32)
DEVIATIONS = (SCALE * np.sqrt(np.arange(256) + 1)).astype(np.float32)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@numba.njit(inline="always")
def _mixed(x):
    x = (x ^ (x >> np.uint64(30))) * _ONE
    x = (x ^ (x >> np.uint64(27))) * _TWO
    return x ^ (x >> np.uint64(31))


@numba.njit(nogil=True, cache=True)
def perturb(base, normal, deviations, seed, first, rows):
    """Fill `rows` (n, d) float32 with rows `first` on."""
    n, width = rows.shape
    for i in range(n):
        state = _mixed(np.uint64(seed) * _TWO + np.uint64(first + i) * _GOLDEN)
        b = np.int64(((state >> np.uint64(32)) * np.uint64(len(base))) >> np.uint64(32))
        for start in range(0, width, 4):
            state += _GOLDEN
            bits = _mixed(state)
            for j in range(start, min(start + 4, width)):
                value = base[b, j]
                noise = normal[bits & np.uint64(0xFFFF)] * deviations[value]
                bits >>= np.uint64(16)
                inside = min(np.float32(255), max(np.float32(0), value + noise))
                # Rounded without a call: what is cut off is positive.
                there = np.float32(np.int32(inside + np.float32(0.5)))
                rows[i, j] = there


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"}, inline="always")
def _distance(row, query, limit):
    """Squared distance of whole numbers, exact in float32; some number above `limit` if beyond."""
    total = np.float32(0)
    for start in range(0, len(row), 32):
        part = np.float32(0)
        for j in range(start, min(start + 32, len(row))):
            part += (row[j] - query[j]) * (row[j] - query[j])
        total += part
        if total > limit:
            break
    return total


@numba.njit(nogil=True, cache=True, inline="always")
def _n_within(bounds, limits):
    n = np.int32(0)  # counted, not asked one by one: that is what vectors are good at
    for q in range(len(limits)):
        n += np.int32(bounds[q] <= limits[q])
    return n


@numba.njit(nogil=True, cache=True)
def keep_nearest(rows, first, bounds, queries, distances, ids):
    """Keep the `K` nearest rows of each query by (distance, id), as squares.

    `bounds` (n, n_queries) are no more than the squared distances: most rows need no others.
    """
    limits = distances[:, K - 1].copy()
    for i in range(len(rows)):
        for start in range(0, len(queries), 64):
            stop = min(start + 64, len(queries))
            if not _n_within(bounds[i, start:stop], limits[start:stop]):
                continue
            for q in range(start, stop):
                if bounds[i, q] > limits[q]:
                    continue
                there = _distance(rows[i], queries[q], limits[q])
                at = K - 1
                if there > limits[q] or (there == limits[q] and first + i > ids[q, at]):
                    continue
                while at > 0 and (
                    there < distances[q, at - 1]
                    or (there == distances[q, at - 1] and first + i < ids[q, at - 1])
                ):
                    distances[q, at], ids[q, at] = distances[q, at - 1], ids[q, at - 1]
                    at -= 1
                distances[q, at], ids[q, at] = there, first + i
                limits[q] = distances[q, K - 1]


class Truth:
    """The nearest rows of all queries so far; one for each thread, put together by `joined`."""

    def __init__(self, base: np.ndarray, queries: np.ndarray) -> None:
        sample = base[:: max(1, len(base) // 20_000)].astype(np.float64)
        _, axes = np.linalg.eigh(np.cov(sample.T))
        # Distances along some directions are bounds from below; these tell rows apart best.
        self.axes = np.ascontiguousarray(axes[:, -N_AXES:], dtype=np.float32)
        seen = queries @ self.axes
        # Sums in float32 may be a little too large.
        norms = (seen**2).sum(axis=1, keepdims=True) - MARGIN
        self.queries = queries
        self.parts = np.ascontiguousarray(np.hstack([-2 * seen, np.ones_like(norms), norms]).T)
        self.distances = np.full((len(queries), K), np.inf, dtype=np.float32)
        self.ids = np.full((len(queries), K), np.iinfo(np.int64).max)

    def add(self, rows: np.ndarray, first: int) -> None:
        """Look at some more rows, whose numbers count from `first`."""
        seen = rows @ self.axes
        # The squares become part of the product: one pass over memory instead of three.
        seen = np.hstack([seen, (seen**2).sum(axis=1, keepdims=True), np.ones_like(seen[:, :1])])
        for start in range(0, len(rows), _PART_ROWS):  # what stays in the cache
            part = slice(start, start + _PART_ROWS)
            bounds = seen[part] @ self.parts
            keep_nearest(rows[part], first + start, bounds, self.queries, self.distances, self.ids)

    def take(self, other: Truth) -> None:
        """See what another one has found."""
        distances = np.concatenate([self.distances, other.distances], axis=1)
        ids = np.concatenate([self.ids, other.ids], axis=1)
        # Both may have the same row, by way of what they had in common before.
        order = np.lexsort((ids, distances), axis=1)
        for q in range(len(ids)):
            _, firsts = np.unique(ids[q, order[q]], return_index=True)
            chosen = order[q][np.sort(firsts)][:K]
            self.distances[q], self.ids[q] = distances[q, chosen], ids[q, chosen]
