"""Packed rows of any width as 64-bit words, the unit all kernels compute with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import LANES, word_at


@compiled
def word_of(codes: NDArray[np.uint8], row: int, word: int) -> np.uint64:
    """Word `word` of a row, lowest byte first, padded with zeros."""
    n_bytes = codes.shape[1]
    first = word * 8
    if first + 8 <= n_bytes:
        return word_at(codes, row * n_bytes + first)
    value = np.uint64(0)
    for byte in range(n_bytes - first):
        value |= np.uint64(codes[row, first + byte]) << np.uint64(8 * byte)
    return value


@compiled
def stage_tile(codes: NDArray[np.uint8], start: int, stop: int, words: NDArray[np.uint64]) -> None:
    """Copy rows into `words` (n_words, 64 * LANES), padded with zeros.

    Lane l of vector r is row 64 l + r: after the transpose, a lane's bits are consecutive rows.
    """
    n_rows = stop - start
    for word in range(words.shape[0]):
        for lane in range(LANES):
            for place in range(64):
                i = lane * 64 + place
                words[word, place * LANES + lane] = (
                    word_of(codes, start + i, word) if i < n_rows else np.uint64(0)
                )


def words_of(codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Rows (n, n_bytes) as (n, n_words) words, the same as `word_of`."""
    n_words = (codes.shape[1] + 7) // 8
    padded = np.zeros((len(codes), n_words * 8), dtype=np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view("<u8").astype(np.uint64, copy=False)
