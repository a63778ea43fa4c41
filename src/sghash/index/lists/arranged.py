"""What a partitioned index holds at one moment: codes list by list, in the kernels' own blocks.

A slot holds one code: slot s is code s % 64 of block s // 64, and a list has some blocks that lie
one after the other, the last of them with room to spare. `ranks` says which row a slot is of, rows
being numbered in rising order of ids as in every index; a row that was put into two lists has two
slots. Later moments write where no earlier one looks: behind a list's last code.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.index.lists.centroids import Partitions
from sghash.index.rows import RowIds, row_ids
from sghash.validation import Codes, Ids, Vectors, available_cores

ROWS = 64
#: Slots name their rows by 32 bits.
MOST_ROWS = 2**32 - 1
# How much room a list that grew has to spare, and the blocks of all of them.
_SPARE = 0.125
# Rows that are laid out at a time, and numbers of vectors that all threads hold meanwhile.
_PIECE, _NUMBERS = 1 << 18, 1 << 26


@dataclass(frozen=True, eq=False)
class Arranged:
    """Blocks (n_blocks, n_planes, 64), ranks (64 n_blocks,), terms, and where lists begin."""

    blocks: NDArray[np.uint8]
    ranks: NDArray[np.uint32]
    terms: Vectors
    starts: Ids
    counts: Ids
    capacities: Ids
    n_blocks_used: int
    n_bytes: int
    row_ids: RowIds
    next_id: int
    least_term: float = 0.0
    term_step: float = 0.0
    partitions: Partitions | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.row_ids.n

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        lists = self.starts.nbytes + self.counts.nbytes
        rows = self.blocks.nbytes + self.ranks.nbytes + self.terms.nbytes
        return rows + lists + self.row_ids.nbytes

    @property
    def codes(self) -> Codes:
        """A copy of all codes, in the order of rows."""
        return self.codes_at(np.arange(self.n))

    def codes_at(self, rows: NDArray[np.int64]) -> Codes:
        """Codes of these rows."""
        from sghash.kernels.partitions.layout import take_rows

        out = np.empty((len(rows), self.n_bytes), dtype=np.uint8)
        if len(rows):
            take_rows(self.blocks, self.slots_of_rows()[rows], out)
        return out

    def rows_of(self, ids: Ids) -> NDArray[np.int64]:
        """Rows of ids that are here."""
        rows = self.row_ids.find(ids)
        if np.any(rows < 0):
            raise InvalidInput(f"id {ids[rows < 0][0]} is not in the index")
        return rows

    def used(self) -> tuple[Ids, Ids]:
        """Every slot in use, list by list, and its list."""
        from sghash.kernels.partitions.layout import used_slots

        total = int(self.counts.sum())
        slots, lists = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
        used_slots(self.starts, self.counts, slots, lists)
        return slots, lists

    def slots_of_rows(self) -> Ids:
        """A slot of each row."""
        slots, _ = self.used()
        found = np.empty(self.n, dtype=np.int64)
        found[self.ranks[slots]] = slots
        return found

    def alone(self) -> Arranged:
        """The same in memory of its own: who continues it shares nothing with others."""
        return replace(
            self, blocks=self.blocks.copy(), ranks=self.ranks.copy(), terms=self.terms.copy(),
            counts=self.counts.copy(),
        )  # fmt: skip


def empty_arranged(
    partitions: Partitions | None, n_planes: int, n_bytes: int, next_id: int = 0
) -> Arranged:
    """No rows in the lists there are."""
    n_lists = 0 if partitions is None else partitions.n_lists
    nothing = np.zeros(n_lists, dtype=np.int64)
    return Arranged(
        np.empty((0, n_planes, ROWS), np.uint8), np.empty(0, np.uint32), np.empty(0, np.float32),
        nothing, nothing.copy(), nothing.copy(), 0, n_bytes, RowIds(0), next_id,
        partitions=partitions,
    )  # fmt: skip


def check_n_rows(n: int) -> None:
    """Refuse more rows than slots can name."""
    if n > MOST_ROWS:
        raise InvalidInput(
            f"lists hold up to {MOST_ROWS:,} rows, these are {n:,}: split them over shards "
            "(docs/scale.md)"
        )


def arrange(
    codes: Codes,
    terms: Vectors | None,
    members: Ids,
    lists: Ids,
    partitions: Partitions | None,
    ids: RowIds,
    next_id: int,
    *,
    spare: float = 0.0,
) -> Arranged:
    """Lay codes (n, n_bytes), in the order of `ids`, out by lists: row `members[i]` in `lists[i]`.

    `terms` (n,) are what codes add to scores by themselves; the scan has a byte for each.
    """
    from sghash.kernels.partitions.layout import free_slots, put_rows

    check_n_rows(len(codes))
    n_lists = 0 if partitions is None else partitions.n_lists
    order = np.lexsort((members, lists))
    members, lists = members[order], lists[order]
    sizes = np.bincount(lists, minlength=n_lists)
    capacities = -(-np.ceil(sizes * (1 + spare)).astype(np.int64) // ROWS)
    starts = np.zeros(n_lists, dtype=np.int64)
    if n_lists:
        np.cumsum(capacities[:-1], out=starts[1:])
    used = int(capacities.sum())
    total = used + (int(used * spare) + 8 if spare else 0)
    n_planes = codes.shape[1] + (terms is not None)
    counts, slots = np.zeros(n_lists, dtype=np.int64), np.empty(len(members), dtype=np.int64)
    free_slots(lists, starts, counts, slots)
    blocks = np.zeros((total, n_planes, ROWS), dtype=np.uint8)
    put_rows(np.ascontiguousarray(codes[members]), slots, blocks, 0)
    ranks = np.zeros(total * ROWS, dtype=np.uint32)
    ranks[slots] = members
    own = np.zeros(total * ROWS if terms is not None else 0, dtype=np.float32)
    least = step = 0.0
    if terms is not None and len(terms):
        own[slots] = terms[members]
        least = float(terms.min())
        step = (float(terms.max()) - least) / 255
        put_rows(levels_of(terms[members], least, step), slots, blocks, codes.shape[1])
    return Arranged(
        blocks, ranks, own, starts, counts, capacities, used, codes.shape[1], ids, next_id,
        least, step, partitions,
    )  # fmt: skip


def arrange_all(
    codes: Codes,
    terms: Vectors | None,
    places: Any,
    partitions: Partitions,
    ids: RowIds,
    next_id: int,
) -> Arranged:
    """Lay all codes out by the lists that their places, vectors or codes, belong to.

    Rows pass through memory in pieces, twice: to be counted, and to be put where they belong. What
    is kept of all rows in between is the number of a list, in two bytes.
    """
    from sghash.kernels.partitions.layout import free_slots, put_rows
    from sghash.kernels.threads import cut, run

    n_lists = partitions.n_lists
    threads = available_cores()
    n_rows = max(1, min(_PIECE, _NUMBERS // (threads * places.shape[1])))
    starts = range(0, len(codes), n_rows)
    pieces: dict[int, tuple[Ids | None, NDArray[np.uint16]]] = {}

    def place(first: int, last: int, stopped: threading.Event) -> None:
        for piece in range(first, last):
            if stopped.is_set():
                return
            start = starts[piece]
            members, lists = partitions.slots_for(places[start : start + n_rows])
            twice = len(members) > min(n_rows, len(codes) - start)  # some rows stand in two lists
            if twice:
                order = np.argsort(members, kind="stable")
                members, lists = members[order], lists[order]
            pieces[start] = members if twice else None, lists.astype(np.uint16)

    run([(place, part) for part in cut(len(starts), threads)], single_blas=True)
    counts = np.zeros(n_lists, dtype=np.int64)
    for _, numbers in pieces.values():
        counts += np.bincount(numbers, minlength=n_lists)
    held = _room_for(codes, terms, counts, partitions, ids, next_id)
    filled = np.zeros(n_lists, dtype=np.int64)
    for start in starts:
        some, numbers = pieces.pop(start)
        rows = start + (np.arange(len(numbers)) if some is None else some)
        slots = np.empty(len(rows), dtype=np.int64)
        free_slots(numbers.astype(np.int64), held.starts, filled, slots)
        held.ranks[slots] = rows
        put_rows(np.ascontiguousarray(codes[rows]), slots, held.blocks, 0)
        if terms is not None:
            held.terms[slots] = terms[rows]
            levels = levels_of(terms[rows], held.least_term, held.term_step)
            put_rows(levels, slots, held.blocks, codes.shape[1])
    return held


def _room_for(
    codes: Codes,
    terms: Vectors | None,
    counts: Ids,
    partitions: Partitions,
    ids: RowIds,
    next_id: int,
) -> Arranged:
    """Lists of these lengths, one behind the other, to be filled."""
    check_n_rows(len(codes))
    capacities = -(-counts // ROWS)
    total, n_planes = int(capacities.sum()), codes.shape[1] + (terms is not None)
    least = step = 0.0
    if terms is not None and len(terms):
        least = float(terms.min())
        step = (float(terms.max()) - least) / 255
    return Arranged(
        np.zeros((total, n_planes, ROWS), np.uint8), np.zeros(total * ROWS, np.uint32),
        np.zeros(total * ROWS if terms is not None else 0, np.float32),
        np.cumsum(capacities) - capacities, counts, capacities, total, codes.shape[1], ids,
        next_id, least, step, partitions,
    )  # fmt: skip


def levels_of(terms: Vectors, least: float, step: float) -> NDArray[np.uint8]:
    """A byte (n, 1) for each term, rounded down, and a little more: rounding never lifts one."""
    shares = (terms.astype(np.float64) - least) / step - 1e-3 if step else np.zeros(len(terms))
    return np.clip(np.floor(shares), 0, 255).astype(np.uint8)[:, None]


def merged_ids(old: Arranged, ids: Ids) -> tuple[RowIds, NDArray[np.int64], NDArray[np.int64]]:
    """Ids after adding these, and the new rows of what was there and of what is added."""
    order = np.argsort(ids, kind="stable")
    rising = ids[order]
    twice = rising[1:][rising[1:] == rising[:-1]]
    if len(twice):
        raise InvalidInput(f"id {twice[0]} is given twice: every code needs an id of its own")
    known = old.row_ids.find(ids) >= 0
    if known.any():
        raise InvalidInput(
            f"id {ids[known][0]} is in the index already: delete it first or choose another"
        )
    before = old.row_ids.at(slice(None))
    everyone = np.concatenate([before, ids])
    places = np.argsort(everyone, kind="stable")
    new_rows = np.empty(len(everyone), dtype=np.int64)
    new_rows[places] = np.arange(len(everyone))
    return row_ids(everyone[places]), new_rows[: len(before)], new_rows[len(before) :]


def with_rows(
    old: Arranged, codes: Codes, terms: Vectors | None, members: Ids, lists: Ids, ids: Ids
) -> Arranged:
    """The next moment, with rows added: row `members[i]` of `codes` goes to `lists[i]`.

    Rows behind all others are written into the room that their lists have, or to the end where a
    list has none; otherwise, and where no room is left, all is laid out anew.
    """
    check_n_rows(old.n + len(codes))
    numbers, old_rows, new_rows = merged_ids(old, ids)
    next_id = max(old.next_id, int(ids.max()) + 1)
    appended = old.n and int(new_rows.min()) == old.n
    if appended:
        grown = _appended(old, codes, terms, members, lists, new_rows, numbers, next_id)
        if grown is not None:
            return grown
    slots, old_lists = old.used()
    every = np.empty((numbers.n, codes.shape[1]), dtype=np.uint8)
    every[old_rows], every[new_rows] = old.codes, codes
    own = None
    if terms is not None:
        own = np.empty(numbers.n, dtype=np.float32)
        own[old_rows], own[new_rows] = old.terms[old.slots_of_rows()], terms
    return arrange(
        every, own,
        np.concatenate([old_rows[old.ranks[slots]], new_rows[members]]),
        np.concatenate([old_lists, lists]),
        old.partitions, numbers, next_id, spare=_SPARE if old.n else 0.0,
    )  # fmt: skip


def _appended(
    old: Arranged, codes: Codes, terms: Vectors | None, members: Ids, lists: Ids, new_rows: Ids,
    numbers: RowIds, next_id: int,
) -> Arranged | None:  # fmt: skip
    """The same in the room there is; None where there is not enough."""
    from sghash.kernels.partitions.layout import free_slots, put_rows

    if not old.blocks.flags.writeable:
        return None
    if terms is not None:
        most = old.least_term + 255 * old.term_step
        if terms.min() < old.least_term or terms.max() > most:
            return None  # levels do not reach so far: they are measured anew
    starts, capacities, used = old.starts, old.capacities, old.n_blocks_used
    wanted = old.counts + np.bincount(lists, minlength=len(starts))
    full = np.flatnonzero(wanted > capacities * ROWS)
    if len(full):
        sizes = -(-(wanted[full] * (1 + _SPARE)).astype(np.int64) // ROWS) + 1
        if used + int(sizes.sum()) > len(old.blocks):
            return None
        starts, capacities = starts.copy(), capacities.copy()
        for where, size in zip(full.tolist(), sizes.tolist(), strict=True):
            n_blocks, first = -(-int(old.counts[where]) // ROWS), int(starts[where])
            old.blocks[used : used + n_blocks] = old.blocks[first : first + n_blocks]
            for part in (old.ranks, old.terms):
                if len(part):
                    piece = part[first * ROWS : (first + n_blocks) * ROWS]
                    part[used * ROWS : (used + n_blocks) * ROWS] = piece
            starts[where], capacities[where] = used, size
            used += size
    counts, slots = old.counts.copy(), np.empty(len(members), dtype=np.int64)
    order = np.lexsort((new_rows[members], lists))
    members, lists = members[order], lists[order]
    free_slots(lists, starts, counts, slots)
    put_rows(np.ascontiguousarray(codes[members]), slots, old.blocks, 0)
    old.ranks[slots] = new_rows[members]
    if terms is not None:
        old.terms[slots] = terms[members]
        levels = levels_of(terms[members], old.least_term, old.term_step)
        put_rows(levels, slots, old.blocks, old.n_bytes)
    return replace(
        old, starts=starts, counts=counts, capacities=capacities, n_blocks_used=used,
        row_ids=numbers, next_id=next_id,
    )  # fmt: skip


def without(old: Arranged, rows: NDArray[np.int64]) -> Arranged:
    """The next moment, with these rows removed."""
    remaining = np.ones(old.n, dtype=np.bool_)
    remaining[rows] = False
    new_rows = np.cumsum(remaining) - 1
    slots, lists = old.used()
    kept = remaining[old.ranks[slots]]
    slots, lists = slots[kept], lists[kept]
    ids = old.row_ids.at(slice(None))[remaining]
    terms = old.terms[old.slots_of_rows()][remaining] if len(old.terms) else None
    return arrange(
        old.codes[remaining], terms, new_rows[old.ranks[slots]], lists, old.partitions,
        row_ids(ids), old.next_id,
    )  # fmt: skip
