"""Rows into turned blocks of 64, and out of them: slot s is code s % 64 of block s // 64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled


@compiled
def put_rows(
    rows: NDArray[np.uint8], slots: NDArray[np.int64], blocks: NDArray[np.uint8], first_plane: int
) -> None:
    """Write rows (n, width) to `slots` (n,) of `blocks` (n_blocks, n_planes, 64)."""
    for i in range(rows.shape[0]):
        block, code = slots[i] >> 6, slots[i] & 63
        for byte in range(rows.shape[1]):
            blocks[block, first_plane + byte, code] = rows[i, byte]


@compiled
def take_rows(blocks: NDArray[np.uint8], slots: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
    """Read rows (n, width) from `slots` (n,): the first planes of their blocks."""
    for i in range(out.shape[0]):
        block, code = slots[i] >> 6, slots[i] & 63
        for byte in range(out.shape[1]):
            out[i, byte] = blocks[block, byte, code]


@compiled
def free_slots(
    lists: NDArray[np.int64],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    slots: NDArray[np.int64],
) -> None:
    """A slot for each row of these `lists` (n,), and the `counts` that follow from it."""
    for i in range(lists.shape[0]):
        where = lists[i]
        slots[i] = starts[where] * 64 + counts[where]
        counts[where] += 1


@compiled
def count_ranks(
    ranks: NDArray[np.uint32],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    seen: NDArray[np.uint8],
) -> bool:
    """Count how often each row is in the lists, up to 255; False if there is no such row."""
    for where in range(starts.shape[0]):
        for slot in range(starts[where] * 64, starts[where] * 64 + counts[where]):
            row = ranks[slot]
            if row >= seen.shape[0]:
                return False
            if seen[row] < 255:
                seen[row] += np.uint8(1)
    return True


@compiled
def used_slots(
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    slots: NDArray[np.int64],
    lists: NDArray[np.int64],
) -> None:
    """Every slot in use, list by list, and the list that it belongs to."""
    used = 0
    for where in range(starts.shape[0]):
        for i in range(counts[where]):
            slots[used] = starts[where] * 64 + i
            lists[used] = where
            used += 1
