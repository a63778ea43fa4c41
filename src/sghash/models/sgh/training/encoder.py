"""The encoder within a step: logits forwards and gradients backwards, in memory that is kept.

    z = x W + relu(x V + c) O + b

with W `encoder_weights`, V `hidden_weights`, c `hidden_bias`, O `hidden_output`, b `encoder_bias`.
Without a hidden layer the parameters hold no V, c and O, and the middle term is missing. The bias b
is left to the caller: a step adds it, and sums its gradient, in passes that it makes anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sghash.models.sgh.paper.encoder import Encoder, HiddenLayer
from sghash.validation import Vectors

#: Parameters of the hidden layer, and all that `backward` fills.
HIDDEN = ("hidden_weights", "hidden_bias", "hidden_output")
WEIGHTS = ("encoder_weights", *HIDDEN)


def has_hidden(parameters: Mapping[str, Vectors]) -> bool:
    """Whether there is a hidden layer; `hidden_output` is a name that no decoder uses."""
    return "hidden_output" in parameters


def n_hidden_of(parameters: Mapping[str, Vectors]) -> int:
    """Return the number of hidden units."""
    return len(parameters["hidden_output"]) if has_hidden(parameters) else 0


def encoder_of(parameters: Mapping[str, Vectors]) -> Encoder:
    """Return the encoder that the parameters describe."""
    hidden = None
    if has_hidden(parameters):
        hidden = HiddenLayer(*(parameters[name] for name in HIDDEN))
    return Encoder(parameters["encoder_weights"], parameters["encoder_bias"], hidden)


class Space:
    """Memory for `m` rows: `logits` (m, n_bits), and of the hidden layer if there is one.

    `units` (m, n_hidden) are its values from `forward` to `backward`.
    """

    def __init__(self, n_rows: int, n_bits: int, n_hidden: int) -> None:
        self.logits = _buffer(n_rows, n_bits)
        self.units, self.by_units = (_buffer(n_rows, n_hidden) for _ in range(2))
        self.share = _buffer(n_rows if n_hidden else 0, n_bits)

    def part(self, rows: slice) -> Space:
        """Return the same memory, of some of the rows."""
        view = Space(0, 0, 0)
        view.logits, view.share = self.logits[rows], self.share[rows]
        view.units, view.by_units = self.units[rows], self.by_units[rows]
        return view


def gradient_buffers(parameters: Mapping[str, Vectors]) -> dict[str, Vectors]:
    """Return empty arrays for `backward` to fill, by name."""
    return {name: np.empty_like(parameters[name]) for name in WEIGHTS if name in parameters}


def forward(parameters: Mapping[str, Vectors], x: Vectors, space: Space) -> Vectors:
    """Return the logits (m, n_bits) of `x` (m, d), without the bias b, in the memory of `space`."""
    np.matmul(x, parameters["encoder_weights"], out=space.logits)
    if has_hidden(parameters):
        from sghash.kernels.learning.training import hidden_units

        np.matmul(x, parameters["hidden_weights"], out=space.units)
        hidden_units(space.units, parameters["hidden_bias"])
        np.matmul(space.units, parameters["hidden_output"], out=space.share)
        space.logits += space.share
    return space.logits


def backward(
    parameters: Mapping[str, Vectors],
    x: Vectors,
    slopes: Vectors,
    space: Space,
    out: Mapping[str, Vectors],
) -> None:
    """Fill `out` with the gradients by all `WEIGHTS`, from `slopes` (m, n_bits) by the logits.

    `space` is as `forward` of the same `x` left it.
    """
    np.matmul(x.T, slopes, out=out["encoder_weights"])
    if has_hidden(parameters):
        from sghash.kernels.learning.training import hidden_gradient

        np.matmul(space.units.T, slopes, out=out["hidden_output"])
        np.matmul(slopes, parameters["hidden_output"].T, out=space.by_units)
        hidden_gradient(space.by_units, space.units, out["hidden_bias"])
        np.matmul(x.T, space.by_units, out=out["hidden_weights"])


def _buffer(*shape: int) -> Vectors:
    return np.empty(shape, dtype=np.float32)
