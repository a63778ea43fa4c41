"""A decoder of one's own: what `GeneralSGH(decoder=...)` needs to know of p(x | h) to learn it.

Two objects share the work. A `TrainableDecoder` knows how to learn; it keeps nothing of a fit, so
one object serves many. Its `at` makes a `MeanDecoder` of given parameters, which knows the numbers.
Everywhere, x are vectors (n, d) and h codes (n, n_bits) of real numbers: -1 and +1, or 0 and 1,
as the model's `coding` says. `sghash.models.sgh.variants.multinomial` is a short example.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from sghash.errors import InvalidInput
from sghash.models.sgh.paper.generative import Decoder, Floats, code_values
from sghash.models.sgh.training.start import Start
from sghash.validation import Vectors

#: Parameters of the encoder and of the prior, which a decoder's must not be called.
ENCODER_NAMES = ("encoder_weights", "encoder_bias", "prior_logits")
#: Rows on which a decoder is tried before training.
TRIED_ROWS = 5


class MeanDecoder(Decoder, Protocol):
    """p(x | h) with fixed numbers: `log_likelihood`, `code_gradient`, and which vector h means."""

    def mean(self, codes: Floats) -> Floats:
        """Vectors (n, d) that the codes h stand for: what `decode` returns."""
        ...


class TrainableDecoder(Protocol):
    """p(x | h) with parameters to learn, named float32 arrays of any shape.

    `standardize` says in which units x is learned: True, shifted and scaled by one factor to mean
    zero and mean variance one, so that one learning rate suits all data; False, as x is, for
    numbers that mean something by themselves, such as counts and chances.
    """

    @property
    def standardize(self) -> bool:
        """Whether vectors are shifted and scaled before the decoder sees them."""
        ...

    def refuse(self, vectors: Vectors) -> None:
        """Raise `InvalidInput` for raw vectors (n, d) that p(x | h) gives no chance at all."""
        ...

    def start_parameters(
        self, sample: Vectors, start: Start, rng: np.random.Generator
    ) -> Mapping[str, Floats]:
        """First values of all parameters, by names that are not the encoder's.

        `sample` (m, d) are vectors in the units of `standardize`; `start.decoder_weights`
        (n_bits, d), `start.decoder_bias` (d,) and `start.log_noise` are the linear decoder of
        least squared error for the first codes, in the same units.
        """
        ...

    def at(self, parameters: Mapping[str, Floats]) -> MeanDecoder:
        """Return the decoder that these parameters describe."""
        ...

    def parameter_gradients(
        self, parameters: Mapping[str, Floats], vectors: Vectors, codes: Floats
    ) -> Mapping[str, Floats]:
        """Gradients of the mean over the rows of -log p(x | h): every name, in its own shape."""
        ...

    def in_units(
        self, parameters: Mapping[str, Floats], unit: float, shift: Vectors
    ) -> Mapping[str, Floats]:
        """Parameters for raw vectors, x = unit * x' + shift, from those learned for x'.

        Never called where `standardize` is False.
        """
        ...


_METHODS = ("refuse", "start_parameters", "at", "parameter_gradients")


def check_trainable(decoder: Any, names: list[str]) -> None:
    """Refuse what is neither one of `names` nor an object with the methods of the protocol."""
    if isinstance(decoder, str):
        if decoder in names:
            return
        raise InvalidInput(
            f"decoder must be one of {', '.join(names)}, got {decoder!r}: add one of your own to "
            "sghash.models.sgh.variants.decoders.DECODERS first"
        )
    if not isinstance(getattr(decoder, "standardize", None), (bool, np.bool_)):
        raise InvalidInput(
            f"decoder must be one of {', '.join(names)}, or an object with `standardize` (True or "
            f"False) and the methods {', '.join(_METHODS)}; got {decoder!r}"
        )
    for method in (*_METHODS, *(["in_units"] if decoder.standardize else [])):
        if not callable(getattr(decoder, method, None)):
            raise InvalidInput(
                f"decoder {type(decoder).__name__} has no method {method}: write it as "
                "sghash.models.sgh.training.trainable.TrainableDecoder says"
            )


def try_decoder(
    decoder: TrainableDecoder,
    parameters: Mapping[str, Any],
    sample: Vectors,
    n_bits: int,
    coding: str,
) -> None:
    """Ask a decoder for everything once, at its first parameters, and refuse other shapes."""
    called = type(decoder).__name__
    for name, value in parameters.items():
        if name in ENCODER_NAMES:
            raise InvalidInput(f"{called}.start_parameters uses the encoder's name {name!r}")
        _expect(f"{called}.start_parameters()[{name!r}]", value, np.shape(value))
    rows = sample[:TRIED_ROWS]
    n, width = rows.shape
    bits = np.random.default_rng(0).random((n, n_bits)) < 0.5
    codes = code_values(bits, coding)
    with np.errstate(all="ignore"):
        made = decoder.at(parameters)
        for method in ("log_likelihood", "code_gradient", "mean"):
            if not callable(getattr(made, method, None)):
                raise InvalidInput(f"{called}.at gives an object without the method {method}")
        _expect(f"{called}.at().log_likelihood", made.log_likelihood(rows, codes), (n,))
        _expect(f"{called}.at().code_gradient", made.code_gradient(rows, codes), (n, n_bits))
        _expect(f"{called}.at().mean", made.mean(codes), (n, width))
        slopes = decoder.parameter_gradients(parameters, rows, codes)
    if set(slopes) != set(parameters):
        raise InvalidInput(
            f"{called}.parameter_gradients must give {sorted(parameters)}, got {sorted(slopes)}"
        )
    for name, value in slopes.items():
        shape = np.shape(parameters[name])
        _expect(f"{called}.parameter_gradients()[{name!r}]", value, shape)


def _expect(what: str, value: Any, shape: tuple[int, ...]) -> None:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.shape != shape:
        raise InvalidInput(
            f"{what} must be numbers of shape {shape}, got {array.dtype} of shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise InvalidInput(f"{what} gives NaN or infinite numbers for the first codes")
