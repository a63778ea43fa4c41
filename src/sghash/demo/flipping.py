"""From one row to another, bit by bit: what codes between theirs decode to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.bits import pack_bits, unpack_bits


def flips(model: Any, start: NDArray[Any], end: NDArray[Any]) -> NDArray[np.float32]:
    """Decode the code of row `start` (d,) while it becomes that of `end`: (n_differing + 1, d).

    One bit more is flipped in each row: the one that brings the picture nearest to the last.
    """
    bits, target = unpack_bits(model.encode(np.stack([start, end])), model.code_bits)
    goal = model.decode(pack_bits(target[None]))[0]
    pictures = [model.decode(pack_bits(bits[None]))[0]]
    while (left := np.flatnonzero(bits != target)).size:
        tried = np.repeat(bits[None], len(left), axis=0)
        tried[np.arange(len(left)), left] ^= True
        decoded = model.decode(pack_bits(tried))
        best = int(np.argmin(((decoded - goal) ** 2).sum(axis=1)))
        bits = tried[best]
        pictures.append(decoded[best])
    return np.stack(pictures)


def flip_grid(
    model: Any, pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]], counts: Sequence[int]
) -> tuple[list[list[NDArray[Any] | None]], list[int]]:
    """Rows of a grid: start, its code decoded, after so many flips, after all, end; and how many.

    Where a pair differs in fewer bits than a count, the place stays empty.
    """
    grid: list[list[NDArray[Any] | None]] = []
    n_differing = []
    for start, end in pairs:
        pictures = flips(model, start, end)
        between = [pictures[n] if n < len(pictures) - 1 else None for n in counts]
        grid.append([start, pictures[0], *between, pictures[-1], end])
        n_differing.append(len(pictures) - 1)
    return grid, n_differing


def flip_titles(counts: Sequence[int]) -> list[str]:
    """What stands above the columns of `flip_grid`."""
    return ["image", "0 bits", *(str(n) for n in counts), "all", "image"]
