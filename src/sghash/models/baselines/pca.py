"""Signs of principal components.

Wang, Kumar and Chang, "Semi-Supervised Hashing for Scalable Image Retrieval", CVPR 2010, whose
unsupervised case this is; the usual baseline "PCAH" of the field.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.models.base import BinaryHasher
from sghash.models.capabilities import Capabilities
from sghash.models.shared.axes import principal_axes, semi_orthogonal
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import Vectors


class PCAHashing(BinaryHasher):
    """Signs of the `n_bits` principal components with the largest variance.

    Beyond the paper: where `n_bits` exceeds the rank r of the data, the r components are spread
    over `n_bits` columns by a random (r, n_bits) matrix with orthonormal rows, and signs are taken
    of those.

    Parameters
    ----------
    n_bits : int
        Code length.
    random_state : int, Generator or None
        Seed of the expansion; without effect while `n_bits` is within the rank.

    Attributes
    ----------
    mean_ : (d,)
        Mean of the training vectors.
    projection_ : (d, n_bits)
        A bit is set where the centred vector times its column is positive.
    variances_ : (r,)
        Variances along the axes used, from large to small.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(onnx=True)
    learned_names: ClassVar[tuple[str, ...]] = ("mean_", "projection_", "variances_")

    def __init__(self, n_bits: int = 64, *, random_state: Seed = None) -> None:
        self.n_bits, self.random_state = n_bits, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        rng = generator_of(self.random_state)
        self.mean_, axes, self.variances_ = principal_axes(vectors, self.n_bits)
        rank = axes.shape[1]
        if rank < self.n_bits:
            axes = (axes @ semi_orthogonal(rank, self.n_bits, rng)).astype(np.float32)
        self.projection_ = axes

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return (vectors - self.mean_) @ self.projection_ > 0
