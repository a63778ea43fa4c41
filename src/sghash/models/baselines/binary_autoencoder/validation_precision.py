"""Precision of codes on a few training rows, to see whether a step of training helped."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sghash.bits import pack_bits
from sghash.validation import Vectors

_NEIGHBOURS_PER_ROW = 0.002


class ValidationPrecision:
    """Part of the k nearest codes of a row that are among its k nearest vectors.

    k is 0.2 % of the rows, as in the binary autoencoder's program.
    """

    def __init__(self, vectors: Vectors, n_rows: int, rng: Generator) -> None:
        """Choose `n_rows` of the vectors and find their true neighbours; 0 rows watch nothing."""
        from sghash.kernels import exact_neighbors

        n_rows = min(n_rows, len(vectors))
        self._k = max(1, int(_NEIGHBOURS_PER_ROW * len(vectors)))
        self._rows = np.sort(rng.choice(len(vectors), n_rows, replace=False))
        if n_rows:
            self._truth = exact_neighbors(vectors, vectors[self._rows], self._k).ids

    def measure(self, bits: NDArray[np.bool_]) -> float:
        """Mean precision of bits (n, n_bits) of all vectors; 1 if nothing is watched."""
        from sghash.kernels import hamming_neighbors

        if not len(self._rows):
            return 1.0
        codes = pack_bits(bits)
        found = hamming_neighbors(codes, codes[self._rows], self._k, n_bits=bits.shape[1]).ids
        common = [len(np.intersect1d(a, b)) for a, b in zip(found, self._truth, strict=True)]
        return float(np.mean(common)) / self._k
