"""Packed rows of any width as 64-bit words, the unit all kernels compute with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import word_at


@compiled
def stage_words(codes: NDArray[np.uint8], start: int, stop: int, words: NDArray[np.uint64]) -> None:
    """Copy rows into `words` (n_words, m) as little-endian 64-bit words, padded with zeros."""
    n_bytes = codes.shape[1]
    n_rows = stop - start
    for word in range(words.shape[0]):
        first = word * 8
        width = min(8, n_bytes - first)
        address = codes.ctypes.data + start * n_bytes + first
        if width == 8:
            for i in range(n_rows):
                words[word, i] = word_at(address + i * n_bytes)
        else:
            for i in range(n_rows):
                value = np.uint64(0)
                for byte in range(width):
                    value |= np.uint64(codes[start + i, first + byte]) << np.uint64(8 * byte)
                words[word, i] = value
        for i in range(n_rows, words.shape[1]):
            words[word, i] = np.uint64(0)


def words_of(codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Rows (n, n_bytes) as (n, n_words) words, in the same order as `stage_words`."""
    n_words = (codes.shape[1] + 7) // 8
    padded = np.zeros((len(codes), n_words * 8), dtype=np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view("<u8").astype(np.uint64, copy=False)
