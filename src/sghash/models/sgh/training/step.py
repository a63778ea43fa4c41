"""One step's gradient of the objective by all parameters, in the trainer's units.

`GaussianStep` is the fast path: closed forms, five matrix products (nine with a hidden layer) and
fused passes between them.
`GeneralStep` serves any decoder through its log-likelihood, by finite differences in h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from sghash.models.sgh.training.encoder import (
    Space,
    backward,
    forward,
    gradient_buffers,
    n_hidden_of,
)
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

    @property
    def describes(self) -> bool:
        """Whether the decoder learns; else it is left as it is, and fitted by whoever needs it."""
        ...

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
    `decoder_bias`, `log_noise` (), `prior_logits`, where there is a hidden layer the three of
    `training.encoder`, and where the decoder is U * |scale| by column (the released script's form)
    `decoder_scale` (d,). With `describes=False` the terms alone are trained, without the objective.
    """

    def __init__(
        self,
        *,
        estimator: str,
        coding: str,
        learn_noise: bool = True,
        terms: Terms | None = None,
        describes: bool = True,
    ) -> None:
        self.estimator, self.signed, self.describes = estimator, coding == "signed", describes
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
        u = effective_weights(parameters)
        noise = max(float(np.exp(parameters["log_noise"])), NOISE_FLOOR)
        space = self._space(parameters, batch)
        lengths = np.einsum("kj,kj->k", u, u)
        now = _Now(
            parameters, batch.vectors, u, noise, kl_weight,
            lengths * np.float32(self.step**2 / (2 * noise) * self._is_difference),
            rng.integers(1 << 32, size=2, dtype=np.uint32),
        )  # fmt: skip
        if not self.describes:
            self._in_parts(space, lambda part: self._encode(now, space, part))
            space.slopes[...], out.flat[:], loss = 0, 0, 0.0
        else:
            self._in_parts(space, lambda part: self._describe(now, space, part))
            loss = self._put(now, space.parts, lengths, out)
        if not self.terms.terms:
            return loss
        for name in space.parts[0].by_encoder:
            out[name][...] = 0
        logits, p = space.encoder.logits, space.probabilities
        self.terms.add(parameters, batch, logits, p, space.slopes, rng, out)
        self._in_parts(space, lambda part: self._back(now, space, part))
        for part in space.parts:
            for name, value in part.by_encoder.items():
                out[name][...] += value
        return loss

    def _space(self, parameters: Parameters, batch: Batch) -> _Workspace:
        if self._workspace is None or self._workspace.r.shape != batch.vectors.shape:
            self._workspace = _Workspace(parameters, *batch.vectors.shape)
        return self._workspace

    def _in_parts(self, space: _Workspace, work: Callable[[_Part], None]) -> None:
        """Do `work` on all parts, at once where there are threads."""
        if self._pool is None or len(space.parts) == 1:
            for part in space.parts:
                work(part)
            return
        others = [self._pool.submit(work, part) for part in space.parts[1:]]
        work(space.parts[0])
        for other in others:
            other.result()

    def _encode(self, now: _Now, space: _Workspace, part: _Part) -> None:
        """Fill the logits, probabilities and codes of one part of the rows."""
        from sghash.kernels.learning import training as kernels

        own, values = part.rows, now.parameters
        kernels.draw_codes(
            forward(values, now.x[own], part.encoder), values["encoder_bias"], self._mode,
            self.signed, now.keys, own.start, space.probabilities[own], space.codes[own],
        )  # fmt: skip

    def _describe(self, now: _Now, space: _Workspace, part: _Part) -> None:
        """Do one part of the rows: the products of the decoder, and what stands between them."""
        from sghash.kernels.learning import training as kernels

        self._encode(now, space, part)
        own, values = part.rows, now.parameters
        h, r, slopes = space.codes[own], space.r[own], space.slopes[own]
        np.matmul(h, now.u, out=r)
        kernels.finish_residual(r, values["decoder_bias"], now.x[own], part.sums, part.squares)
        np.matmul(r, now.u.T, out=slopes)
        kernels.logit_gradient(
            slopes, part.encoder.logits, space.probabilities[own], h, values["prior_logits"],
            self.step / now.noise, now.quadratic, self.signed, now.kl_weight, 1 / len(now.x),
            part.spreads, part.by_bias, part.by_prior,
        )  # fmt: skip
        np.matmul(h.T, r, out=part.by_decoder)
        if not self.terms.terms:
            self._back(now, space, part)

    def _back(self, now: _Now, space: _Workspace, part: _Part) -> None:
        """Take the gradient by the logits of one part of the rows back through the encoder."""
        x, slopes = now.x[part.rows], space.slopes[part.rows]
        backward(now.parameters, x, slopes, part.encoder, part.by_encoder)

    def _put(self, now: _Now, parts: list[_Part], lengths: Vectors, out: Parameters) -> float:
        """Fill `out` with the sums of all parts; return E[-log p(x | h)] in nats."""
        parameters, noise, (m, width) = now.parameters, now.noise, now.x.shape
        part = parts[0]
        for other in parts[1:]:
            part.add(other, with_encoder=not self.terms.terms)
        by_row = np.float32(1 / (m * noise))
        total = float(part.squares.sum(dtype=np.float64))
        if self.estimator == "exact":
            part.by_decoder += now.u * part.spreads[:, None]
            total += float(part.spreads @ lengths)
        part.by_decoder *= by_row
        _put_decoder_gradient(parameters, part.by_decoder, out)
        np.multiply(part.sums, by_row, out=out["decoder_bias"])
        out["log_noise"][...] = 0.5 * (width - total / (m * noise)) * self.learn_noise
        np.add(part.by_prior, sigmoid(parameters["prior_logits"]), out=out["prior_logits"])
        out["encoder_bias"][...] = part.by_bias
        if not self.terms.terms:
            for name, value in part.by_encoder.items():
                out[name][...] = value
        return total / (2 * m * noise) + 0.5 * width * float(np.log(2 * np.pi * noise))


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
    """Sums over a slice of the rows of a batch, and its share of the encoder's memory."""

    def __init__(self, rows: slice, parameters: Parameters, encoder: Space) -> None:
        self.rows, self.encoder = rows, encoder.part(rows)
        n_bits, width = parameters["decoder_weights"].shape
        self.sums, self.squares = _buffer(width), _buffer(width)
        self.spreads, self.by_bias, self.by_prior = (_buffer(n_bits) for _ in range(3))
        self.by_decoder, self.by_encoder = _buffer(n_bits, width), gradient_buffers(parameters)

    def add(self, other: _Part, *, with_encoder: bool) -> None:
        """Add the sums of another slice."""
        for name in ("sums", "squares", "spreads", "by_bias", "by_prior"):
            getattr(self, name).__iadd__(getattr(other, name))
        self.by_decoder += other.by_decoder
        if with_encoder:
            for name, value in self.by_encoder.items():
                value += other.by_encoder[name]


class _Workspace:
    """Memory that is kept from step to step: fresh memory would cost more than the arithmetic.

    Large batches are worked on in several parts. Their number follows from the work alone, never
    from the number of cores, and they are added in order: the result is the same on any machine
    with the same linear algebra.
    """

    def __init__(self, parameters: Parameters, m: int, width: int) -> None:
        n_bits, n_hidden = parameters["encoder_bias"].size, n_hidden_of(parameters)
        self.probabilities, self.codes, self.slopes = (_buffer(m, n_bits) for _ in range(3))
        self.r, self.encoder = _buffer(m, width), Space(m, n_bits, n_hidden)
        work = m * (width * n_bits + n_hidden * (width + n_bits))
        n_parts = min(MAX_PARTS, m, max(1, work // PART_WORK))
        edges = np.linspace(0, m, n_parts + 1).astype(int).tolist()
        self.parts = [_Part(slice(*edge), parameters, self.encoder) for edge in pairwise(edges)]


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

    describes = True

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
        out["encoder_weights"][...] = 0
        out["encoder_bias"][...] = slopes.sum(axis=0)
        self.terms.add(parameters, batch, logits, p, slopes, rng, out)
        out["encoder_weights"][...] += x.T @ slopes
        return -float(decoder.log_likelihood(x, codes).mean())
