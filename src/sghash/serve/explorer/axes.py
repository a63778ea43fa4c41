"""Principal axes: the two directions in which rows differ most, for a map of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.validation import Vectors

# Axes are learned from so many rows; more would not move them visibly.
MOST_ROWS = 10_000
_ROUNDS, _SPARE = 12, 6


class Axes(NamedTuple):
    """`mean` (d,) and two `directions` (2, d) of unit length."""

    mean: Vectors
    directions: Vectors

    def places(self, rows: Vectors) -> Vectors:
        """Where rows (n, d) lie on the map: (n, 2)."""
        return np.asarray((rows - self.mean) @ self.directions.T, dtype=np.float32)


def principal_axes(rows: Vectors) -> Axes:
    """The first two principal axes of rows (n, d), by subspace iteration; the same every time."""
    chosen = rows
    rng = np.random.default_rng(0)
    if len(rows) > MOST_ROWS:
        chosen = rows[np.sort(rng.choice(len(rows), MOST_ROWS, replace=False))]
    width = rows.shape[1]
    mean = chosen.mean(axis=0) if len(chosen) else np.zeros(width, np.float32)
    centred = (chosen - mean).astype(np.float32)
    basis = rng.standard_normal((width, min(width, 2 + _SPARE))).astype(np.float32)
    for _ in range(_ROUNDS):
        basis = np.linalg.qr(centred.T @ (centred @ basis))[0]
    projected = centred @ basis
    _, vectors = np.linalg.eigh((projected.T @ projected).astype(np.float64))
    directions = (basis @ vectors[:, ::-1][:, :2]).T
    return Axes(mean.astype(np.float32), _with_sign(_two(directions.astype(np.float32), width)))


def _two(directions: NDArray[np.float32], width: int) -> Vectors:
    """Two directions, also of rows with one column: the second is then nothing."""
    if len(directions) == 2:
        return directions
    return np.vstack([directions, np.zeros((2 - len(directions), width), np.float32)])


def _with_sign(directions: Vectors) -> Vectors:
    """An axis has no front: its largest number shall be positive."""
    largest = np.argmax(np.abs(directions), axis=1)
    signs = np.sign(directions[np.arange(len(directions)), largest])
    return directions * np.where(signs == 0, 1, signs)[:, None]
