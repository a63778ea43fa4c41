"""Which list a row belongs to: centroids of vectors, or of codes where there are no vectors.

k-means runs on a random sample, never on the first rows: sorted data would spoil it. Centroids are
kept as float16. From some hundred lists on, centroids are put into groups of their own, so that a
query need not be compared with all of them.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.validation import Codes, Ids, Vectors, n_bytes_of

MAX_LISTS = 1 << 16
#: Rows of the sample per list, and iterations of k-means on them.
SAMPLE, ITERATIONS = 64, 10
#: From so many lists on, centroids are put into groups.
GROUPED_FROM = 1 << 9
#: Up to so many lists are learned at once, and compared with every row; more are learned group by
#: group, and a row is compared with those of the groups that are nearest to it.
FLAT_LISTS = 1 << 12
NEAR_GROUPS = 4
_BLOCK, _GROUPED_BLOCK = 1 << 12, 1 << 16
_NO_WORDS = np.empty((0, 1), dtype=np.uint64)


class Partitions(NamedTuple):
    """Centroids, as the kernels want them.

    `centroids` are numbers (n_lists, d) float16, in the order of their groups, or bits (n_lists,
    n_bytes) uint8. Rows whose two nearest lists score less than `spill_gap` apart go to both.
    """

    centroids: NDArray[Any]
    metric: str
    group_starts: Ids
    group_centroids: NDArray[np.float16]
    spill_gap: float = -1.0

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.centroids)

    @property
    def by_code(self) -> bool:
        """Whether lists are known by codes alone."""
        return self.centroids.dtype == np.uint8

    @property
    def width(self) -> int:
        """Columns of the vectors that lists are known by; 0 where it is codes."""
        return 0 if self.by_code else self.centroids.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all centroids."""
        return self.centroids.nbytes + self.group_starts.nbytes + self.group_centroids.nbytes

    def prepared(self, vectors: Vectors) -> Vectors:
        """Vectors as they are compared with centroids."""
        if self.metric != "cosine":
            return vectors
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
        return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)

    def lists_of(self, rows: NDArray[Any], n: int = 1) -> tuple[Ids, Vectors]:
        """The nearest `n` lists (1 or 2) of vectors or codes, and their scores, nearest first."""
        if self.by_code:
            from sghash.kernels import hamming_neighbors

            found = hamming_neighbors(
                self.centroids, rows, min(n, self.n_lists), n_bits=8 * rows.shape[1], threads=1
            )
            return found.ids, found.distances.astype(np.float32)
        wide = self.centroids.astype(np.float32)
        squares = np.einsum("ij,ij->i", wide, wide) / 2
        n = min(n, self.n_lists)
        lists, scores = np.empty((len(rows), n), np.int64), np.empty((len(rows), n), np.float32)
        for start in range(0, len(rows), _BLOCK):
            block = self.prepared(np.asarray(rows[start : start + _BLOCK], dtype=np.float32))
            some = squares - block @ wide.T
            here = slice(start, start + len(block))
            nearest = some.argmin(axis=1)
            every = np.arange(len(block))
            lists[here, 0], scores[here, 0] = nearest, some[every, nearest]
            if n == 2:
                some[every, nearest] = np.inf
                second = some.argmin(axis=1)
                lists[here, 1], scores[here, 1] = second, some[every, second]
        return lists, scores

    def lists_near(self, rows: NDArray[Any], n: int = 1) -> tuple[Ids, Vectors]:
        """The same, but of very many lists only those of the nearest groups are looked at.

        Some rows in a hundred then go to a list that is a little farther; what a search finds in
        lists is measured afterwards.
        """
        if self.n_lists <= FLAT_LISTS or not len(self.group_centroids):
            return self.lists_of(rows, n)
        from sghash.kernels.partitions.placing import by_nearest_groups, keep_nearest

        wide, groups = (a.astype(np.float32) for a in (self.centroids, self.group_centroids))
        squares, group_squares = (np.einsum("ij,ij->i", a, a) / 2 for a in (wide, groups))
        n_near = min(NEAR_GROUPS, len(groups))
        lists = np.zeros((len(rows), n), dtype=np.int64)
        scores = np.full((len(rows), n), np.inf, dtype=np.float32)
        starts = np.empty(len(groups) + 1, dtype=np.int64)
        for start in range(0, len(rows), _GROUPED_BLOCK):
            here = slice(start, start + _GROUPED_BLOCK)
            block = self.prepared(np.asarray(rows[here], dtype=np.float32))
            members = np.empty(len(block) * n_near, dtype=np.int64)
            by_nearest_groups(group_squares - block @ groups.T, n_near, members, starts)
            for group, (first, last) in enumerate(pairwise(starts)):
                own, some = slice(*self.group_starts[group : group + 2]), members[first:last]
                products = block[some] @ wide[own].T
                keep_nearest(products, squares[own], some, own.start, lists[here], scores[here])
        return lists, scores

    def slots_for(self, rows: NDArray[Any]) -> tuple[Ids, Ids]:
        """Rows and lists: each row with its list, those between two lists a second time."""
        n = 2 if self.spill_gap >= 0 and self.n_lists > 1 else 1
        lists, scores = self.lists_near(rows, n)
        everyone = np.arange(len(rows))
        if n == 1:
            return everyone, lists[:, 0]
        both = np.flatnonzero(scores[:, 1] - scores[:, 0] < self.spill_gap)
        return np.concatenate([everyone, both]), np.concatenate([lists[:, 0], lists[both, 1]])


def default_lists(n: int) -> int:
    """About twice the square root of the number of rows."""
    return max(1, min(MAX_LISTS, round(2 * math.sqrt(n)), n // 32))


def check_lists(n_lists: int, n: int) -> None:
    """Refuse more lists than rows to learn them from."""
    if not 1 <= n_lists <= MAX_LISTS:
        raise InvalidInput(f"n_lists must lie between 1 and {MAX_LISTS}, got {n_lists}")
    if n_lists > n:
        raise InvalidInput(
            f"{n_lists} lists cannot be learned from {n} rows: give more rows or fewer lists"
        )


def check_places(partitions: Partitions, places: NDArray[Any], by_vectors: bool) -> None:
    """Refuse rows that the lists cannot tell apart."""
    if partitions.by_code == by_vectors:
        kind = "codes" if partitions.by_code else "vectors"
        remedy = "leave vectors out" if partitions.by_code else "give vectors with the codes"
        raise InvalidInput(f"the lists are those of {kind}: {remedy}")
    if by_vectors and places.shape[1] != partitions.width:
        raise InvalidInput(
            f"vectors have {places.shape[1]} columns, the lists {partitions.width}: use vectors "
            "of the same kind"
        )


def learn(
    places: NDArray[Any],
    n_lists: int | None,
    *,
    n_bits: int,
    metric: str,
    spill: float,
    random_state: int,
) -> Partitions:
    """Lists of vectors, or of codes of so many bits; `n_lists` None: as many as rows need."""
    rng = np.random.default_rng(random_state)
    n_lists = n_lists or default_lists(len(places))
    if places.dtype == np.uint8:
        return learn_code_partitions(places, n_lists, n_bits, spill=spill, rng=rng)
    return learn_partitions(places, n_lists, metric=metric, spill=spill, rng=rng)


def learn_partitions(
    vectors: Vectors, n_lists: int, *, metric: str, spill: float, rng: Generator
) -> Partitions:
    """Lists of vectors (n, d): k-means on a random sample."""
    check_lists(n_lists, len(vectors))
    n_sample = min(len(vectors), SAMPLE * n_lists)
    chosen = np.sort(rng.choice(len(vectors), n_sample, replace=False))
    empty = Partitions(np.empty((0, vectors.shape[1]), np.float16), metric, *_no_groups(vectors))
    sample = empty.prepared(np.ascontiguousarray(vectors[chosen], dtype=np.float32))
    if not np.abs(sample).max(initial=0) < 6e4:
        raise InvalidInput(
            "vectors hold numbers beyond 60000, which centroids of float16 cannot: rescale them"
        )
    if n_lists > FLAT_LISTS:
        centroids = _nested_means(sample, n_lists, rng)
    else:
        centroids = _means(sample, n_lists, ITERATIONS, rng)
    groups, starts = empty.group_centroids, empty.group_starts
    if n_lists >= GROUPED_FROM:
        groups, starts, order = _grouped(centroids, rng)
        centroids = centroids[order]
    found = Partitions(centroids.astype(np.float16), metric, starts, groups)
    if spill > 0 and n_lists > 1:
        _, scores = found.lists_of(sample[: 1 << 14], 2)
        found = found._replace(spill_gap=float(np.quantile(scores[:, 1] - scores[:, 0], spill)))
    return found


def learn_code_partitions(
    codes: Codes, n_lists: int, n_bits: int, *, spill: float, rng: Generator
) -> Partitions:
    """Lists of codes: the bits that most codes of a list have, on a random sample."""
    check_lists(n_lists, len(codes))
    n_sample = min(len(codes), SAMPLE * n_lists)
    sample = codes[np.sort(rng.choice(len(codes), n_sample, replace=False))]
    centroids = sample[rng.choice(len(sample), n_lists, replace=False)]
    bits = np.unpackbits(sample, axis=1)[:, : 8 * n_bytes_of(n_bits)]
    partitions = Partitions(centroids, "hamming", *_no_groups(np.empty((0, 0))))
    for _ in range(ITERATIONS // 2):
        lists = partitions.lists_of(sample)[0][:, 0]
        sizes = np.bincount(lists, minlength=n_lists)
        sums = np.zeros((n_lists, bits.shape[1]), dtype=np.int64)
        np.add.at(sums, lists, bits)
        majority = np.packbits(2 * sums > sizes[:, None], axis=1)
        majority[sizes == 0] = sample[rng.choice(len(sample), int((sizes == 0).sum()))]
        partitions = partitions._replace(centroids=majority)
    if spill > 0 and n_lists > 1:
        _, scores = partitions.lists_of(sample[: 1 << 14], 2)
        gap = float(np.quantile(scores[:, 1] - scores[:, 0], spill))
        partitions = partitions._replace(spill_gap=gap)
    return partitions


def _no_groups(vectors: NDArray[Any]) -> tuple[Ids, NDArray[np.float16]]:
    return np.zeros(1, dtype=np.int64), np.empty((0, vectors.shape[1]), dtype=np.float16)


def _means(rows: Vectors, k: int, n_iterations: int, rng: Generator) -> Vectors:
    """k-means by Lloyd's iterations; an empty cluster takes the place of a random row."""
    from sghash.kernels.learning.clusters import add_to_clusters

    centroids = rows[np.sort(rng.choice(len(rows), k, replace=False))].copy()
    for _ in range(n_iterations):
        sizes, sums = np.zeros(k), np.zeros((k, rows.shape[1]))
        squares = np.einsum("ij,ij->i", centroids, centroids) / 2
        turned = np.ascontiguousarray(centroids.T)
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            add_to_clusters(squares - block @ turned, block, sizes, sums)
        used = sizes > 0
        centroids[used] = sums[used] / sizes[used, None]
        n_empty = int(np.count_nonzero(~used))
        centroids[~used] = rows[rng.choice(len(rows), n_empty)]
    return centroids


def _nested_means(rows: Vectors, k: int, rng: Generator) -> Vectors:
    """k-means group by group, each with its share of the centroids: for very many of them."""
    n_groups = int(np.sqrt(k))
    groups = _means(rows, n_groups, ITERATIONS, rng).astype(np.float16)
    owner = Partitions(groups, "l2", *_no_groups(rows)).lists_of(rows)[0][:, 0]
    sizes = np.bincount(owner, minlength=n_groups)
    shares = np.minimum(np.maximum(sizes * k // len(rows), sizes > 0), sizes)
    # What rounding left over goes to the largest groups.
    for group in np.argsort(-sizes, kind="stable"):
        room = min(sizes[group] - shares[group], k - shares.sum())
        shares[group] += max(0, room)
    parts = [
        _means(rows[owner == group], int(shares[group]), ITERATIONS, rng)
        for group in np.flatnonzero(shares)
    ]
    return np.concatenate(parts)[:k]


def _grouped(
    centroids: Vectors, rng: Generator
) -> tuple[NDArray[np.float16], Ids, NDArray[np.int64]]:
    """Centroids of groups of centroids, where each begins, and the order that puts them so."""
    n_groups = round(np.sqrt(len(centroids)))
    groups = _means(centroids, n_groups, ITERATIONS, rng).astype(np.float16)
    owner = Partitions(groups, "l2", *_no_groups(centroids)).lists_of(centroids)[0][:, 0]
    order = np.argsort(owner, kind="stable")
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(owner, minlength=n_groups), out=starts[1:])
    return groups, starts, order
