"""One step's gradient of the objective by all parameters, in the trainer's units.

`GaussianStep` is the fast path: closed forms, five matrix products and fused passes between them.
`GeneralStep` serves any decoder through its log-likelihood, by finite differences in h.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from sghash.models.sgh.batches import Batch
from sghash.models.sgh.encoder import sigmoid
from sghash.models.sgh.generative import Decoder, Floats, code_step
from sghash.models.sgh.gradients import codes_for, general_differences
from sghash.models.sgh.parameters import Parameters
from sghash.models.sgh.start import NOISE_FLOOR
from sghash.models.sgh.terms import Terms
from sghash.validation import Vectors

# At which h a step looks at the decoder, as `kernels.training` counts them.
DRAW, MEAN, ROUND = 0, 1, 2


class Step(Protocol):
    """Fills a gradient."""

    def gradient(
        self,
        parameters: Parameters,
        batch: Batch,
        kl_weight: float,
        rng: np.random.Generator,
        out: Parameters,
    ) -> float:
        """Fill `out` with the gradient at `parameters`; return the loss of the decoder alone."""
        ...


class GaussianStep:
    """Gradient under the Gaussian decoder, with any of the four estimators.

    The parameters are `encoder_weights` (d, l), `encoder_bias`, `decoder_weights` (l, d),
    `decoder_bias`, `log_noise` (), `prior_logits`, and where the decoder is U * |scale| by column
    (the released script's form) `decoder_scale` (d,).
    """

    def __init__(
        self, *, estimator: str, coding: str, learn_noise: bool = True, terms: Terms | None = None
    ) -> None:
        self.estimator, self.signed = estimator, coding == "signed"
        self.step, self.learn_noise = code_step(coding), learn_noise
        self.terms = terms or Terms()
        self._is_difference = estimator in ("distributional", "exact")
        self._mode = {"exact": MEAN, "straight-through": ROUND}.get(estimator, DRAW)
        self._room: _Workspace | None = None

    def gradient(
        self,
        parameters: Parameters,
        batch: Batch,
        kl_weight: float,
        rng: np.random.Generator,
        out: Parameters,
    ) -> float:
        """Fill `out` with the gradient at `parameters`; return E[-log p(x | h)] in nats."""
        from sghash.kernels import training as kernels

        x = batch.vectors
        m, width = x.shape
        u = effective_weights(parameters)
        noise = max(float(np.exp(parameters["log_noise"])), NOISE_FLOOR)
        room = self._workspace(m, width, len(u))
        logits, p, h, r, slopes = room.logits, room.probabilities, room.codes, room.r, room.slopes

        np.matmul(x, parameters["encoder_weights"], out=logits)
        keys = rng.integers(1 << 32, size=2, dtype=np.uint32)
        bias = parameters["encoder_bias"]
        kernels.draw_codes(logits, bias, self._mode, self.signed, keys, p, h)
        np.matmul(h, u, out=r)
        kernels.finish_residual(r, parameters["decoder_bias"], x, room.sums, room.squares)
        np.matmul(r, u.T, out=slopes)
        lengths = np.einsum("kj,kj->k", u, u)
        quadratic = lengths * np.float32(self.step**2 / (2 * noise) * self._is_difference)
        kernels.logit_gradient(
            slopes, logits, p, h, parameters["prior_logits"], self.step / noise, quadratic,
            self.signed, kl_weight, 1 / m, room.spreads, out["encoder_bias"], out["prior_logits"],
        )  # fmt: skip

        by_row = np.float32(1 / (m * noise))
        np.matmul(h.T, r, out=room.by_decoder)
        total = float(room.squares.sum(dtype=np.float64))
        if self.estimator == "exact":
            room.by_decoder[...] += u * room.spreads[:, None]
            total += float(room.spreads @ lengths)
        room.by_decoder[...] *= by_row
        _put_decoder_gradient(parameters, room.by_decoder, out)
        np.multiply(room.sums, by_row, out=out["decoder_bias"])
        out["log_noise"][...] = 0.5 * (width - total / (m * noise)) * self.learn_noise
        np.matmul(x.T, slopes, out=out["encoder_weights"])
        self.terms.add(parameters, batch, logits, p, rng, out)
        return total / (2 * m * noise) + 0.5 * width * float(np.log(2 * np.pi * noise))

    def _workspace(self, m: int, width: int, n_bits: int) -> _Workspace:
        if self._room is None or self._room.r.shape != (m, width):
            self._room = _Workspace(m, width, n_bits)
        return self._room


class _Workspace:
    """Room that is kept from step to step: fresh memory would cost more than the arithmetic."""

    def __init__(self, m: int, width: int, n_bits: int) -> None:
        def room(*shape: int) -> Vectors:
            return np.empty(shape, dtype=np.float32)

        self.logits, self.probabilities, self.codes, self.slopes = (
            room(m, n_bits) for _ in range(4)
        )
        self.r, self.sums, self.squares = room(m, width), room(width), room(width)
        self.spreads, self.by_decoder = room(n_bits), room(n_bits, width)


def effective_weights(parameters: Mapping[str, Vectors]) -> Vectors:
    """U as it decodes: the parameter itself, or times |scale| by column where there is one."""
    weights = parameters["decoder_weights"]
    if "decoder_scale" not in parameters:
        return weights
    return weights * np.abs(parameters["decoder_scale"])


def _put_decoder_gradient(parameters: Parameters, by_decoder: Vectors, out: Parameters) -> None:
    if "decoder_scale" not in parameters:
        out["decoder_weights"][...] = by_decoder
        return
    scale = parameters["decoder_scale"]
    out["decoder_weights"][...] = by_decoder * np.abs(scale)
    out["decoder_scale"][...] = (by_decoder * parameters["decoder_weights"]).sum(axis=0)
    out["decoder_scale"][...] *= np.sign(scale)


class TrainableDecoder(Protocol):
    """A decoder with parameters of its own, all in the trainer's units."""

    def start_parameters(self, sample: Vectors, n_bits: int) -> Mapping[str, Floats]:
        """First values, by names that are not the encoder's."""
        ...

    def at(self, parameters: Mapping[str, Vectors]) -> Decoder:
        """Return the decoder that these parameters describe."""
        ...

    def parameter_gradients(
        self, parameters: Mapping[str, Vectors], vectors: Vectors, codes: Floats
    ) -> Mapping[str, Floats]:
        """Gradients of the mean of -log p(x | h) over the rows, by every name."""
        ...


class GeneralStep:
    """Gradient under any decoder: one extra pass per bit for the unbiased estimator."""

    def __init__(
        self, decoder: TrainableDecoder, *, estimator: str, coding: str, terms: Terms | None = None
    ) -> None:
        self.decoder, self.estimator, self.coding = decoder, estimator, coding
        self.terms = terms or Terms()

    def gradient(
        self,
        parameters: Parameters,
        batch: Batch,
        kl_weight: float,
        rng: np.random.Generator,
        out: Parameters,
    ) -> float:
        """Fill `out` with the gradient at `parameters`; return the mean of -log p(x | h)."""
        x, decoder = batch.vectors, self.decoder.at(parameters)
        logits = x @ parameters["encoder_weights"] + parameters["encoder_bias"]
        p = sigmoid(logits)
        # The same draw serves the encoder's gradient and the decoder's own.
        key = int(rng.integers(1 << 63))
        change = general_differences(
            decoder, x, p, estimator=self.estimator, coding=self.coding,
            rng=np.random.default_rng(key),
        )  # fmt: skip
        codes = codes_for(p, self.estimator, self.coding, np.random.default_rng(key))
        slopes = p * (1 - p) * (change + kl_weight * (logits - parameters["prior_logits"])) / len(x)
        for name, value in self.decoder.parameter_gradients(parameters, x, codes).items():
            out[name][...] = value
        out["prior_logits"][...] = sigmoid(parameters["prior_logits"]) - p.mean(axis=0)
        out["encoder_weights"][...] = x.T @ slopes
        out["encoder_bias"][...] = slopes.sum(axis=0)
        self.terms.add(parameters, batch, logits, p, rng, out)
        return -float(decoder.log_likelihood(x, codes).mean())
