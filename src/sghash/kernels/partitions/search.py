"""All of a search in one compiled call per query: lists, scan, shortlists, exact distances.

The scan gives every code of the probed lists a 16-bit score, exact for Hamming and rounded down
for tables; `counted` finds the best of them. Then, where asked for, scores by tables in float32,
and distances to kept vectors. Answers go by (distance, row), and a row that two lists hold is
given once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.counted import FULL, at_most, count_at_most, kth_score
from sghash.kernels.lanes import prefetch, trailing_zeros
from sghash.kernels.partitions.block_lanes import (
    ROWS,
    code_at,
    entry_sum,
    place_of,
    write_scores,
)
from sghash.kernels.partitions.choosing import choose_lists, next_probes, rows_met
from sghash.kernels.partitions.coarse import TOGETHER, write_products
from sghash.kernels.partitions.kept import order_kept
from sghash.kernels.partitions.rounding import half_tables, hamming_tables, round_tables
from sghash.kernels.sorting import sort_pairs
from sghash.kernels.vectors.comparing import COSINE

#: By what the scan compares, and by what the answer is ordered.
HAMMING, BITS, BYTES, VECTORS = range(4)
#: Places of a plan, an array of int64. ENOUGH: thousandths of the rows of the lists chosen that
#: must be met, rows that are not allowed not counted; 0 where it does not matter.
K, PROBES, BY_SCAN, BY_TABLES, SCAN, LAST, METRIC, ENOUGH = range(8)
#: Columns of what a search says of itself: rows and steps of a clock.
LISTS, SCANNED, SHORTLISTED, SCORED, CLOCK, N_STATS = 0, 1, 2, 3, 4, 9
# Up to so many answers are kept sorted while they are found.
_INSERT_BELOW = 64
# Rows per neighbour that must be met at least, where it matters how many are.
_ROWS_EACH = 4
# A shortlist grows with the lists that a mask makes a search visit, so many times at most.
_MOST_TIMES = 4.0
# No list is further from the nearest than that.
_NO_MARGIN = 1e30


@intrinsic
def _clock(typing_context: Any) -> Any:
    """Steps of the processor's clock; zero where it has none."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [])
        name = "llvm.readcyclecounter"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])

    return types.int64(), emit


@compiled
def _scan(
    blocks: NDArray[np.uint8],
    ranks: NDArray[np.uint32],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    lists: NDArray[np.int64],
    n_visited: int,
    tables: NDArray[np.uint8],
    n_bytes: int,
    factor: int,
    allowed: NDArray[np.bool_],
    scores: NDArray[np.uint16],
    visited: NDArray[np.int64],
) -> None:
    """Scores of all codes of the lists, and which block each 64 of them are of."""
    at, block_bytes = 0, blocks.shape[1] * ROWS
    for i in range(n_visited):
        here = lists[i]
        n_blocks = (counts[here] + ROWS - 1) // ROWS
        soon = lists[min(i + 1, n_visited - 1)]
        n_soon = (counts[soon] + ROWS - 1) // ROWS
        # The lists lie anywhere: what comes next is asked for while this list is computed.
        ahead, n_ahead = starts[soon] * block_bytes, n_soon * block_bytes
        share = -(-n_ahead // max(n_blocks, 1) // 64) * 64
        for j in range(n_blocks):
            for offset in range(j * share, min((j + 1) * share, n_ahead), 64):
                prefetch(blocks, ahead + offset)
            write_scores(blocks, starts[here] + j, tables, scores, at * ROWS, n_bytes, factor)
            visited[at] = starts[here] + j
            at += 1
        for code in range(counts[here] - (n_blocks - 1) * ROWS, ROWS if n_blocks else 0):
            scores[(at - 1) * ROWS + place_of(code)] = FULL
        if allowed.shape[0]:
            for j in range(counts[here]):
                row = ranks[starts[here] * ROWS + j]
                if row >= allowed.shape[0] or not allowed[row]:
                    place = (at - n_blocks + j // ROWS) * ROWS + place_of(j % ROWS)
                    scores[place] = FULL


@compiled
def _take_best(
    scores: NDArray[np.uint16],
    visited: NDArray[np.int64],
    size: int,
    wanted: int,
    slack: int,
    most: int,
) -> Any:
    """Slots and scores of the best `wanted`, of all that tie with the last or exceed it by slack.

    With `most` above 0, no more than that: those that tie with the last come last.
    """
    bar = min(kth_score(scores, size, wanted, 0, FULL - 1) + slack, FULL - 1)
    count = count_at_most(scores, size, bar)
    if most == 0 or count <= most:
        slots, found = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.float32)
        _take_between(scores, visited, size, -1, bar, 0, slots, found)
        return slots, found
    slots, found = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.float32)
    used = _take_between(scores, visited, size, -1, bar - 1, 0, slots, found)
    _take_between(scores, visited, size, bar - 1, bar, used, slots, found)
    return slots, found


@compiled
def _take_between(
    scores: NDArray[np.uint16],
    visited: NDArray[np.int64],
    size: int,
    above: int,
    bar: int,
    used: int,
    slots: NDArray[np.int64],
    found: NDArray[np.float32],
) -> int:
    """Put what scores at most `bar`, and more than `above`, behind the first `used`, if it fits."""
    if bar < 0:
        return used
    for start in range(0, size, ROWS):
        near = at_most(scores, 2 * start, bar)
        if above >= 0:
            near &= ~at_most(scores, 2 * start, above)
        while near and used < slots.shape[0]:
            place = trailing_zeros(near)
            near &= near - np.uint64(1)
            slots[used] = visited[start // ROWS] * ROWS + code_at(place)
            found[used] = scores[start + place]
            used += 1
    return used


@compiled
def _score_slots(
    blocks: NDArray[np.uint8],
    terms: NDArray[np.float32],
    slots: NDArray[np.int64],
    n_bytes: int,
    tables: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Scores by tables in float32, (2 * n_bytes, 16) or (n_bytes, 256), terms included."""
    for i in range(slots.shape[0]):
        total = entry_sum(blocks, slots[i] >> 6, slots[i] & 63, tables, n_bytes, np.float32(0))
        if terms.shape[0]:
            total += terms[slots[i]]
        out[i] = total


@compiled
def _write_best(
    distances: NDArray[np.float32],
    rows: NDArray[np.int64],
    out_distances: NDArray[np.float32],
    out_rows: NDArray[np.int64],
) -> None:
    """The best by (distance, row), each row once; the rest of the answer is padding."""
    k, used = out_rows.shape[0], 0
    if k <= _INSERT_BELOW:
        for i in range(rows.shape[0]):
            distance, row = distances[i], rows[i]
            place = used
            while place > 0 and (
                distance < out_distances[place - 1]
                or (distance == out_distances[place - 1] and row < out_rows[place - 1])
            ):
                place -= 1
            if place == k:
                continue
            if place and out_rows[place - 1] == row and out_distances[place - 1] == distance:
                continue
            used = min(used + 1, k)
            for j in range(used - 1, place, -1):
                out_distances[j], out_rows[j] = out_distances[j - 1], out_rows[j - 1]
            out_distances[place], out_rows[place] = distance, row
    else:
        sort_pairs(distances, rows)
        for i in range(rows.shape[0]):
            if used == k:
                break
            if used and out_rows[used - 1] == rows[i]:
                continue
            out_distances[used], out_rows[used] = distances[i], rows[i]
            used += 1
    for i in range(used, k):
        out_distances[i], out_rows[i] = np.inf, -1


@compiled
def search_partitions(
    plan: NDArray[np.int64],
    margin: float,
    vectors: NDArray[np.float32],
    codes: NDArray[np.uint8],
    code_words: NDArray[np.uint64],
    slopes: NDArray[np.float32],
    byte_tables: NDArray[np.float32],
    map_slopes: NDArray[np.float32],
    map_bias: NDArray[np.float32],
    centroids: NDArray[Any],
    half_squares: NDArray[np.float32],
    groups: NDArray[Any],
    group_squares: NDArray[np.float32],
    group_starts: NDArray[np.int64],
    centroid_words: NDArray[np.uint64],
    blocks: NDArray[np.uint8],
    ranks: NDArray[np.uint32],
    terms: NDArray[np.float32],
    term_step: float,
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    kept: NDArray[Any],
    allowed: NDArray[np.bool_],
    out_distances: NDArray[np.float32],
    out_rows: NDArray[np.int64],
    stats: NDArray[np.int64],
) -> None:
    """Answer every query, as the plan says; what the search did goes to `stats`."""
    n_lists, n_bytes = starts.shape[0], blocks.shape[1] - (1 if terms.shape[0] else 0)
    scan, last = plan[SCAN], plan[LAST]
    n_probes = min(plan[PROBES], n_lists)
    lists = np.empty(n_lists, dtype=np.int64)
    by_bytes = scan == BYTES or (byte_tables.shape[0] and scan == HAMMING)
    by_tables = scan != HAMMING or plan[BY_TABLES] > 0
    floats = np.empty((n_bytes, 256) if by_bytes else (2 * n_bytes, 16), dtype=np.float32)
    rounded = np.empty((n_bytes, 256) if scan == BYTES else (2 * n_bytes, 16), dtype=np.uint8)
    unit = np.empty(vectors.shape[1], dtype=np.float32)
    mapped = np.empty(map_slopes.shape[0] + TOGETHER, dtype=np.float32)
    for query in range(out_rows.shape[0]):
        clock = _clock()
        vector = vectors[query]
        square = 0.0
        for i in range(vector.shape[0]):
            square += np.float64(vector[i]) * np.float64(vector[i])
        if not square < np.inf:
            # Not a number, or no finite one: said, and not searched.
            stats[query, LISTS] = -1
            out_distances[query, :], out_rows[query, :] = np.inf, -1
            continue
        if plan[METRIC] == COSINE and square > 0:
            unit[:] = vector / np.float32(np.sqrt(square))
            vector = unit
        n_visited = choose_lists(
            vector, code_words[query], margin, centroids, half_squares, groups, group_squares,
            group_starts, centroid_words, n_lists, n_probes, lists,
        )  # fmt: skip
        by_scan, by_tables_after = plan[BY_SCAN], plan[BY_TABLES]
        if plan[ENOUGH] and n_visited < n_lists:
            wanted, n_near = 0, n_visited
            for i in range(n_visited):
                wanted += counts[lists[i]]
            wanted = max(wanted * plan[ENOUGH] // 1000, _ROWS_EACH * plan[K])
            while n_visited < n_lists:
                met = rows_met(lists, n_visited, starts, counts, ranks, allowed)
                if 20 * met >= 19 * wanted:
                    break
                before = n_visited
                n_visited = choose_lists(
                    vector, code_words[query], _NO_MARGIN, centroids, half_squares, groups,
                    group_squares, group_starts, centroid_words, n_lists,
                    next_probes(n_visited, met, wanted, n_lists), lists,
                )  # fmt: skip
                if n_visited <= before:
                    # Scores that are not finite tell no list from another: all are visited.
                    n_visited = choose_lists(
                        vector, code_words[query], _NO_MARGIN, centroids, half_squares, groups,
                        group_squares, group_starts, centroid_words, n_lists, n_lists, lists,
                    )  # fmt: skip
            if allowed.shape[0]:
                # Codes tell rows apart the worse, the further all of them are.
                times = min(_MOST_TIMES, np.sqrt(n_visited / n_near))
                by_scan = np.int64(by_scan * times)
                by_tables_after = np.int64(by_tables_after * times)
        stats[query, CLOCK] = _clock() - clock
        clock = _clock()
        factor, slack = 0, 0
        if by_tables:
            if by_bytes:
                floats[:] = byte_tables[query]
            elif map_slopes.shape[0]:
                write_products(map_slopes, 0, map_bias.shape[0], vector, mapped, 0)
                for i in range(map_bias.shape[0]):
                    mapped[i] += map_bias[i]
                half_tables(mapped[: map_bias.shape[0]], floats)
            else:
                half_tables(slopes[query], floats)
        if scan == HAMMING:
            hamming_tables(codes[query], rounded)
        else:
            scale, factor = round_tables(floats, term_step, rounded)
            if last == scan:
                slack = rounded.shape[0] + 3 + np.int64(np.ceil(term_step * scale))
        stats[query, CLOCK + 1] = _clock() - clock
        clock = _clock()
        n_blocks, n_scanned = 0, 0
        for i in range(n_visited):
            n_blocks += (counts[lists[i]] + ROWS - 1) // ROWS
            n_scanned += counts[lists[i]]
        size = n_blocks * ROWS
        scores = np.empty(size, dtype=np.uint16)
        visited = np.empty(n_blocks, dtype=np.int64)
        _scan(
            blocks, ranks, starts, counts, lists, n_visited, rounded, n_bytes, factor, allowed,
            scores, visited,
        )  # fmt: skip
        most = 0 if last == scan else 2 * by_scan + ROWS
        slots, found = _take_best(scores, visited, size, by_scan, slack, most)
        stats[query, LISTS], stats[query, SCANNED] = n_visited, n_scanned
        stats[query, SHORTLISTED] = slots.shape[0]
        stats[query, CLOCK + 2] = _clock() - clock
        clock = _clock()
        if by_tables and (last != VECTORS or scan == HAMMING):
            _score_slots(blocks, terms, slots, n_bytes, floats, found)
            if last == VECTORS and by_tables_after < slots.shape[0]:
                sort_pairs(found, slots)
                slots, found = slots[:by_tables_after], found[:by_tables_after]
        stats[query, CLOCK + 3] = _clock() - clock
        clock = _clock()
        rows = np.empty(slots.shape[0], dtype=np.int64)
        for i in range(rows.shape[0]):
            rows[i] = ranks[slots[i]]
            # Ranks were checked, but a file that is mapped may have been changed since.
            if last == VECTORS:
                rows[i] = min(rows[i], kept.shape[0] - 1)
        stats[query, SCORED] = rows.shape[0]
        if last == VECTORS:
            order_kept(kept, rows, vector, plan[METRIC], found)
        _write_best(found, rows, out_distances[query], out_rows[query])
        stats[query, CLOCK + 4] = _clock() - clock
