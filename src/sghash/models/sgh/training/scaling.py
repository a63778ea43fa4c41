"""The trainer's units: vectors around zero with mean variance one, so one learning rate fits all.

Only a shift and one factor for all columns: distances keep their meaning, and the parameters can
be given back in the caller's units exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sghash.models.sgh.training.parameters import Parameters
from sghash.validation import Ids, Vectors

# Types that float32 holds exactly: arrays of them are trained on as they are stored.
STORED = [np.float32, np.uint8, np.int8, np.uint16, np.int16, np.float16]


class Units(Protocol):
    """Units that a trainer works in."""

    @property
    def unit(self) -> float:
        """Length of one unit in the caller's."""
        ...

    @property
    def outer(self) -> Scaling:
        """The units that `lift` leads to: the caller's columns, shifted and scaled."""
        ...

    def apply(self, vectors: Vectors) -> Vectors:
        """Bring raw float32 vectors (n, d) into these units."""
        ...

    def gather(self, vectors: NDArray[Any], rows: Ids, out: Vectors) -> None:
        """Fill `out` with the chosen `rows` in these units."""
        ...

    def lift(self, parameters: Parameters) -> Parameters:
        """Return the parameters in the units of `outer`."""
        ...


class Scaling(NamedTuple):
    """x' = (x - `shift`) / `unit`, then to unit length first if `cosine`."""

    shift: Vectors
    unit: float
    cosine: bool

    @classmethod
    def of(cls, sample: Vectors, *, cosine: bool, standardize: bool) -> Scaling:
        """Measure a sample (n, d) of raw vectors; `standardize=False` keeps their units."""
        width = sample.shape[1]
        if not standardize:
            return cls(np.zeros(width, dtype=np.float32), 1.0, cosine)
        rows = unit_rows(sample) if cosine else sample
        mean = rows.mean(axis=0, dtype=np.float64)
        variance = float(np.square(rows - mean).mean())
        # Constant data has no scale of its own.
        unit = float(np.sqrt(variance)) or 1.0
        return cls(mean.astype(np.float32), unit, cosine)

    @property
    def outer(self) -> Scaling:
        """Itself."""
        return self

    def lift(self, parameters: Parameters) -> Parameters:
        """Return the parameters as they are."""
        return parameters

    def apply(self, vectors: Vectors) -> Vectors:
        """Bring raw float32 vectors (n, d) into the trainer's units."""
        rows = unit_rows(vectors) if self.cosine else vectors
        return (rows - self.shift) * np.float32(1 / self.unit)

    def gather(self, vectors: NDArray[Any], rows: Ids, out: Vectors) -> None:
        """Fill `out` (m, d) with the chosen `rows`, in the trainer's units."""
        if self.cosine or vectors.dtype == np.float16:  # Numba has no float16 on CPUs
            out[...] = self.apply(vectors[rows].astype(np.float32))
            return
        from sghash.kernels.learning.training import gather_rows

        gather_rows(vectors, rows, self.shift, 1 / self.unit, out)


def unit_rows(vectors: Vectors) -> Vectors:
    """Rows divided by their length; a zero vector has no direction and stays zero."""
    lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1, keepdims=True))
    lengths[lengths == 0] = 1
    return (vectors / lengths).astype(np.float32)
