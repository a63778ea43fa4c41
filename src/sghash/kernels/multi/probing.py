"""One query through the tables: keys by their distance, rows that can still matter, the best k.

Keys of all parts are visited by rising distance from the query's. After part p at distance w every
row within w * m + p bits has been met, m being the number of parts; as soon as k of those met are
that near, the answer is exact. A row is met in several parts: only the first time counts, and which
that was follows from its own bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.hamming.staging import word_of
from sghash.kernels.lanes import popcount, prefetch, trailing_zeros
from sghash.kernels.multi.layout import spread_code

#: What it takes to look up a key and to look at an entry, in nanoseconds.
KEY_COST, ENTRY_COST = 18.0, 6.0
#: Entries of an answer are distance << ROW_BITS | row.
ROW_BITS = 44
#: Places of a query's counts: how many are found, keys, entries, codes compared.
USED, KEYS, ENTRIES, COMPARED = range(4)
N_COUNTS = 4
# Keys between asking for a line of memory and reading it, and how many are under way.
_AHEAD, _RING = 8, 16


class View(NamedTuple):
    """The rows at one moment, as compiled code sees them.

    Rows from `n_known` on are in no table. `now` says where a row of the tables is today, -1 where
    it is gone; empty where nothing has moved. `allowed` is empty where every row is.
    """

    codes: NDArray[np.uint8]
    n_known: int
    now: NDArray[np.int64]
    allowed: NDArray[np.bool_]


# Compiled functions take the arrays of `Tables` and `View` one by one: a tuple of arrays costs
# hundreds of microseconds to hand over, and a count of references at every use.


@compiled
def next_flip(flip: Any) -> Any:
    """The next larger word with as many set bits."""
    lowest = flip & (~flip + np.uint64(1))
    ripple = flip + lowest
    return ripple | ((flip ^ ripple) >> np.uint64(2 + trailing_zeros(flip)))


@compiled
def n_flips(n_bits: int, weight: int) -> int:
    """How many words of n bits have `weight` set ones."""
    count = 1
    for i in range(weight):
        count = count * (n_bits - i) // (i + 1)
    return count


@compiled
def distance_to(codes: NDArray[np.uint8], row: Any, query: NDArray[np.uint64]) -> int:
    """Bits in which a row differs from the words of a query."""
    distance = 0
    for word in range(query.shape[0]):
        distance += popcount(query[word] ^ word_of(codes, row, word))
    return distance


@compiled
def met_before(
    masks: NDArray[np.uint64],
    codes: NDArray[np.uint8],
    row: Any,
    query: NDArray[np.uint64],
    part: int,
    weight: int,
) -> bool:
    """Whether a row that differs in `weight` bits of a part's key came up in a part before."""
    for other in range(masks.shape[0]):
        apart = 0
        for word in range(query.shape[0]):
            apart += popcount((query[word] ^ word_of(codes, row, word)) & masks[other, word])
        if apart < weight or (apart == weight and other < part):
            return True
    return False


@compiled
def _sift_up(heap: NDArray[np.int64], place: int) -> None:
    entry = heap[place]
    while place:
        parent = (place - 1) >> 1
        if heap[parent] >= entry:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = entry


@compiled
def _sift_down(heap: NDArray[np.int64], n: int) -> None:
    entry, place = heap[0], 0
    while True:
        child = 2 * place + 1
        if child >= n:
            break
        if child + 1 < n and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= entry:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = entry


@compiled
def _keep(found: NDArray[np.int64], counts: NDArray[np.int64], entry: Any, bound: Any) -> Any:
    """Put an entry below `bound` into the heap of the best; return the new bound."""
    used = counts[USED]
    if used < found.shape[0]:
        found[used] = entry
        _sift_up(found, used)
        counts[USED] = used + 1
    else:
        found[0] = entry
        _sift_down(found, used)
    return found[0] if counts[USED] == found.shape[0] else bound


@compiled
def _offer(
    masks: NDArray[np.uint64],
    codes: NDArray[np.uint8],
    query: NDArray[np.uint64],
    row: Any,
    part: int,
    weight: int,
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
    bound: Any,
    is_range: bool,
) -> Any:
    """Take a row, met in a part at some weight, if it lies below `bound`; return the new bound."""
    counts[COMPARED] += 1
    candidate = np.int64(distance_to(codes, row, query)) << ROW_BITS | row
    if candidate >= bound or met_before(masks, codes, row, query, part, weight):
        return bound
    return _taken(found, counts, candidate, bound, is_range)


@compiled
def _taken(
    found: NDArray[np.int64], counts: NDArray[np.int64], entry: Any, bound: Any, is_range: bool
) -> Any:
    """Keep an entry that lies below `bound`; return the new bound."""
    if not is_range:
        return _keep(found, counts, entry, bound)
    if counts[USED] < found.shape[0]:
        found[counts[USED]] = entry
    counts[USED] += 1
    return bound


@compiled
def visit(
    starts: NDArray[np.uint32],
    entries: NDArray[np.uint64],
    key_bits: int,
    masks: NDArray[np.uint64],
    codes: NDArray[np.uint8],
    now: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    query: NDArray[np.uint64],
    own: Any,
    part: int,
    weight: int,
    ring: NDArray[np.int64],
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
    bound: Any,
    is_range: bool,
) -> Any:
    """Offer all rows whose key of a part differs from the query's in `weight` bits.

    Memory is asked for a few keys ahead: first the start of a key's entries, then the entries.
    """
    total = n_flips(key_bits, weight)
    flip, low = np.uint64((1 << weight) - 1), np.uint64(0xFFFFFFFF)
    most, n_entries = (bound - 1) >> ROW_BITS, 0
    for step in range(total + 2 * _AHEAD):
        slot = step & (_RING - 1)
        if step >= 2 * _AHEAD:
            n_entries += ring[2, slot] - ring[1, slot]
            for place in range(ring[1, slot], ring[2, slot]):
                entry = entries[place]
                least = weight + popcount((entry ^ own) >> np.uint64(32))
                if least > most:
                    continue
                row = np.int64(entry & low)
                if now.shape[0]:
                    row = now[row]
                if row < 0 or (least << ROW_BITS | row) >= bound:
                    continue
                if allowed.shape[0] and not allowed[row]:
                    continue
                bound = _offer(
                    masks, codes, query, row, part, weight, found, counts, bound, is_range
                )
                most = (bound - 1) >> ROW_BITS
        if step < total:
            ring[0, slot] = np.int64((own & low) ^ flip)
            prefetch(starts, ring[0, slot] * 4)
            if weight:
                flip = next_flip(flip)
        if _AHEAD <= step < total + _AHEAD:
            slot = (step - _AHEAD) & (_RING - 1)
            ring[1, slot] = starts[ring[0, slot]]
            ring[2, slot] = starts[ring[0, slot] + 1]
            prefetch(entries, ring[1, slot] * 8)
    counts[KEYS] += total
    counts[ENTRIES] += n_entries
    return bound


@compiled
def scan_rest(
    codes: NDArray[np.uint8],
    n_known: int,
    allowed: NDArray[np.bool_],
    query: NDArray[np.uint64],
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
    bound: Any,
    is_range: bool,
) -> Any:
    """Offer the rows that are in no table."""
    for row in range(n_known, codes.shape[0]):
        if allowed.shape[0] and not allowed[row]:
            continue
        candidate = np.int64(distance_to(codes, row, query)) << ROW_BITS | row
        if candidate < bound:
            bound = _taken(found, counts, candidate, bound, is_range)
    return bound


@compiled
def probe(
    starts: NDArray[np.uint32],
    places: NDArray[np.int64],
    entries: NDArray[np.uint64],
    key_bits: NDArray[np.int64],
    masks: NDArray[np.uint64],
    spread: NDArray[np.uint64],
    codes: NDArray[np.uint8],
    n_known: int,
    now: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    query_code: NDArray[np.uint8],
    query: NDArray[np.uint64],
    radius: int,
    budget: float,
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> bool:
    """Meet every row within `radius` of a query (1, n_bytes), or, if that is negative, the nearest.

    `found` takes as many as it is long: those within the radius in any order, `counts[USED]` of
    them, of which those beyond its end are only counted; or the best, sorted. False where the next
    step would cost more than what is left of the `budget`: then the answer is not complete.
    """
    is_range, n_parts = radius >= 0, masks.shape[0]
    ring = np.empty((3, _RING), dtype=np.int64)
    crowds = np.ones(n_parts)
    counts[:] = 0
    bound = np.int64((radius if is_range else 8 * codes.shape[1]) + 1) << ROW_BITS
    bound = scan_rest(codes, n_known, allowed, query, found, counts, bound, is_range)
    for turn in range((max(key_bits) + 1) * n_parts):
        if is_range and turn > radius:
            break
        weight, part = turn // n_parts, turn % n_parts
        total = n_flips(key_bits[part], weight)
        if total:
            spent = KEY_COST * counts[KEYS] + ENTRY_COST * counts[ENTRIES]
            if spent + total * (KEY_COST + ENTRY_COST * crowds[part]) > budget:
                return False
            before = counts[ENTRIES]
            bound = visit(
                starts[places[part] :], entries[part], key_bits[part], masks, codes, now, allowed,
                query, spread_code(query_code, 0, spread[part]), part, weight, ring, found, counts,
                bound, is_range,
            )  # fmt: skip
            crowds[part] = (counts[ENTRIES] - before) / total
        if not is_range and counts[USED] == found.shape[0] and found[0] >> ROW_BITS <= turn:
            break
    if not is_range:
        found[: counts[USED]].sort()
    return True
