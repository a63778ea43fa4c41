"""Random hyperplanes.

Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from sghash.models.base import BinaryHasher
from sghash.validation import Vectors


class LSH(BinaryHasher):
    """Signs of random Gaussian projections; any number of bits.

    Parameters
    ----------
    n_bits : int
        Code length.
    center : bool
        Subtract the training mean first. The textbook method does not (False), yet without it
        data away from the origin gives useless bits, so the default is the stronger rival.
    random_state : int, RandomState or None
        Seed of the hyperplanes.
    """

    _learned: ClassVar[tuple[str, ...]] = ("projection_", "offset_")

    def __init__(
        self, *, n_bits: int = 64, center: bool = True, random_state: int | None = None
    ) -> None:
        self.n_bits, self.center, self.random_state = n_bits, center, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        rng = check_random_state(self.random_state)
        width = vectors.shape[1]
        self.projection_ = rng.standard_normal((width, self.n_bits)).astype(np.float32)
        mean = vectors.mean(axis=0, dtype=np.float64) if self.center else np.zeros(width)
        self.offset_ = -(mean @ self.projection_).astype(np.float32)

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return vectors @ self.projection_ + self.offset_ > 0
