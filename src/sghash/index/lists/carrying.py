"""Lists carried over to other rows: what stays is copied, what came goes to the nearest list.

Nothing is learned while the centroids still fit: codes do not depend on them, so a row that stays
keeps its list whatever else came or went. They no longer fit where rows have become many more or
many fewer than they were learned from, where rows lie further from their centroids than they did,
or where some lists have grown much longer than others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.index.lists.arranged import Arranged, arrange
from sghash.index.lists.centroids import Partitions
from sghash.index.rows import RowIds
from sghash.validation import Codes, Ids

if TYPE_CHECKING:
    from sghash.index.lists.partitioned import PartitionedIndex

#: Lists are learned anew for that many times the rows they were learned from, or that much fewer.
GROWTH = 4.0
#: How much further from their centroids all rows may be, on average, than those that stay.
FARTHER = 1.1
#: How much more unequal the lengths of lists may become.
UNEQUAL = 1.5
# Rows that distances are measured of, and rows that are read at a time.
_SAMPLE, _BLOCK = 2048, 1 << 15


class Carried(NamedTuple):
    """Rows and lists: `members[i]` stands in `lists[i]`; `fresh` are the rows that came."""

    members: Ids
    lists: Ids
    fresh: Ids


def carried(
    empty: PartitionedIndex,
    old: PartitionedIndex,
    before: NDArray[np.int64],
    codes: Codes,
    places: Any,
    learned_rows: int,
) -> PartitionedIndex | None:
    """An index like `empty` over these codes, in the lists of an old one; None if they do not fit.

    `before` says which row of the old index each row was, -1 where it is new; `places` are the
    vectors of all rows, read where they are needed; `learned_rows` how many the lists come from.
    """
    held, n = old.held, len(codes)
    partitions = held.partitions
    if partitions is None or not learned_rows / GROWTH <= n <= GROWTH * learned_rows:
        return None
    if empty.n_lists not in (None, partitions.n_lists):
        return None
    moved = _moved(held, partitions, before, places)
    if _drifted(held, partitions, moved, before, places):
        return None
    terms = None
    if len(held.terms):
        terms = np.empty(n, dtype=np.float32)
        known = before >= 0
        terms[known] = held.terms[held.slots_of_rows()[before[known]]]
        terms[moved.fresh] = empty.terms_of(np.ascontiguousarray(codes[moved.fresh]))
    return empty.like(arrange(codes, terms, moved.members, moved.lists, partitions, RowIds(n), n))


def _moved(
    held: Arranged, partitions: Partitions, before: NDArray[np.int64], places: Any
) -> Carried:
    known = before >= 0
    now = np.full(held.n, -1, dtype=np.int64)
    now[before[known]] = np.flatnonzero(known)
    slots, lists = held.used()
    members = now[held.ranks[slots]]
    stay, fresh = members >= 0, np.flatnonzero(~known)
    all_members, all_lists = [members[stay]], [lists[stay]]
    for start in range(0, len(fresh), _BLOCK):
        some = fresh[start : start + _BLOCK]
        rows, theirs = partitions.slots_for(np.asarray(places[some], dtype=np.float32))
        all_members.append(some[rows])
        all_lists.append(theirs)
    return Carried(np.concatenate(all_members), np.concatenate(all_lists), fresh)


def _drifted(
    held: Arranged,
    partitions: Partitions,
    moved: Carried,
    before: NDArray[np.int64],
    places: Any,
) -> bool:
    """Whether centroids that were learned from the rows before fit those of now much worse."""
    counts = np.bincount(moved.lists, minlength=partitions.n_lists)
    if _inequality(counts) > UNEQUAL * _inequality(held.counts):
        return True
    stayed = np.flatnonzero(before >= 0)
    if not len(moved.fresh) or not len(stayed):
        return not len(stayed)
    share = len(moved.fresh) / len(before)
    far, usual = (_error(partitions, rows, places) for rows in (moved.fresh, stayed))
    return share * far + (1 - share) * usual > FARTHER * usual


def _inequality(counts: Ids) -> float:
    """How many times more rows a row's own list has than the average list."""
    total = float(counts.sum())
    return float(np.square(counts, dtype=np.float64).sum()) * len(counts) / max(total, 1.0) ** 2


def _error(partitions: Partitions, rows: Ids, places: Any) -> float:
    """The mean square of the distance from some of these rows to their centroids."""
    chosen = rows[:: max(1, len(rows) // _SAMPLE)]
    vectors = partitions.prepared(np.asarray(places[chosen], dtype=np.float32))
    _, scores = partitions.lists_of(vectors)
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return float(np.maximum(squares + 2 * scores[:, 0], 0).mean())
