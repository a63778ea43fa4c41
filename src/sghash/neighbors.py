"""`Neighbors`, the answer of every search, and the one order in which answers come.

Ties are the rule in Hamming space, so the order is part of the contract: by (distance, id), for
every kernel, number of threads and number of shards. Where fewer than k rows exist, the rest of a
row is padded with id -1 and the largest distance the dtype can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.validation import Ids, check_k

PADDING_ID = -1


class Neighbors(NamedTuple):
    """`distances` (n_queries, k) int32 or float32, `ids` (n_queries, k) int64; nearest first."""

    distances: NDArray[Any]
    ids: Ids

    @property
    def keys(self) -> NDArray[np.object_] | None:
        """Keys (n_queries, k) of a collection's rows, None where a row has none; else None."""
        return None


class KeyedNeighbors(Neighbors):
    """`Neighbors` of rows that were added under keys; these are read when first asked for."""

    _read: Callable[[Ids], NDArray[np.object_]]

    @classmethod
    def of(cls, found: Neighbors, read: Callable[[Ids], NDArray[np.object_]]) -> KeyedNeighbors:
        """The same answer, with what gives the keys of an array of ids."""
        keyed = cls(*found)
        keyed._read = read
        return keyed

    @property
    def keys(self) -> NDArray[np.object_]:
        """Keys (n_queries, k) of the rows; None where a row has none, and beside id -1."""
        return self._read(self.ids)

    def __reduce__(self) -> tuple[Any, ...]:
        # Keys travel, the files behind them do not.
        return _with_keys, (*self, self.keys)


def _with_keys(distances: NDArray[Any], ids: Ids, keys: NDArray[np.object_]) -> KeyedNeighbors:
    return KeyedNeighbors.of(Neighbors(distances, ids), lambda _: keys)


class RangeNeighbors(NamedTuple):
    """All rows within a radius: those of query i stand at `limits[i]` to `limits[i + 1]` - 1."""

    limits: NDArray[np.int64]
    distances: NDArray[Any]
    ids: Ids


def padding_distance(dtype: np.dtype[Any]) -> int | float:
    """Return the distance that stands beside id -1: the largest int, or infinity."""
    return float("inf") if dtype.kind == "f" else int(np.iinfo(dtype).max)


def empty_neighbors(n_queries: int, k: int, dtype: np.dtype[Any] | type) -> Neighbors:
    """Return an answer that is padding only."""
    kind = np.dtype(dtype)
    return Neighbors(
        np.full((n_queries, k), padding_distance(kind), dtype=kind),
        np.full((n_queries, k), PADDING_ID, dtype=np.int64),
    )


def merge_neighbors(parts: Sequence[Neighbors], k: int) -> Neighbors:
    """Merge the answers of several shards to the same queries into the best k.

    Shards must hold different ids. The result is the one a single index would have given.
    """
    check_k(k)
    if not parts:
        raise InvalidInput("there is nothing to merge: give at least one Neighbors")
    if len({part.ids.shape[0] for part in parts}) != 1:
        raise InvalidInput("the parts answer different numbers of queries")
    distances = np.concatenate([part.distances for part in parts], axis=1)
    ids = np.concatenate([part.ids for part in parts], axis=1)
    # Padding sorts behind every real row, whatever its distance.
    last = np.where(ids == PADDING_ID, np.iinfo(np.int64).max, ids)
    order = np.lexsort((last, distances), axis=1)[:, :k]
    merged = empty_neighbors(len(ids), k, distances.dtype)
    width = order.shape[1]
    merged.distances[:, :width] = np.take_along_axis(distances, order, axis=1)
    merged.ids[:, :width] = np.take_along_axis(ids, order, axis=1)
    return merged
