"""The trainer's units: vectors around zero with mean variance one, so one learning rate fits all.

Only a shift and one factor for all columns: distances keep their meaning, and the parameters can
be given back in the caller's units exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sghash.models.sgh.training.encoder import HIDDEN
from sghash.models.sgh.training.optimizer import Parameters
from sghash.models.shared.axes import leading_axes, principal_axes
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
        mean32 = mean.astype(np.float32)
        variance = float(np.square(rows - mean32, dtype=np.float64).mean())
        # Constant data has no scale of its own.
        unit = float(np.sqrt(variance)) or 1.0
        return cls(mean32, unit, cosine)

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
        scaled = rows - self.shift
        scaled *= np.float32(1 / self.unit)
        return scaled

    def gather(self, vectors: NDArray[Any], rows: Ids, out: Vectors) -> None:
        """Fill `out` (m, d) with the chosen `rows`, in the trainer's units."""
        if self.cosine or vectors.dtype == np.float16:  # Numba has no float16 on CPUs
            out[...] = self.apply(vectors[rows].astype(np.float32))
            return
        from sghash.kernels.learning.training import gather_rows

        gather_rows(vectors, rows, self.shift, 1 / self.unit, out)


def unit_rows(vectors: Vectors) -> Vectors:
    """Rows divided by their length; a zero vector has no direction and stays zero."""
    from sghash.kernels.learning.training import unit_lengths

    units = np.empty(vectors.shape, dtype=np.float32)
    unit_lengths(np.ascontiguousarray(vectors, dtype=np.float32), units)
    return units


#: Standard deviation of a leading coordinate, and so of a logit at the start.
SPREAD = 2.0
#: Up to this width all axes are computed; beyond, the leading ones by subspace iteration.
EXACT_WIDTH = 256
BLOCK_ROWS = 8192


class PrincipalScaling(NamedTuple):
    """x' = `factor` * x @ `axes` for x in the units of `outer`; axes (d, D)."""

    outer: Scaling
    axes: Vectors
    factor: float

    @classmethod
    def of(
        cls, sample: Vectors, outer: Scaling, n_bits: int, n_axes: int, rng: np.random.Generator
    ) -> PrincipalScaling:
        """Learn from a sample (n, d) of raw vectors; `n_axes` are kept at most."""
        scaled = outer.apply(sample)
        n_axes = min(scaled.shape[1], n_axes)
        if scaled.shape[1] <= max(n_bits, EXACT_WIDTH):
            axes = principal_axes(scaled, n_axes).axes
            # Constant columns carry no weight at all, not even rounding: their values may be huge.
            axes = axes * (np.ptp(scaled, axis=0) > 0)[:, None]
        else:
            axes = leading_axes(scaled, n_axes, rng)
        if axes.shape[1] == 0:  # constant data
            axes = np.zeros((scaled.shape[1], 1), dtype=np.float32)
        inside = scaled @ axes[:, :n_bits]
        leading = float(inside.var(axis=0, dtype=np.float64).mean()) if inside.size else 0.0
        factor = SPREAD / np.sqrt(leading) if leading > 0 else 1.0
        return cls(outer, np.ascontiguousarray(axes, dtype=np.float32), float(factor))

    @property
    def unit(self) -> float:
        """Length of one unit in the caller's."""
        return self.outer.unit / self.factor

    @property
    def mean(self) -> Vectors:
        """What `outer` shifts by, in these coordinates (D,)."""
        return np.asarray(self.outer.shift @ self.axes / self.unit, dtype=np.float32)

    def apply(self, vectors: Vectors) -> Vectors:
        """Bring raw vectors (n, d) into principal coordinates (n, D)."""
        turn = self.axes * np.float32(self.factor)
        buffer = np.empty((len(vectors), turn.shape[1]), dtype=np.float32)
        for start in range(0, len(vectors), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            np.matmul(self.outer.apply(vectors[block]), turn, out=buffer[block])
        return buffer

    def gather(self, vectors: NDArray[Any], rows: Ids, out: Vectors) -> None:
        """Fill `out` (m, D) with the chosen `rows`."""
        out[...] = self.apply(vectors[rows].astype(np.float32))

    def lift(self, parameters: Parameters) -> Parameters:
        """Return the encoder and decoder for vectors in the units of `outer`."""
        back = self.axes.T / np.float32(self.factor)
        hidden = {name: parameters[name] for name in HIDDEN if name in parameters}
        if hidden:
            hidden["hidden_weights"] = self.axes @ hidden["hidden_weights"] * self.factor
        return Parameters(
            {
                "encoder_weights": self.axes @ parameters["encoder_weights"] * self.factor,
                "encoder_bias": parameters["encoder_bias"],
                "decoder_weights": parameters["decoder_weights"] @ back,
                "decoder_bias": parameters["decoder_bias"] @ back,
                "log_noise": parameters["log_noise"] - 2 * np.log(self.factor),
                "prior_logits": parameters["prior_logits"],
                **hidden,
            }
        )
