"""All pairs of rows within a radius: keys in their order, each beside those that are near it.

Rows whose keys are equal or near lie together, so a join reads the tables from end to end instead
of asking for every row; a pair is met in several parts, and counts where it is met first.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.kernels.checks import UINT8, check_array
from sghash.kernels.compiling import announce, compiled
from sghash.kernels.hamming.staging import word_of
from sghash.kernels.lanes import popcount
from sghash.kernels.multi.layout import Tables
from sghash.kernels.multi.probing import distance_to, met_before, n_flips, next_flip
from sghash.kernels.threads import cut, run
from sghash.validation import Codes

# Keys of one compiled call, and pairs that a buffer holds at first.
_KEYS, _PAIRS = 1 << 14, 1 << 16
# One of how many keys is joined to find out what a join would take, and in how many places.
_SHARE, _PIECES = 64, 128
# With more keys than that near each one, a scan is cheaper: no need to try.
_MOST_FLIPS = 1 << 16


class Pairs(NamedTuple):
    """Pairs of rows, the smaller one first, by rows: all (n_pairs,)."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    distances: NDArray[np.int32]


def multi_pairs(tables: Tables, codes: Codes, radius: int, *, threads: int = 1) -> Pairs:
    """All pairs of rows whose codes differ in at most `radius` bits, by rows."""
    check_array(codes, UINT8, 2, "codes")
    if tables.spread.shape[1] != codes.shape[1] or tables.n_rows != len(codes):
        raise InvalidInput("the tables are not those of these codes: build them anew")
    radius = min(radius, 8 * codes.shape[1])
    announce(_join, "join of codes")
    pieces: list[NDArray[np.int64]] = [np.empty((0, 3), dtype=np.int64)]
    n_parts = len(tables.key_bits)
    for part in range(min(n_parts, radius + 1)):
        _join_part(tables, codes, radius, part, threads, pieces)
    every = np.concatenate(pieces)
    every = every[np.lexsort((every[:, 1], every[:, 0]))]
    return Pairs(every[:, 0].copy(), every[:, 1].copy(), every[:, 2].astype(np.int32))


def join_cost(tables: Tables, codes: Codes, radius: int, most: float) -> float:
    """Nanoseconds that a join would take on one thread, from joins of some keys of each part.

    Infinite where that is more than `most`.
    """
    announce(_join, "join of codes")
    out, cost, n_parts = np.empty((_PAIRS, 3), dtype=np.int64), 0.0, len(tables.key_bits)
    for part in range(min(n_parts, radius + 1)):
        key_bits = int(tables.key_bits[part])
        weight = _most_weight(radius, part, n_parts, key_bits)
        if sum(n_flips(key_bits, bits) for bits in range(weight + 1)) > _MOST_FLIPS:
            return np.inf
        arguments = _of_part(tables, codes, radius, part)
        if not cost:
            _join(0, 0, out, *arguments)  # compiles
        n_keys = 1 << key_bits
        length = -(-n_keys // (_SHARE * _PIECES))
        for number in range(min(_PIECES, n_keys)):
            start = number * n_keys // _PIECES
            stop = min(start + length, n_keys)
            began = time.thread_time_ns()
            reached, _ = _join(start, stop, out, *arguments)
            spent = time.thread_time_ns() - began
            cost += spent * n_keys / (_PIECES * max(1, reached - start))
            if cost > most:
                return np.inf
    return cost


def _of_part(tables: Tables, codes: Codes, radius: int, part: int) -> Any:
    """What compiled code is given of one part, but for the keys and where to write."""
    at, key_bits = int(tables.places[part]), int(tables.key_bits[part])
    starts = tables.starts[at : at + (1 << key_bits) + 1]
    most = _most_weight(radius, part, len(tables.key_bits), key_bits)
    return starts, tables.entries[part], key_bits, tables.masks, codes, radius, part, most


def _most_weight(radius: int, part: int, n_parts: int, key_bits: int) -> int:
    """How far keys of a part may differ; -1: the other parts find every pair."""
    return min(key_bits, (radius - part) // n_parts)


def _join_part(
    tables: Tables,
    codes: Codes,
    radius: int,
    part: int,
    threads: int,
    pieces: list[NDArray[np.int64]],
) -> None:
    arguments = _of_part(tables, codes, radius, part)

    def join(start: int, stop: int, stopped: threading.Event) -> None:
        out = np.empty((_PAIRS, 3), dtype=np.int64)
        while start < stop and not stopped.is_set():
            last = min(start + _KEYS, stop)
            reached, used = _join(start, last, out, *arguments)
            pieces.append(out[:used].copy())
            if reached == start:  # the pairs of one key are more than fit
                out = np.empty((2 * len(out), 3), dtype=np.int64)
            start = reached

    run([(join, some) for some in cut(1 << int(tables.key_bits[part]), threads)])


@compiled
def _join(
    first_key: int,
    last_key: int,
    out: NDArray[np.int64],
    starts: NDArray[np.uint32],
    entries: NDArray[np.uint64],
    key_bits: int,
    masks: NDArray[np.uint64],
    codes: NDArray[np.uint8],
    radius: int,
    part: int,
    most: int,
) -> Any:
    """Write the pairs of some keys; return the first key whose pairs did not fit, and how many."""
    used, words = 0, np.empty(masks.shape[1], dtype=np.uint64)
    for key in range(first_key, last_key):
        if starts[key] == starts[key + 1]:
            continue
        begun = used
        for weight in range(most + 1):
            flip = np.uint64((1 << weight) - 1)
            for _ in range(n_flips(key_bits, weight)):
                other = np.int64(np.uint64(key) ^ flip)
                if other >= key and starts[other] < starts[other + 1]:
                    used = _pair_up(
                        starts, entries, masks, codes, radius, part, weight, key, other, words,
                        out, used,
                    )  # fmt: skip
                    if used > out.shape[0]:
                        return key, begun
                if weight:
                    flip = next_flip(flip)
    return last_key, used


@compiled
def _pair_up(
    starts: NDArray[np.uint32],
    entries: NDArray[np.uint64],
    masks: NDArray[np.uint64],
    codes: NDArray[np.uint8],
    radius: int,
    part: int,
    weight: int,
    key: int,
    other: Any,
    words: NDArray[np.uint64],
    out: NDArray[np.int64],
    used: int,
) -> int:
    """Write the pairs of two keys; return how many there are now, or more than fit.

    `words` is room for the words of a code.
    """
    low = np.uint64(0xFFFFFFFF)
    for i in range(np.int64(starts[key]), np.int64(starts[key + 1])):
        a, is_read = entries[i], False
        row: Any = np.int64(a & low)
        begin = i + 1 if key == other else np.int64(starts[other])
        for j in range(begin, np.int64(starts[other + 1])):
            if weight + popcount((a ^ entries[j]) >> np.uint64(32)) > radius:
                continue
            if not is_read:
                for word in range(words.shape[0]):
                    words[word] = word_of(codes, row, word)
                is_read = True
            second = np.int64(entries[j] & low)
            distance = distance_to(codes, second, words)
            if distance > radius or met_before(masks, codes, second, words, part, weight):
                continue
            if used >= out.shape[0]:
                return used + 1
            out[used, 0], out[used, 1] = min(row, second), max(row, second)
            out[used, 2] = distance
            used += 1
    return used
