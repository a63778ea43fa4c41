"""Signs of the coordinates: the "binary quantization" that vector databases offer.

The optional rotation is that of Jégou, Furon and Fuchs, "Anti-sparse coding for approximate
nearest neighbor search", ICASSP 2012, and of today's one-bit quantizers.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.models.base import BinaryHasher
from sghash.models.capabilities import Capabilities
from sghash.models.shared.axes import semi_orthogonal
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import Vectors, check_choice, check_flag


class SignHashing(BinaryHasher):
    """One bit per coordinate: is it above the threshold?

    Set `n_bits` to the width d of the vectors to get what vector databases store. Fewer bits take
    the first coordinates only (or, with `rotate`, as many random orthonormal directions); more
    bits add signs along random directions, orthonormal d at a time.

    Parameters
    ----------
    n_bits : int
        Code length.
    threshold : "zero" or "mean"
        Compare with 0, as the databases do, or with each coordinate's training mean.
    rotate : bool
        Turn the vectors by a random rotation first.
    random_state : int, Generator or None
        Seed of the rotation and of the directions beyond d.

    Attributes
    ----------
    threshold_ : (d,)
        What is subtracted from a vector.
    directions_ : (d, n_bits) or (d, max(0, n_bits - d))
        With `rotate`, the directions of all bits; otherwise of those beyond d.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(onnx=True)
    learned_names: ClassVar[tuple[str, ...]] = ("threshold_", "directions_")

    def __init__(
        self,
        n_bits: int = 64,
        *,
        threshold: str = "zero",
        rotate: bool = False,
        random_state: Seed = None,
    ) -> None:
        self.n_bits, self.threshold, self.rotate = n_bits, threshold, rotate
        self.random_state = random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        check_choice(self.threshold, ("zero", "mean"), name="threshold")
        check_flag(self.rotate, name="rotate")
        rng = generator_of(self.random_state)
        width = vectors.shape[1]
        self.threshold_ = np.zeros(width, dtype=np.float32)
        if self.threshold == "mean":
            self.threshold_ = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        n_directions = self.n_bits if self.rotate else max(0, self.n_bits - width)
        parts = [
            semi_orthogonal(width, min(width, n_directions - first), rng)
            for first in range(0, n_directions, width)
        ]
        self.directions_ = np.hstack([np.zeros((width, 0)), *parts]).astype(np.float32)

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        shifted = vectors - self.threshold_
        along = shifted @ self.directions_ > 0
        n_coordinates = self.n_bits - self.directions_.shape[1]
        return np.hstack([shifted[:, :n_coordinates] > 0, along])
