"""The loops of the scan by bytes: what passes the bytes is scored in float32 and kept if good.

Entries are rounded down to bytes on a scale on which the query's bar is 254, as in `scans`. All
three ways take the same arguments and keep the same rows; `byte_tables` is a flat array in which
the entry of query q, byte b and value v stands where `round_table` puts it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import BOUNDARY, to_boundary, trailing_zeros
from sghash.kernels.tables.byte_lanes import (
    GROUP,
    ROWS,
    ROWS_AT_ONCE,
    least_score,
    near_queries,
    near_rows,
    turn_rows,
)
from sghash.kernels.tables.selection import offer


@compiled
def _boundary(array: NDArray[np.uint8]) -> int:
    return to_boundary(array, 0)


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """So many bytes, all 255, that begin at a boundary."""
    held = np.full(size + BOUNDARY, 255, dtype=np.uint8)
    return held[_boundary(held) :][:size]


@compiled
def score_of(
    codes: NDArray[np.uint8], row: int, tables: NDArray[np.float32], query: int
) -> np.float32:
    """The score of a row: entries added up in float32 in the order of bytes."""
    total = np.float32(0)
    for byte in range(tables.shape[1]):
        total += tables[query, byte, codes[row, byte]]
    return total


@compiled
def round_table(
    byte_tables: NDArray[np.uint8],
    side_by_side: bool,
    tables: NDArray[np.float32],
    lows: NDArray[np.float32],
    bounds: NDArray[np.float64],
    query: int,
    bar: np.float32,
) -> None:
    """Bytes for one query, rounded down, on the scale on which its bar is 254."""
    n_bytes = tables.shape[1]
    span = max(np.float64(bar) - bounds[query, 0], 0.0) + bounds[query, 1]
    scale = np.float32(254.5 / span)
    step = GROUP if side_by_side else 1
    place = query if side_by_side else query * n_bytes * 256
    rounded = np.empty(256, dtype=np.uint8)
    for byte in range(n_bytes):
        low = lows[query, byte]
        for value in range(256):
            above = (tables[query, byte, value] - low) * scale
            rounded[value] = np.uint8(min(above, np.float32(255)))
        for value in range(256):
            byte_tables[place + value * step] = rounded[value]
        place += 256 * step


@compiled
def round_tables(
    byte_tables: NDArray[np.uint8],
    side_by_side: bool,
    tables: NDArray[np.float32],
    lows: NDArray[np.float32],
    bounds: NDArray[np.float64],
    bars: NDArray[np.float32],
) -> None:
    """Bytes for all queries."""
    for query in range(tables.shape[0]):
        round_table(byte_tables, side_by_side, tables, lows, bounds, query, bars[query])


@compiled
def scan_by_queries(
    used: NDArray[np.int64],
    bars: NDArray[np.float32],
    scores: NDArray[np.float32],
    rows: NDArray[np.int64],
    k: int,
    allowed: NDArray[np.bool_],
    first: int,
    last: int,
    codes: NDArray[np.uint8],
    tables: NDArray[np.float32],
    lows: NDArray[np.float32],
    bounds: NDArray[np.float64],
    byte_tables: NDArray[np.uint8],
) -> None:
    """Scan rows `first` to `last` - 1 for at most GROUP queries, all of them at once."""
    n_bytes = codes.shape[1]
    for row in range(first, last):
        marks = near_queries(codes, row * n_bytes, byte_tables, 0, n_bytes)
        if not marks or (allowed.shape[0] and not allowed[row]):
            continue
        while marks:
            query = trailing_zeros(marks)
            marks &= marks - np.uint64(1)
            score = score_of(codes, row, tables, query)
            if score < bars[query] and offer(used, bars, scores, rows, k, query, score, row):
                round_table(byte_tables, True, tables, lows, bounds, query, bars[query])


@compiled
def scan_by_rows(
    used: NDArray[np.int64],
    bars: NDArray[np.float32],
    scores: NDArray[np.float32],
    rows: NDArray[np.int64],
    k: int,
    allowed: NDArray[np.bool_],
    first: int,
    last: int,
    codes: NDArray[np.uint8],
    tables: NDArray[np.float32],
    lows: NDArray[np.float32],
    bounds: NDArray[np.float64],
    byte_tables: NDArray[np.uint8],
) -> None:
    """The same, 64 rows at once, for few queries; only where `ROWS_AVAILABLE`."""
    n_bytes = codes.shape[1]
    n_words = (n_bytes + 7) >> 3
    planes = np.empty(8 * ROWS * n_words + BOUNDARY, dtype=np.uint8)
    planes_at = to_boundary(planes, 0)
    for start in range(first, last, ROWS):
        # Words of the last rows may reach beyond the codes: those are looked at one by one.
        turned = start + ROWS <= last and (start + ROWS - 1) * n_bytes + 8 * n_words <= codes.size
        marks = ~np.uint64(0) >> np.uint64(max(start + ROWS - last, 0))
        if turned and n_bytes == 8:
            turn_rows(codes, start * 8, None, planes, planes_at)
        elif turned:
            for word in range(n_words):
                source = start * n_bytes + 8 * word
                turn_rows(codes, source, n_bytes, planes, planes_at + 8 * ROWS * word)
        for query in range(tables.shape[0]):
            near = marks
            if turned:
                table = query * n_bytes * 256
                near = near_rows(planes, planes_at, byte_tables, table, n_bytes)
            while near:
                row = start + trailing_zeros(near)
                near &= near - np.uint64(1)
                if allowed.shape[0] and not allowed[row]:
                    continue
                score = score_of(codes, row, tables, query)
                if score < bars[query] and offer(used, bars, scores, rows, k, query, score, row):
                    round_table(byte_tables, False, tables, lows, bounds, query, bars[query])


@compiled
def scan_by_scores(
    used: NDArray[np.int64],
    bars: NDArray[np.float32],
    scores: NDArray[np.float32],
    rows: NDArray[np.int64],
    k: int,
    allowed: NDArray[np.bool_],
    first: int,
    last: int,
    codes: NDArray[np.uint8],
    tables: NDArray[np.float32],
    lows: NDArray[np.float32],
    bounds: NDArray[np.float64],
    byte_tables: NDArray[np.uint8],
) -> None:
    """The same without bytes, four scores at once: for a query alone."""
    n_bytes = codes.shape[1]
    whole = last - (last - first) % ROWS_AT_ONCE
    for query in range(tables.shape[0]):
        table = query * n_bytes * 256 * 4
        for start in range(first, last, ROWS_AT_ONCE):
            if start < whole:
                least = least_score(codes, start * n_bytes, tables, table, n_bytes)
                if least >= bars[query]:
                    continue
            for row in range(start, min(start + ROWS_AT_ONCE, last)):
                if allowed.shape[0] and not allowed[row]:
                    continue
                score = score_of(codes, row, tables, query)
                if score < bars[query]:
                    offer(used, bars, scores, rows, k, query, score, row)
