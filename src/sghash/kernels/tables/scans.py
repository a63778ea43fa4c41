"""The loops of the asymmetric scan: what passes the bytes is scored in float32 and kept if good.

All scans take the same arguments; see `search` for what they mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import trailing_zeros
from sghash.kernels.tables import nibbles
from sghash.kernels.tables.rescoring import linear_score
from sghash.kernels.tables.selection import offer
from sghash.kernels.tables.terms import code_term


@compiled
def _round_table(
    byte_tables: NDArray[np.uint8],
    tables: NDArray[np.float32],
    step: float,
    bounds: NDArray[np.float64],
    query: int,
    bar: np.float32,
) -> None:
    """Bytes for one query, rounded down, on the scale on which its bar is 254."""
    n_groups = tables.shape[1]
    span = max(np.float64(bar) - bounds[query, 0], 0.0) + bounds[query, 1]
    scale = np.float32(254.5 / span)
    for group in range(byte_tables.shape[1]):
        table = byte_tables[query, group]
        low = tables[query, group].min() if group < n_groups else np.float32(0)
        width = np.float32(step * 16 if group == n_groups else step)
        for value in range(16):
            here = tables[query, group, value] - low if group < n_groups else value * width
            table[value] = table[value + 16] = np.uint8(min(here * scale, np.float32(255)))


@compiled
def score_bounds(
    tables: NDArray[np.float32], least: float, largest: float, slack: float
) -> NDArray[np.float64]:
    """Per query, the least score any code could have, and by how much float32 sums may err.

    Terms of codes are at least `least`, and at most `largest` in size.
    """
    bounds = np.empty((tables.shape[0], 2), dtype=np.float64)
    for query in range(tables.shape[0]):
        low, size = np.float64(least), np.float64(largest)
        for group in range(tables.shape[1]):
            smallest, greatest = np.float32(np.inf), np.float32(0)
            for value in range(16):
                entry = tables[query, group, value]
                smallest = min(smallest, entry)
                greatest = max(greatest, abs(entry))
            low += np.float64(smallest)
            size += np.float64(greatest)
        bounds[query, 0], bounds[query, 1] = low, slack * size + 1e-30
    return bounds


@compiled
def round_all(
    byte_tables: NDArray[np.uint8],
    tables: NDArray[np.float32],
    step: float,
    bounds: NDArray[np.float64],
    bars: NDArray[np.float32],
) -> None:
    """Bytes for all queries that have a bar; those of the others stay zero: everything passes."""
    for query in range(bars.shape[0]):
        if bars[query] < np.inf:
            _round_table(byte_tables, tables, step, bounds, query, bars[query])


@compiled
def _with_term(
    score: np.float32,
    codes: NDArray[np.uint8],
    row: int,
    gram: NDArray[np.float32],
    levels: NDArray[np.uint8],
    levelled: NDArray[np.float64],
    bar: float,
) -> np.float32:
    """The linear part of a score and the row's own term; infinity if its level is beyond `bar`.

    Called only where there are terms: to pass so many arrays costs more than the linear part.
    """
    if score + levelled[0] + levels[row] * levelled[1] > bar:
        return np.float32(np.inf)
    return score + code_term(codes, row, gram)


@compiled
def _stage(
    codes: NDArray[np.uint8],
    levels: NDArray[np.uint8],
    start: int,
    stop: int,
    held: NDArray[np.uint8],
    planes: NDArray[np.uint8],
) -> None:
    """Turn a tile into vectors of nibbles; `held` is a buffer for rows that need padding."""
    n_bytes = codes.shape[1]
    if n_bytes % 8 or stop - start < nibbles.TILE_ROWS:
        for i in range(stop - start):
            for byte in range(n_bytes):
                held[i, byte] = codes[start + i, byte]
        _turn(held, 0, planes)
    else:
        _turn(codes, start, planes)
    if levels.shape[0]:
        group = 2 * n_bytes
        for i in range(stop - start):
            planes[group, i] = levels[start + i] >> 4
            planes[group + 1, i] = levels[start + i] & 15


@compiled
def _turn(codes: NDArray[np.uint8], start: int, planes: NDArray[np.uint8]) -> None:
    """Turn a whole tile of rows of whole words that begins at row `start`."""
    stride = codes.shape[1]
    for block in range(nibbles.BLOCKS):
        at = (start + block * nibbles.ROWS) * stride
        if stride == 8:
            nibbles.turn_block(codes, at, None, planes, block * nibbles.ROWS)
            continue
        for word in range(stride // 8):
            target = 16 * word * nibbles.GROUP_BYTES + block * nibbles.ROWS
            nibbles.turn_block(codes, at + 8 * word, stride, planes, target)


@compiled
def scan_tiles(
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
    bounds: NDArray[np.float64],
    byte_tables: NDArray[np.uint8],
    gram: NDArray[np.float32],
    levels: NDArray[np.uint8],
    levelled: NDArray[np.float64],
) -> None:
    """Scan rows `first` to `last` - 1 for all queries, a tile of 256 at a time."""
    n_groups = byte_tables.shape[1]
    width = (codes.shape[1] + 7) // 8 * 8
    held = np.zeros((nibbles.TILE_ROWS, width), dtype=np.uint8)
    planes = np.zeros((2 * width + 2, nibbles.GROUP_BYTES), dtype=np.uint8)
    flags = np.zeros(nibbles.BLOCKS, dtype=np.uint32)
    for start in range(first, last, nibbles.TILE_ROWS):
        stop = min(start + nibbles.TILE_ROWS, last)
        _stage(codes, levels, start, stop, held, planes)
        for query in range(tables.shape[0]):
            table = query * n_groups * 32
            if not nibbles.below_saturation(planes, 0, byte_tables, table, n_groups, flags, 0):
                continue
            for block in range(nibbles.BLOCKS):
                marks = np.uint64(flags[block])
                while marks:
                    row = start + block * nibbles.ROWS + trailing_zeros(marks)
                    marks &= marks - np.uint64(1)
                    if row >= stop or (allowed.shape[0] and not allowed[row]):
                        continue
                    score = linear_score(codes, row, tables, query)
                    if levels.shape[0]:
                        bar = bars[query] + bounds[query, 1]
                        score = _with_term(score, codes, row, gram, levels, levelled, bar)
                    if score < bars[query] and offer(
                        used, bars, scores, rows, k, query, score, row
                    ):
                        _round_table(byte_tables, tables, levelled[1], bounds, query, bars[query])


@compiled
def scan_blocks(
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
    bounds: NDArray[np.float64],
    byte_tables: NDArray[np.uint8],
    gram: NDArray[np.float32],
    levels: NDArray[np.uint8],
    levelled: NDArray[np.float64],
) -> None:
    """The same for codes of 8 or 16 bytes, 32 where they lie at a time: for very few queries."""
    width = codes.shape[1]
    whole = first + (last - first) // nibbles.ROWS * nibbles.ROWS
    for query in range(tables.shape[0]):
        table = query * byte_tables.shape[1] * 32
        for start in range(first, last, nibbles.ROWS):
            # What is left at the end is looked at row by row.
            marks = np.uint64(0xFFFFFFFF)
            if start < whole:
                # Written out, for a call that passes arrays takes longer than a block.
                at = start * width
                if width == 16:
                    if levels.shape[0]:
                        marks = nibbles.block_below(
                            codes, at, byte_tables, table, levels, start, True
                        )
                    else:
                        marks = nibbles.block_below(codes, at, byte_tables, table, None, 0, True)
                elif levels.shape[0]:
                    marks = nibbles.block_below(codes, at, byte_tables, table, levels, start, None)
                else:
                    marks = nibbles.block_below(codes, at, byte_tables, table, None, 0, None)
                if not marks:
                    continue
                marks = nibbles.rows_in_order(marks, width == 16)
            while marks:
                row = start + trailing_zeros(marks)
                marks &= marks - np.uint64(1)
                if row >= last or (allowed.shape[0] and not allowed[row]):
                    continue
                score = linear_score(codes, row, tables, query)
                if levels.shape[0]:
                    bar = bars[query] + bounds[query, 1]
                    score = _with_term(score, codes, row, gram, levels, levelled, bar)
                if score < bars[query] and offer(used, bars, scores, rows, k, query, score, row):
                    _round_table(byte_tables, tables, levelled[1], bounds, query, bars[query])


@compiled
def scan_rows(
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
    bounds: NDArray[np.float64],
    byte_tables: NDArray[np.uint8],
    gram: NDArray[np.float32],
    levels: NDArray[np.uint8],
    levelled: NDArray[np.float64],
) -> None:
    """The same, a row at a time, where no byte shuffle is to be had."""
    for query in range(tables.shape[0]):
        for row in range(first, last):
            if allowed.shape[0] and not allowed[row]:
                continue
            score = linear_score(codes, row, tables, query)
            if levels.shape[0]:
                bar = bars[query] + bounds[query, 1]
                score = _with_term(score, codes, row, gram, levels, levelled, bar)
            if score < bars[query]:
                offer(used, bars, scores, rows, k, query, score, row)
