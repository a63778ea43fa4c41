"""Stochastic Generative Hashing with another generative model than the linear Gaussian one.

Dai, Guo, Kumar, He, Song, "Stochastic Generative Hashing", ICML 2017, whose framework asks of
p(x given h) no more than its value: the encoder's gradient comes from differences in h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput
from sghash.models.base import BinaryHasher, Callback
from sghash.models.capabilities import Capabilities
from sghash.models.inputs import check_is_fitted, translate_sklearn_errors, validate_data
from sghash.models.sgh.options import kl_line
from sghash.models.sgh.paper.encoder import divergence, draw_bits, sigmoid
from sghash.models.sgh.paper.generative import CODINGS, Floats, code_values
from sghash.models.sgh.paper.objective import DescriptionLength
from sghash.models.sgh.training.batches import ArrayBatches
from sghash.models.sgh.training.optimizer import Adam, Parameters, Schedule
from sghash.models.sgh.training.scaling import Scaling
from sghash.models.sgh.training.start import START_ROWS, make_start
from sghash.models.sgh.training.step import GeneralStep
from sghash.models.sgh.training.trainable import (
    ENCODER_NAMES,
    MeanDecoder,
    TrainableDecoder,
    check_trainable,
    try_decoder,
)
from sghash.models.sgh.training.trainer import Trainer
from sghash.models.sgh.variants.decoders import DECODERS, TrainableTwoLayer
from sghash.models.shared.blockwise import single_threaded_blas
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import Vectors, check_choice, check_count, check_number

GRADIENTS = ("approximate", "distributional", "straight-through")
WATCHED_ROWS = 500
#: Parameters of a decoder that are attributes of the model, and so can be saved.
STORED = ("hidden_weights", "hidden_bias", "decoder_weights", "decoder_bias", "noise_variance")
#: Draws per vector that the residual part of a description length is averaged over.
RESIDUAL_DRAWS = 16


class GeneralSGH(BinaryHasher):
    """SGH with a decoder of choice: ready ones for vectors, bits and counts, or one's own.

    The encoder is linear as that of `SGH`, and so are cost and files of encoding. Asymmetric
    search and sharpened codes need a decoder that is linear in the code: `SGH` has them.

    Parameters
    ----------
    n_bits : int
        Code length.
    decoder : {"two-layer", "bernoulli", "gaussian", "multinomial"} or object
        p(x given h); see `sghash.models.sgh.variants.decoders`. "bernoulli" takes vectors with
        entries between 0 and 1 only, "multinomial" counts. An object is one's own decoder, with the
        methods of `sghash.models.sgh.training.trainable.TrainableDecoder`; to save the model, give
        it a name in `sghash.models.sgh.variants.decoders.DECODERS`.
    n_hidden : int
        Hidden units of "two-layer"; never fewer than `n_bits`.
    gradient : {"approximate", "distributional", "straight-through"}
        How the encoder's gradient is estimated; "distributional" takes one pass through the
        decoder per bit.
    coding : {"signed", "binary"}
        Whether the decoder sees a bit as -1/+1 or as 0/1.
    kl_weight : (float, float)
        First and last weight of the divergence.
    learning_rate : float
        First learning rate of Adam; falls to zero as a cosine.
    batch_size, n_steps : int, int or None
        Vectors per step, and steps; None is 500 and 20 more per bit, at most 2000.
    callback : callable or None
        Receives a `Progress` with `reconstruction_error` and `description_length`.
    random_state : int, Generator or None
        Seed.

    Attributes
    ----------
    encoder_weights_, encoder_bias_ : (d, n_bits), (n_bits,)
        A bit is set where x @ weights + bias > 0.
    hidden_weights_, hidden_bias_ : (n_bits, n_hidden), (n_hidden,)
        First layer of "two-layer"; without columns for the other decoders.
    decoder_weights_, decoder_bias_ : (n_bits or n_hidden, d), (d,)
        Last layer: the mean vector, the log odds of "bernoulli" or the log shares of "multinomial",
        less a constant.
    noise_variance_ : float
        Of the Gaussians, in squared units of the vectors; 1 for decoders that have none.
    decoder_parameters_ : dict of arrays
        Those of a decoder of one's own that have other names than these; else empty.
    prior_logits_ : (n_bits,)
        Log odds of each bit before a vector is seen.
    history_ : dict of lists
        Per report: step, reconstruction_error, description_length.
    """

    learned_names: ClassVar[tuple[str, ...]] = (
        "encoder_weights_",
        "encoder_bias_",
        "hidden_weights_",
        "hidden_bias_",
        "decoder_weights_",
        "decoder_bias_",
        "noise_variance_",
        "prior_logits_",
    )
    recorded_names: ClassVar[tuple[str, ...]] = ("history_",)

    def __init__(
        self,
        n_bits: int = 64,
        *,
        decoder: str | TrainableDecoder = "two-layer",
        n_hidden: int = 128,
        gradient: str = "approximate",
        coding: str = "signed",
        kl_weight: tuple[float, float] = (1.0, 0.0),
        learning_rate: float = 0.01,
        batch_size: int = 500,
        n_steps: int | None = None,
        callback: Callback | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_bits, self.decoder, self.n_hidden = n_bits, decoder, n_hidden
        self.gradient, self.coding, self.kl_weight = gradient, coding, kl_weight
        self.learning_rate, self.batch_size, self.n_steps = learning_rate, batch_size, n_steps
        self.callback, self.random_state = callback, random_state

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """Tables need a decoder that is linear in the bits: of the three, the Gaussian one."""
        return Capabilities(decodes=True, tables=self.decoder == "gaussian")

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        self._check_options()
        self._trainable().refuse(vectors)
        rng = generator_of(self.random_state)
        with single_threaded_blas():
            self._learn(vectors, rng)

    def _learn(self, vectors: Vectors, rng: np.random.Generator) -> None:
        batches = ArrayBatches(vectors, np.arange(len(vectors)), batch_size=self.batch_size)
        sample = batches.take(START_ROWS, rng)
        decoder = self._trainable()
        scaling = Scaling.of(sample, cosine=False, standardize=bool(decoder.standardize))
        scaled = scaling.apply(sample)
        middle = scaled.mean(axis=0, dtype=np.float64).astype(np.float32)
        start = make_start("itq", scaled - middle, self.n_bits, coding=self.coding, rng=rng)
        start = start._replace(
            encoder_bias=-middle @ start.encoder_weights, decoder_bias=start.decoder_bias + middle
        )
        own = decoder.start_parameters(scaled, start, rng)
        try_decoder(decoder, own, scaled, self.n_bits, self.coding)
        parameters = Parameters({**{name: getattr(start, name) for name in ENCODER_NAMES}, **own})
        n_steps = self.n_steps or min(2000, 500 + 20 * self.n_bits)
        first, last = (float(weight) for weight in self.kl_weight)
        trainer = Trainer(
            parameters,
            step=GeneralStep(decoder, estimator=self.gradient, coding=self.coding),
            optimizer=Adam(parameters.flat.size),
            schedule=Schedule(n_steps, "cosine", self.learning_rate, 1.0, 1, (first, last)),
            scaling=scaling,
            rng=rng,
        )
        self._run(trainer, batches, sample[:WATCHED_ROWS], n_steps)

    def _run(self, trainer: Trainer, batches: Any, watched: Vectors, n_steps: int) -> None:
        self.history_: dict[str, list[float]] = {}

        def measure(parameters: Parameters) -> dict[str, float]:
            self._publish(parameters, trainer.scaling)
            back = self._decode(self._bits(watched))
            error = float(np.square(watched - back, dtype=np.float64).sum(axis=1).mean())
            lengths = self._lengths(watched, 1, np.random.default_rng(0)).total
            return {"reconstruction_error": error, "description_length": float(lengths.mean())}

        def report(step: int, values: dict[str, float]) -> None:
            for name, value in {"step": float(step), **values}.items():
                self.history_.setdefault(name, []).append(value)
            self._report(step, n_steps, **values)

        trainer.run(
            batches, n_steps, measure=measure, report=report, report_every=max(1, n_steps // 10)
        )

    def _trainable(self) -> TrainableDecoder:
        if not isinstance(self.decoder, str):
            return self.decoder
        named = DECODERS[self.decoder]
        return (
            replace(named, n_hidden=self.n_hidden)
            if isinstance(named, TrainableTwoLayer)
            else named
        )

    def _publish(self, parameters: Parameters, scaling: Any) -> None:
        """Set the learned attributes, in units of the caller's vectors."""
        unit, shift = np.float32(scaling.unit), scaling.shift
        self.encoder_weights_ = parameters["encoder_weights"] / unit
        self.encoder_bias_ = parameters["encoder_bias"] - shift @ self.encoder_weights_
        self.prior_logits_ = parameters["prior_logits"].copy()
        own: Mapping[str, Floats] = {
            name: value.copy() for name, value in parameters.items() if name not in ENCODER_NAMES
        }
        decoder = self._trainable()
        if decoder.standardize:
            own = decoder.in_units(own, scaling.unit, shift)
        self.decoder_parameters_: dict[str, Floats] = {}
        if not set(own) <= set(STORED):
            self.decoder_parameters_, own = dict(own), {}
        empty = np.zeros((self.n_bits, 0), dtype=np.float32)
        self.hidden_weights_ = np.asarray(own.get("hidden_weights", empty), dtype=np.float32)
        self.hidden_bias_ = np.asarray(own.get("hidden_bias", empty[0]), dtype=np.float32)
        flat = np.zeros((self.n_bits, len(shift)), dtype=np.float32)
        self.decoder_weights_ = np.asarray(own.get("decoder_weights", flat), dtype=np.float32)
        self.decoder_bias_ = np.asarray(own.get("decoder_bias", flat[0]), dtype=np.float32)
        self.noise_variance_ = float(own.get("noise_variance", 1.0))

    def _check_options(self) -> None:
        check_trainable(self.decoder, list(DECODERS))
        check_choice(self.gradient, GRADIENTS, name="gradient")
        check_choice(self.coding, CODINGS, name="coding")
        check_count(self.n_hidden, name="n_hidden")
        check_count(self.batch_size, name="batch_size")
        check_count(self.n_steps, name="n_steps", or_none=True)
        check_number(self.learning_rate, name="learning_rate", above=0)
        kl_line(self.kl_weight)

    def _decoder(self) -> MeanDecoder:
        """Return the fitted decoder in double precision, in units of the input vectors."""
        own: Mapping[str, Any] = getattr(self, "decoder_parameters_", None) or {
            name: getattr(self, f"{name}_") for name in STORED
        }
        wide = {name: np.asarray(value, dtype=np.float64) for name, value in own.items()}
        return self._trainable().at(wide)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model to `folder`; its decoder must be a named one."""
        check_is_fitted(self)
        if not isinstance(self.decoder, str):
            raise InvalidInput(
                f"a file holds numbers and no code, and the decoder is an object of class "
                f"{type(self.decoder).__name__}: give it a name in "
                "sghash.models.sgh.variants.decoders.DECODERS, and fit with decoder=name"
            )
        if getattr(self, "decoder_parameters_", None):
            raise InvalidInput(
                f"the file of a GeneralSGH holds {', '.join(STORED)}, the decoder "
                f"{self.decoder!r} learned {', '.join(self.decoder_parameters_)}: call them so"
            )
        super().save(folder, overwrite=overwrite)

    def _logits(self, vectors: Vectors) -> Floats:
        return vectors @ self.encoder_weights_ + self.encoder_bias_

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        self._trainable().refuse(vectors)
        return self._logits(vectors) > 0

    def _decode(self, bits: NDArray[np.bool_]) -> Vectors:
        codes = code_values(bits, self.coding, np.float64)
        return self._decoder().mean(codes).astype(np.float32)

    def bit_probabilities(self, X: ArrayLike) -> Vectors:
        """Probability (n, n_bits) float32 that each bit of each row of `X` is set."""
        return sigmoid(self._logits(self._rows(X)))

    def description_length(
        self, X: ArrayLike, *, n_draws: int = RESIDUAL_DRAWS, random_state: Seed = 0
    ) -> DescriptionLength:
        """Bits per vector for each row of `X`: total, and its parts for code and residual.

        The code part is exact; the residual part is the mean over `n_draws` codes drawn for each
        vector, since only a quadratic likelihood has a closed form.
        """
        vectors = self._rows(X)
        return self._lengths(vectors, n_draws, generator_of(random_state))

    def _lengths(
        self, vectors: Vectors, n_draws: int, rng: np.random.Generator
    ) -> DescriptionLength:
        logits = self._logits(vectors).astype(np.float64)
        code = divergence(logits, self.prior_logits_.astype(np.float64)).sum(axis=1) / np.log(2)
        decoder, p = self._decoder(), sigmoid(logits)
        nats = np.zeros(len(vectors))
        for _ in range(n_draws):
            codes = code_values(draw_bits(p, rng), self.coding, np.float64)
            nats -= decoder.log_likelihood(vectors.astype(np.float64), codes)
        residual = nats / (n_draws * np.log(2))
        return DescriptionLength(code + residual, code, residual)

    def _rows(self, X: ArrayLike) -> Vectors:
        check_is_fitted(self)
        with translate_sklearn_errors(), np.errstate(over="ignore"):
            vectors: Vectors = validate_data(self, X, reset=False, dtype=np.float32, order="C")
        self._trainable().refuse(vectors)
        return vectors
