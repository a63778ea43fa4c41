"""Binary autoencoder, trained by auxiliary coordinates.

Carreira-Perpinan and Raziperchikolaei, "Hashing with Binary Autoencoders", CVPR 2015.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput
from sghash.models.base import BinaryHasher, Callback
from sghash.models.baselines.binary_autoencoder.code_step import CodeStep
from sghash.models.baselines.binary_autoencoder.hyperplanes import LOSSES, Trainer
from sghash.models.baselines.binary_autoencoder.validation_precision import ValidationPrecision
from sghash.models.baselines.itq import ITQ
from sghash.models.capabilities import Capabilities
from sghash.models.shared.axes import principal_axes
from sghash.models.shared.blockwise import map_over_blocks, some_rows
from sghash.models.shared.least_squares import LinearDecoder, fit_linear_decoder, signed
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import Vectors, check_choice, check_count, check_number

_FIRST_STEPS, _LATER_STEPS = 40, 15
_SVM_C = 100.0


class _State(NamedTuple):
    """Auxiliary codes, classifiers, their bits, and the decoder of the auxiliary codes."""

    codes: NDArray[np.bool_]
    weights: Vectors
    bits: NDArray[np.bool_]
    decoder: LinearDecoder


class BinaryAutoencoder(BinaryHasher):
    """Linear classifiers as encoder and a linear decoder, trained to reconstruct the vectors.

    Auxiliary codes Z take the place of the encoder's output. Three steps alternate while a
    penalty on bits where both differ grows: the decoder by least squares, the encoder by one
    linear SVM per bit, and the codes Z, each row by itself: exactly, by trying all codes, for
    short codes; for long ones bit by bit from the better of the present code and the rounded
    solution of the problem relaxed to [0, 1]. Training starts from ITQ and ends when the encoder
    gives Z.

    As in the authors' program the data are scaled to a range of 1, SVMs have the squared hinge
    and C = 100, and a step after which the precision on validation rows is lower is taken back.
    The schedule is the one the authors used for SIFT in a later paper (ParMAC): 0.0001, doubled.
    Deviations: the SVMs are trained together by an accelerated gradient method with a fixed
    number of steps, and a bit keeps its hyperplane where the new one differs from Z in more rows,
    so that no step raises the penalised objective; the validation rows' neighbours are searched
    within the training rows; the final decoder is fitted to the encoder's own bits. Any number of
    bits works, since ITQ starts from any.

    Parameters
    ----------
    n_bits : int
        Code length.
    penalty, penalty_growth : float
        First weight of a differing bit, and its factor in every iteration.
    n_iterations : int
        At most so many iterations.
    exact_bits : int
        Codes of at most this many bits are found by trying all.
    classifier : "svm" or "logistic"
        Loss of the encoder's classifiers.
    n_validation : int
        Training rows on which precision is watched; 0 watches nothing.
    sample : int or None
        Learn from this many random rows; None takes all.
    callback : callable or None
        Receives a `Progress` with `objective` and `penalty` after every iteration.
    random_state : int, Generator or None
        Seed of sample, start and validation rows.

    Attributes
    ----------
    mean_, projection_, bias_ : (d,), (d, n_bits), (n_bits,)
        A bit is set where the centred vector times its column, plus bias, is positive.
    decoder_, decoder_offset_ : (n_bits, d), (d,)
        A vector is the offset plus the rows of `decoder_`, each signed by its bit.
    objective_history_ : (n, 4)
        For every iteration: the penalty, the penalised objective per row before and after the
        step of the codes, and the mean squared error of encoder and decoder together.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(decodes=True, tables=True)
    learned_names: ClassVar[tuple[str, ...]] = (
        "mean_",
        "projection_",
        "bias_",
        "decoder_",
        "decoder_offset_",
        "objective_history_",
    )

    def __init__(
        self,
        n_bits: int = 64,
        *,
        penalty: float = 1e-4,
        penalty_growth: float = 2.0,
        n_iterations: int = 20,
        exact_bits: int = 10,
        classifier: str = "svm",
        n_validation: int = 200,
        sample: int | None = 100_000,
        callback: Callback | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_bits, self.n_iterations, self.exact_bits = n_bits, n_iterations, exact_bits
        self.penalty, self.penalty_growth, self.classifier = penalty, penalty_growth, classifier
        self.n_validation, self.sample = n_validation, sample
        self.callback, self.random_state = callback, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        check_choice(self.classifier, tuple(LOSSES), name="classifier")
        check_count(self.exact_bits, name="exact_bits", least=0)
        if self.exact_bits > 16:
            raise InvalidInput(f"exact_bits must lie between 0 and 16, got {self.exact_bits}")
        check_number(self.penalty, name="penalty", above=0)
        check_number(self.penalty_growth, name="penalty_growth", least=1)
        check_count(self.n_iterations, name="n_iterations", least=0)
        check_count(self.n_validation, name="n_validation", least=0)
        check_count(self.sample, name="sample", or_none=True)
        rng = generator_of(self.random_state)
        vectors = some_rows(vectors, self.sample, rng)
        basis = principal_axes(vectors, vectors.shape[1])
        size = float((vectors.max(axis=0) - vectors.min(axis=0)).max(initial=0)) or 1.0
        trainer = Trainer(vectors, basis, size, self.classifier, _SVM_C)
        start = ITQ(self.n_bits, random_state=rng).fit(vectors)
        weights = trainer.start(start.projection_)
        weights = self._alternate((vectors - basis.mean) / np.float32(size), trainer, weights, rng)
        self.mean_ = basis.mean
        self.projection_, self.bias_ = trainer.in_input_space(weights)
        decoder = fit_linear_decoder(vectors, map_over_blocks(self._bits, vectors))
        self.decoder_, self.decoder_offset_ = decoder.weights, decoder.offset

    def _alternate(
        self, scaled: Vectors, trainer: Trainer, weights: Vectors, rng: Generator
    ) -> Vectors:
        """The paper's algorithm on vectors of range 1; returns the classifiers' weights."""
        watch = ValidationPrecision(scaled, self.n_validation, rng)
        codes = trainer.bits(weights)
        best = _State(codes, weights, codes, fit_linear_decoder(scaled, codes))
        precision, penalty, history = watch.measure(codes), self.penalty, []
        for step in range(self.n_iterations):
            state = self._fit_both(scaled, trainer, codes, best, first=step == 0)
            reached = watch.measure(state.bits)
            if reached < precision:
                state = best
            else:
                best, precision = state, reached
            code_step = CodeStep(state.decoder, penalty, exact=self.n_bits <= self.exact_bits)
            before = code_step.objective(scaled, state.bits, state.codes)
            codes, after = code_step.minimise(scaled, state.bits, state.codes)
            error = code_step.objective(scaled, state.bits, state.bits)
            history.append((penalty, before, after, error))
            self._report(step + 1, self.n_iterations, objective=after, penalty=penalty)
            if np.array_equal(codes, state.bits):
                break
            penalty *= self.penalty_growth
        self.objective_history_ = np.asarray(history).reshape(-1, 4)
        return best.weights

    def _fit_both(
        self,
        scaled: Vectors,
        trainer: Trainer,
        codes: NDArray[np.bool_],
        last: _State,
        *,
        first: bool,
    ) -> _State:
        """Fit decoder and classifiers to the codes; a bit keeps its plane if that fits better."""
        decoder = fit_linear_decoder(scaled, codes)
        weights = trainer.improve(last.weights, codes, _FIRST_STEPS if first else _LATER_STEPS)
        bits = trainer.bits(weights)
        worse = (bits != codes).sum(axis=0) > (last.bits != codes).sum(axis=0)
        weights[:, worse] = last.weights[:, worse]
        bits[:, worse] = last.bits[:, worse]
        return _State(codes, weights, bits, decoder)

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return (vectors - self.mean_) @ self.projection_ + self.bias_ > 0

    def _decode(self, bits: NDArray[np.bool_]) -> Vectors:
        return signed(bits) @ self.decoder_ + self.decoder_offset_
