"""Principal component analysis, the best linear reconstruction from real numbers.

Pearson, "On lines and planes of closest fit to systems of points in space", 1901.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.models.base import BLOCK_ROWS, VectorModel
from sghash.models.capabilities import Capabilities, Length
from sghash.models.inputs import check_is_fitted, refuse_one_vector
from sghash.models.shared.axes import principal_axes
from sghash.models.shared.feature_names import output_names
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import MAX_BITS, Vectors, check_count, check_vectors


class PCAReconstruction(VectorModel):
    """Each vector as `n_components` real numbers: a bound, not a rival, for codes of as many bits.

    Not a hashing model: a code is a row of float32, 32 times as large as one of bits. Components
    beyond the rank of the data are zero.

    Parameters
    ----------
    n_components : int
        Numbers per code; compare with binary codes of as many bits.
    random_state : int, Generator or None
        Accepted like everywhere; the method draws nothing.

    Attributes
    ----------
    mean_ : (d,)
        Mean of the training vectors.
    components_ : (n_components, d)
        Orthonormal rows, the largest variance first; zero rows beyond the rank.
    variances_ : (n_components,)
        Variance along each component.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        "numbers", Length("n_components", 32, most=MAX_BITS // 32), decodes=True
    )
    learned_names: ClassVar[tuple[str, ...]] = ("mean_", "components_", "variances_")

    def __init__(self, n_components: int = 64, *, random_state: Seed = None) -> None:
        self.n_components, self.random_state = n_components, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        check_count(self.n_components, name="n_components")
        generator_of(self.random_state)
        self.mean_, axes, variances = principal_axes(vectors, self.n_components)
        self.components_ = np.zeros((self.n_components, vectors.shape[1]), dtype=np.float32)
        self.components_[: axes.shape[1]] = axes.T
        self.variances_ = np.zeros(self.n_components)
        self.variances_[: axes.shape[1]] = variances

    def encode(self, X: ArrayLike | VectorSource, *, sweeps: int = 0) -> Vectors:
        """Components (n, n_components) float32 of each row of `X` (n, d)."""
        self._check_sweeps(sweeps)
        source = self._vectors_to_read(X)
        codes = np.empty((source.shape[0], self.n_components), dtype=np.float32)
        for first, block in blocks_of(source, BLOCK_ROWS):
            rows = self._checked(block)
            # In float64: the last bit of a float32 product depends on how many rows there are.
            centred = (rows - self.mean_).astype(np.float64)
            codes[first : first + len(block)] = centred @ self.components_.T
        return codes

    def decode(self, codes: ArrayLike) -> Vectors:
        """Reconstruct vectors (n, d) float32 from components (n, n_components)."""
        check_is_fitted(self)
        checked = check_vectors(codes, width=self.n_components, name="codes")
        return checked @ self.components_ + self.mean_

    def transform(self, X: ArrayLike) -> Vectors:
        """Components of each row; the same as `encode`."""
        refuse_one_vector(X)
        return self.encode(X)

    def inverse_transform(self, X: ArrayLike) -> Vectors:
        """Reconstruct vectors from components; the same as `decode`."""
        return self.decode(X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: "component0", "component1", ..."""
        return output_names(self, input_features, "component", int(self.n_components))
