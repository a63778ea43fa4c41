"""One way to sort pairs, for all kernels that write answers in order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled


@compiled
def sort_pairs(scores: NDArray[np.float32], numbers: NDArray[np.int64]) -> None:
    """Sort both in place by (score, number): Shell's way.

    Quick for the few that are left of many, and compiled in a tenth of the time of NumPy's sorts.
    """
    n = numbers.shape[0]
    gap = 1
    while 3 * gap + 1 < n:
        gap = 3 * gap + 1
    while gap:
        for i in range(gap, n):
            score, number = scores[i], numbers[i]
            j = i
            while j >= gap and (
                score < scores[j - gap] or (score == scores[j - gap] and number < numbers[j - gap])
            ):
                scores[j], numbers[j] = scores[j - gap], numbers[j - gap]
                j -= gap
            scores[j], numbers[j] = score, number
        gap //= 3
