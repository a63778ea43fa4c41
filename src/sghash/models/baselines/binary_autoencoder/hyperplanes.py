"""Linear classifiers, one per bit, all trained together.

The rows are turned to their principal axes and scaled so that the curvature of every classifier's
objective is at most 1 in every direction. Nesterov's method then needs no step size and few
passes, and a pass is two matrix products for all bits at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.models.shared.axes import PrincipalAxes
from sghash.models.shared.blockwise import map_over_blocks, sum_over_blocks
from sghash.validation import Vectors


class Loss(NamedTuple):
    """The largest second derivative of a loss of the margin, and its negative slope."""

    curvature: float
    descent: Callable[[Vectors], Vectors]


def _hinge_descent(margins: Vectors) -> Vectors:
    """Twice what the margin lacks to 1: the squared hinge max(0, 1 - m)²."""
    descent: Vectors = np.maximum(1 - margins, 0)
    descent *= 2
    return descent


def _logistic_descent(margins: Vectors) -> Vectors:
    """The probability of error: log(1 + exp(-m))."""
    descent: Vectors = np.reciprocal(1 + np.exp(np.clip(margins, -80, 80)))
    return descent


LOSSES = {"svm": Loss(2.0, _hinge_descent), "logistic": Loss(0.25, _logistic_descent)}


class Trainer:
    """Trains l2-regularised classifiers: |w|² / 2 + C times the sum of the losses of all rows."""

    def __init__(self, vectors: Vectors, basis: PrincipalAxes, size: float, loss: str, c: float):
        """Prepare the features of vectors (n, d), divided by `size` before C counts."""
        self._loss = LOSSES[loss]
        ridge = 1 / (c * len(vectors))
        variances = np.append(basis.variances / size**2, 1.0)
        scales = 1 / np.sqrt(self._loss.curvature * variances + ridge)
        self._ridge = (ridge * scales**2).astype(np.float32)[:, None]
        self._turn = (basis.axes * (scales[:-1] / size)).astype(np.float32)
        self._constant = np.float32(scales[-1])
        self._mean = basis.mean
        self.features = map_over_blocks(self._features, vectors)

    def _features(self, block: Vectors) -> Vectors:
        constant = np.full((len(block), 1), self._constant, dtype=np.float32)
        return np.hstack([(block - self._mean) @ self._turn, constant])

    def bits(self, weights: Vectors) -> NDArray[np.bool_]:
        """Bits (n, l) of the training vectors by classifiers with `weights` (r + 1, l)."""
        return map_over_blocks(lambda block: block @ weights > 0, self.features)

    def start(self, projection: Vectors) -> Vectors:
        """Weights that give the same bits as centred vectors times `projection` (d, l)."""
        squares = np.square(self._turn, dtype=np.float64).sum(axis=0)[:, None]
        weights = (self._turn.T @ projection) / squares
        return np.vstack([weights, np.zeros((1, projection.shape[1]))]).astype(np.float32)

    def in_input_space(self, weights: Vectors) -> tuple[Vectors, Vectors]:
        """The hyperplanes as projection (d, l) of centred vectors and offset (l,)."""
        return self._turn @ weights[:-1], self._constant * weights[-1]

    def improve(self, weights: Vectors, bits: NDArray[np.bool_], n_steps: int) -> Vectors:
        """Take `n_steps` accelerated steps towards the classifiers of `bits` (n, l)."""
        n, here, ahead = len(bits), weights, weights
        momentum = np.ones(weights.shape[1])
        for _ in range(n_steps):
            slope = self._slope(ahead, bits) / n - self._ridge * ahead
            moved = (ahead + slope).astype(np.float32)
            # Where the last move went uphill, the speed gathered so far is dropped.
            uphill = np.einsum("ij,ij->j", slope, moved - here) < 0
            momentum[uphill] = 1.0
            faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            push = ((momentum - 1) / faster).astype(np.float32)
            ahead = moved + push * (moved - here)
            here, momentum = moved, faster
        return here

    def _slope(self, weights: Vectors, bits: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Direction (r + 1, l) of steepest descent of the summed losses."""

        def of_block(block: Vectors, its_bits: NDArray[np.bool_]) -> tuple[NDArray[np.float64]]:
            margins = block @ weights
            signs = np.where(its_bits, np.float32(1), np.float32(-1))
            margins *= signs
            descent = self._loss.descent(margins)
            descent *= signs
            return ((block.T @ descent).astype(np.float64),)

        return sum_over_blocks(of_block, self.features, bits)[0]
