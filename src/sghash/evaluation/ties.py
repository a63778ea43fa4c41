"""How many rows share the distance at which a retrieved list ends: what expected recall needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.neighbors import PADDING_ID, Neighbors
from sghash.validation import Codes

_BLOCK = 1 << 16


class Boundary(NamedTuple):
    """For each query: the distance of the n-th retrieved row, rows nearer, and rows just as far."""

    distance: NDArray[np.int64]
    n_nearer: NDArray[np.int64]
    n_tied: NDArray[np.int64]


def boundary_of(retrieved: Neighbors, codes: Codes, query_codes: Codes, n: int) -> Boundary:
    """Count the ties at rank `n` of `retrieved`, the nearest `codes` of each query."""
    distances = retrieved.distances.astype(np.int64)
    limit = distances[:, n - 1]
    nearer = (distances[:, :n] < limit[:, None]).sum(axis=1)
    tied = (distances == limit[:, None]).sum(axis=1)
    # Where the list ends inside the tie, the rest of it is counted over all codes.
    open_ended = np.flatnonzero(distances[:, -1] == limit)
    words, query_words = _words(codes), _words(query_codes)
    for query in open_ended:
        tied[query] = _count_at(words, query_words[:, query], int(limit[query]))
    return Boundary(limit, nearer, tied)


def true_code_distances(
    ground_truth: Neighbors, codes: Codes, query_codes: Codes
) -> NDArray[np.int64]:
    """Code distances (m, columns) between each query and its true neighbours; -1 at padding."""
    ids = ground_truth.ids
    differing = codes[np.maximum(ids, 0)] ^ query_codes[:, None, :]
    distances = np.bitwise_count(differing).sum(axis=2, dtype=np.int64)
    return np.where(ids == PADDING_ID, -1, distances)


def _words(codes: Codes) -> NDArray[np.uint64]:
    """The same bits in 64-bit words, filled up with zeros, as (words, n): scans run straight."""
    n, width = codes.shape
    padded = np.zeros((n, -(-width // 8) * 8), dtype=np.uint8)
    padded[:, :width] = codes
    return np.ascontiguousarray(padded.view(np.uint64).T)


def _count_at(words: NDArray[np.uint64], query: NDArray[np.uint64], distance: int) -> int:
    """How many columns of `words` differ from `query` in exactly `distance` bits."""
    # Distances of up to three words fit one byte, and then four times as many go through at once.
    kind = np.uint8 if len(words) <= 3 else np.uint16
    n, found = words.shape[1], 0
    for first in range(0, n, _BLOCK):
        part = slice(first, first + _BLOCK)
        total = np.bitwise_count(words[0, part] ^ query[0]).astype(kind, copy=False)
        for word in range(1, len(words)):
            total += np.bitwise_count(words[word, part] ^ query[word])
        found += int(np.count_nonzero(total == distance))
    return found
