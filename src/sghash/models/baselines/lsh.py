"""Random hyperplanes.

Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.models.base import BinaryHasher
from sghash.models.capabilities import Capabilities
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import Vectors, check_flag


class LSH(BinaryHasher):
    """Signs of random Gaussian projections; any number of bits.

    Parameters
    ----------
    n_bits : int
        Code length.
    center : bool
        Subtract the training mean first. The textbook method does not (False), yet without it
        data away from the origin gives useless bits, so the default is the stronger rival.
    random_state : int, Generator or None
        Seed of the hyperplanes.

    Attributes
    ----------
    mean_ : (d,)
        What is subtracted from a vector; zero without `center`.
    projection_ : (d, n_bits)
        A bit is set where the centred vector times its column is positive.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(onnx=True)
    learned_names: ClassVar[tuple[str, ...]] = ("mean_", "projection_")

    def __init__(self, n_bits: int = 64, *, center: bool = True, random_state: Seed = None) -> None:
        self.n_bits, self.center, self.random_state = n_bits, center, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        check_flag(self.center, name="center")
        rng = generator_of(self.random_state)
        width = vectors.shape[1]
        self.projection_ = rng.standard_normal((width, self.n_bits)).astype(np.float32)
        self.mean_ = np.zeros(width, dtype=np.float32)
        if self.center:
            self.mean_ = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        # Subtracting first keeps all digits of data that lie far from the origin.
        return (vectors - self.mean_) @ self.projection_ > 0
