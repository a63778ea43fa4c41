"""One step's gradient of the objective by all parameters, in the trainer's units.

`GaussianStep` is the fast path: closed forms, five matrix products and fused passes between them.
`GeneralStep` serves any decoder through its log-likelihood, by finite differences in h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sghash.models.sgh.losses.terms import Terms
from sghash.models.sgh.paper.encoder import sigmoid
from sghash.models.sgh.paper.generative import code_step
from sghash.models.sgh.paper.gradients import codes_for, general_differences
from sghash.models.sgh.training.batches import Batch
from sghash.models.sgh.training.optimizer import Parameters
from sghash.models.sgh.training.start import NOISE_FLOOR
from sghash.models.sgh.training.trainable import TrainableDecoder
from sghash.validation import Vectors, available_cores

# At which h a step looks at the decoder, as `kernels.training` counts them.
DRAW, MEAN, ROUND = 0, 1, 2
# A part of a step is this many multiplications per product, or more: about a fifth of a
# millisecond in all, against which waking another thread is cheap.
PART_WORK = 1 << 21
MAX_PARTS = 4


class Step(Protocol):
    """Fills a gradient."""

    def working(self) -> AbstractContextManager[None]:
        """Context of many steps."""
        ...

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
        self._workspace: _Workspace | None = None
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """Context of many steps: keeps the threads that large steps are shared among."""
        with ThreadPoolExecutor(available_cores()) as self._pool:
            try:
                yield
            finally:
                self._pool = None

    def gradient(
        self,
        parameters: Parameters,
        batch: Batch,
        kl_weight: float,
        rng: np.random.Generator,
        out: Parameters,
    ) -> float:
        """Fill `out` with the gradient at `parameters`; return E[-log p(x | h)] in nats."""
        m, width = batch.vectors.shape
        u = effective_weights(parameters)
        noise = max(float(np.exp(parameters["log_noise"])), NOISE_FLOOR)
        if self._workspace is None or self._workspace.r.shape != (m, width):
            self._workspace = _Workspace(m, width, len(u))
        space = self._workspace
        lengths = np.einsum("kj,kj->k", u, u)
        now = _Now(
            parameters, batch.vectors, u, noise, kl_weight,
            lengths * np.float32(self.step**2 / (2 * noise) * self._is_difference),
            rng.integers(1 << 32, size=2, dtype=np.uint32),
        )  # fmt: skip
        if self._pool is None or len(space.parts) == 1:
            for part in space.parts:
                self._work(now, space, part)
        else:
            others = [self._pool.submit(self._work, now, space, part) for part in space.parts[1:]]
            self._work(now, space, space.parts[0])
            for other in others:
                other.result()
        part = space.parts[0]
        for other_part in space.parts[1:]:
            part.add(other_part)

        by_row = np.float32(1 / (m * noise))
        total = float(part.squares.sum(dtype=np.float64))
        if self.estimator == "exact":
            part.by_decoder += u * part.spreads[:, None]
            total += float(part.spreads @ lengths)
        part.by_decoder *= by_row
        _put_decoder_gradient(parameters, part.by_decoder, out)
        np.multiply(part.sums, by_row, out=out["decoder_bias"])
        out["log_noise"][...] = 0.5 * (width - total / (m * noise)) * self.learn_noise
        np.add(part.by_prior, sigmoid(parameters["prior_logits"]), out=out["prior_logits"])
        out["encoder_bias"][...] = part.by_bias
        out["encoder_weights"][...] = part.by_encoder
        self.terms.add(parameters, batch, space.logits, space.probabilities, rng, out)
        return total / (2 * m * noise) + 0.5 * width * float(np.log(2 * np.pi * noise))

    def _work(self, now: _Now, space: _Workspace, part: _Part) -> None:
        """Do one part of the rows: five products, and what stands between them."""
        from sghash.kernels.learning import training as kernels

        own, values = part.rows, now.parameters
        x, logits, p, h = now.x[own], space.logits[own], space.probabilities[own], space.codes[own]
        r, slopes = space.r[own], space.slopes[own]
        np.matmul(x, values["encoder_weights"], out=logits)
        kernels.draw_codes(
            logits, values["encoder_bias"], self._mode, self.signed, now.keys, own.start, p, h
        )
        np.matmul(h, now.u, out=r)
        kernels.finish_residual(r, values["decoder_bias"], x, part.sums, part.squares)
        np.matmul(r, now.u.T, out=slopes)
        kernels.logit_gradient(
            slopes, logits, p, h, values["prior_logits"], self.step / now.noise, now.quadratic,
            self.signed, now.kl_weight, 1 / len(now.x), part.spreads, part.by_bias, part.by_prior,
        )  # fmt: skip
        np.matmul(h.T, r, out=part.by_decoder)
        np.matmul(x.T, slopes, out=part.by_encoder)


class _Now(NamedTuple):
    """What all parts of one step share."""

    parameters: Parameters
    x: Vectors
    u: Vectors
    noise: float
    kl_weight: float
    quadratic: Vectors
    keys: NDArray[np.uint32]


class _Part:
    """Sums over a slice of the rows of a batch."""

    def __init__(self, rows: slice, width: int, n_bits: int) -> None:
        self.rows = rows
        self.sums, self.squares = _buffer(width), _buffer(width)
        self.spreads, self.by_bias, self.by_prior = (_buffer(n_bits) for _ in range(3))
        self.by_decoder, self.by_encoder = _buffer(n_bits, width), _buffer(width, n_bits)

    def add(self, other: _Part) -> None:
        """Add the sums of another slice."""
        for name in ("sums", "squares", "spreads", "by_bias", "by_prior"):
            getattr(self, name).__iadd__(getattr(other, name))
        self.by_decoder += other.by_decoder
        self.by_encoder += other.by_encoder


class _Workspace:
    """Memory that is kept from step to step: fresh memory would cost more than the arithmetic.

    Large batches are worked on in several parts. Their number follows from the work alone, never
    from the number of cores, and they are added in order: the result is the same on any machine
    with the same linear algebra.
    """

    def __init__(self, m: int, width: int, n_bits: int) -> None:
        self.logits, self.probabilities, self.codes, self.slopes = (
            _buffer(m, n_bits) for _ in range(4)
        )
        self.r = _buffer(m, width)
        n_parts = min(MAX_PARTS, m, max(1, m * width * n_bits // PART_WORK))
        edges = np.linspace(0, m, n_parts + 1).astype(int).tolist()
        self.parts = [_Part(slice(*edge), width, n_bits) for edge in pairwise(edges)]


def _buffer(*shape: int) -> Vectors:
    return np.empty(shape, dtype=np.float32)


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


class GeneralStep:
    """Gradient under any decoder: one extra pass per bit for the unbiased estimator."""

    def __init__(
        self, decoder: TrainableDecoder, *, estimator: str, coding: str, terms: Terms | None = None
    ) -> None:
        self.decoder, self.estimator, self.coding = decoder, estimator, coding
        self.terms = terms or Terms()

    def working(self) -> AbstractContextManager[None]:
        """Context of many steps: nothing to keep."""
        return nullcontext()

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
