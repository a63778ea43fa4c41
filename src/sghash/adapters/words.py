"""Codes as numbers of 64 bits, for engines that count the bits of numbers but know no codes.

Word 0 holds bytes 0 to 7 with byte 0 most significant, so that a word in hexadecimal reads as the
code does; what is left of the last word is zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.validation import Codes, n_bytes_of

Words = NDArray[np.uint64]


def n_words_of(n_bits: int) -> int:
    """Words that one code takes."""
    return -(-n_bits // 64)


def word_names(n_bits: int) -> list[str]:
    """Names of the columns: w0, w1, ..."""
    return [f"w{number}" for number in range(n_words_of(n_bits))]


def to_words(codes: Codes) -> Words:
    """Words (n, n_words) uint64 of codes (n, n_bytes)."""
    n, n_bytes = codes.shape
    padded = np.zeros((n, -(-n_bytes // 8) * 8), dtype=np.uint8)
    padded[:, :n_bytes] = codes
    return padded.view(">u8").astype(np.uint64)


def from_words(words: Words, n_bits: int) -> Codes:
    """Codes (n, n_bytes) of words (n, n_words); what stands behind the last byte is left out."""
    whole = np.ascontiguousarray(words).astype(">u8").view(np.uint8)
    return np.ascontiguousarray(
        whole.reshape(len(words), 8 * words.shape[1])[:, : n_bytes_of(n_bits)]
    )
