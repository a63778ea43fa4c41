"""The best binary codes for a given linear decoder and a pull towards given bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.models.shared.blockwise import sum_over_blocks
from sghash.models.shared.least_squares import LinearDecoder
from sghash.validation import Vectors

_SWEEPS = 100
_RELAXED_STEPS = 40
_ROWS_AT_ONCE = 1024


class CodeStep:
    """Minimises |x - c - W z|² + penalty * |z - h|² over z in {0, 1}, for every row by itself.

    With K = W.T W that is z K z - 2 a z plus a constant, where a = W.T (x - c) + penalty (h - 1/2).
    """

    def __init__(self, decoder: LinearDecoder, penalty: float, *, exact: bool) -> None:
        """Take a decoder of signs ±1; `exact` tries all codes instead of descending bit by bit."""
        # From signs to bits: s = 2 z - 1.
        self._weights = 2 * decoder.weights
        self._offset = decoder.offset - decoder.weights.sum(axis=0)
        self._penalty = np.float32(penalty)
        wide = self._weights.astype(np.float64)
        self._gram = (wide @ wide.T).astype(np.float32)
        self._exact = exact

    def objective(
        self, vectors: Vectors, pull: NDArray[np.bool_], codes: NDArray[np.bool_]
    ) -> float:
        """Mean over rows of what is minimised, for given codes (n, l) and bits h = `pull`."""

        def of_block(
            block: Vectors, its_pull: NDArray[np.bool_], its_codes: NDArray[np.bool_]
        ) -> tuple[NDArray[np.float64]]:
            rest = block - self._offset - its_codes.astype(np.float32) @ self._weights
            squares = np.einsum("ij,ij->", rest, rest, dtype=np.float64)
            return (np.array([squares + self._penalty * np.sum(its_codes != its_pull)]),)

        return float(sum_over_blocks(of_block, vectors, pull, codes)[0][0]) / len(vectors)

    def minimise(
        self, vectors: Vectors, pull: NDArray[np.bool_], codes: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], float]:
        """The codes (n, l), no worse than `codes` in any row, and the objective they reach."""
        found = codes.copy()
        step = self._try_all if self._exact else self._descend

        def of_block(
            block: Vectors, its_pull: NDArray[np.bool_], out: NDArray[np.bool_]
        ) -> tuple[NDArray[np.int64]]:
            products = (block - self._offset) @ self._weights.T
            out[:] = step(products, its_pull, out)
            return (np.zeros(1, dtype=np.int64),)

        sum_over_blocks(of_block, vectors, pull, found)
        return found, self.objective(vectors, pull, found)

    def _try_all(
        self, products: Vectors, pull: NDArray[np.bool_], codes: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        n_bits = products.shape[1]
        table = (np.arange(1 << n_bits)[:, None] >> np.arange(n_bits)[::-1]) & 1 > 0
        every = table.astype(np.float32)
        own = np.einsum("ij,ij->i", every @ self._gram, every)
        targets = products + self._penalty * (pull - np.float32(0.5))
        found = np.empty_like(codes)
        for first in range(0, len(targets), _ROWS_AT_ONCE):
            scores = own - 2 * (targets[first : first + _ROWS_AT_ONCE] @ every.T)
            found[first : first + _ROWS_AT_ONCE] = table[scores.argmin(axis=1)]
        return found

    def _descend(
        self, products: Vectors, pull: NDArray[np.bool_], codes: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Descend from the present codes and from the rounded relaxed ones; keep the better."""
        from sghash.kernels.learning.descent import descend_bits

        targets = products + self._penalty * (pull - np.float32(0.5))
        present, relaxed = codes.astype(np.float32), self._relaxed(products, pull)
        present_scores = descend_bits(self._gram, targets, present, _SWEEPS)
        relaxed_scores = descend_bits(self._gram, targets, relaxed, _SWEEPS)
        better = relaxed_scores < present_scores
        present[better] = relaxed[better]
        return present > 0

    def _relaxed(self, products: Vectors, pull: NDArray[np.bool_]) -> Vectors:
        """Minimise over z in [0, 1] by the alternating direction method of multipliers."""
        matrix = self._gram.astype(np.float64) + self._penalty * np.eye(len(self._gram))
        values = np.linalg.eigvalsh(matrix)
        rho = float(np.sqrt(max(values[-1], 1e-12) * max(values[0], 1e-4 * values[-1], 1e-12)))
        inverse = np.linalg.inv(matrix + rho * np.eye(len(matrix))).astype(np.float32)
        wanted = products + self._penalty * pull.astype(np.float32)
        boxed, dual = pull.astype(np.float32), np.zeros_like(wanted)
        for _ in range(_RELAXED_STEPS):
            free = (wanted + np.float32(rho) * (boxed - dual)) @ inverse
            boxed = np.clip(free + dual, 0, 1)
            dual += free - boxed
        return boxed
