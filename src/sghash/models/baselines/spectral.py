"""Spectral hashing.

Weiss, Torralba and Fergus, "Spectral Hashing", NIPS 2008.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.models.base import BinaryHasher
from sghash.models.capabilities import Capabilities
from sghash.models.shared.axes import principal_axes
from sghash.models.shared.blockwise import map_over_blocks
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import Vectors


class SpectralHashing(BinaryHasher):
    """Signs of cosines along the principal axes, slowest oscillation first.

    The data are taken as uniform on a box along their principal axes. The eigenfunctions of the
    graph Laplacian on a box of side L are cos(k pi (x - a) / L), with an eigenvalue that grows
    with (k pi / L)²; the `n_bits` smallest over all axes and all k >= 1 become the bits. Products
    of several axes are left out, as in the paper. One axis gives as many bits as needed, so any
    number of bits works; axes without variance give none.

    As in the authors' program the box reaches from the smallest to the largest component, and a
    vector outside of it follows the cosine further. The vectors are centred first, which changes
    nothing but the rounding.

    Parameters
    ----------
    n_bits : int
        Code length.
    random_state : int, Generator or None
        Accepted like everywhere; the method draws nothing.

    Attributes
    ----------
    mean_, axes_ : (d,), (d, r)
        Mean and principal axes of the training vectors.
    corner_, sides_ : (r,)
        Lowest corner and side lengths of the box, along the axes.
    bit_axis_, bit_mode_ : (n_bits,)
        For every bit, its axis and the number k of half waves on it.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    learned_names: ClassVar[tuple[str, ...]] = (
        "mean_",
        "axes_",
        "corner_",
        "sides_",
        "bit_axis_",
        "bit_mode_",
    )

    def __init__(self, n_bits: int = 64, *, random_state: Seed = None) -> None:
        self.n_bits, self.random_state = n_bits, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        generator_of(self.random_state)
        self.mean_, self.axes_, _ = principal_axes(vectors, self.n_bits)
        components = map_over_blocks(lambda block: (block - self.mean_) @ self.axes_, vectors)
        self.corner_ = components.min(axis=0)
        self.sides_ = components.max(axis=0) - self.corner_
        self.bit_axis_, self.bit_mode_ = smallest_modes(self.sides_, self.n_bits)

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return map_over_blocks(self._block_bits, vectors)

    def _block_bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        if not len(self.sides_):
            return np.zeros((len(vectors), self.n_bits), dtype=np.bool_)
        # Positions in the box, from 0 to 1 on every axis.
        positions = ((vectors - self.mean_) @ self.axes_ - self.corner_) / self.sides_
        waves = np.float32(np.pi) * self.bit_mode_.astype(np.float32)
        return np.cos(waves * positions[:, self.bit_axis_]) > 0


def smallest_modes(
    sides: NDArray[np.floating], n_modes: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Axis and k >= 1 of the `n_modes` smallest eigenvalues (k pi / side)², in that order.

    Equal eigenvalues come in the order of their axes. Without any side, all are axis 0, k = 1.
    """
    if not len(sides):
        return np.zeros(n_modes, dtype=np.int32), np.ones(n_modes, dtype=np.int32)
    modes = np.arange(1, n_modes + 1)
    frequencies = modes[None, :] / sides.astype(np.float64)[:, None]
    order = np.argsort(frequencies, axis=None, kind="stable")[:n_modes]
    axis, column = np.unravel_index(order, frequencies.shape)
    return axis.astype(np.int32), modes[column].astype(np.int32)
