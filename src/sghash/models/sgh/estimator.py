"""Stochastic Generative Hashing, the estimator.

Dai, Guo, Kumar, He, Song, "Stochastic Generative Hashing", ICML 2017.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from sghash.blocks import VectorSource, read_rows
from sghash.errors import InvalidInput
from sghash.models.base import Callback, is_source, translate_sklearn_errors
from sghash.models.capabilities import Capabilities
from sghash.models.sgh.inference import GenerativeHasher
from sghash.models.sgh.losses.supervision import supervision_terms
from sghash.models.sgh.losses.terms import Term
from sghash.models.sgh.recipe import AUTHORS_SCRIPT, FREE_OPTIONS, PAPER, check_options
from sghash.models.sgh.training import fitting
from sghash.models.sgh.training.scaling import STORED
from sghash.models.shared.blockwise import single_threaded_blas


class SGH(GenerativeHasher):
    """Codes that describe vectors shortest: a linear encoder and decoder, trained together.

    Parameters
    ----------
    n_bits : int
        Code length; may exceed the width of the vectors.
    metric : {"l2", "ip", "cosine"}
        What `query_tables` scores, and by what neighbours are near. "cosine" also brings every
        vector to unit length first (a zero vector stays zero): the model is one of directions.
    goal : {"balanced", "hamming", "reconstruction"}
        What the codes are for. "hamming" weighs a ranking loss more: the nearest other vector of
        a batch shall have the nearest code. "reconstruction" is the description length alone,
        best for `decode` and asymmetric search. "balanced" has a little of the ranking loss.
    neighbors : int
        Find so many neighbours of each vector within a sample before training, and let pairs of
        them have near codes: the best recall by Hamming distance, for a longer training. 0 is off.
    pair_loss : {"softmax", "bernoulli"}
        Loss of a pair; see `sghash.models.sgh.losses.ranking`.
    pair_weight : float or None
        Weight of the ranking loss, of labels and of known pairs; None chooses the first by the
        goal and the number of bits, and 2560 / n_bits for the others.
    supervised : bool
        Whether `fit` learns from `y`: labels, -1 for unlabelled rows. Off, `y` is ignored, so that
        the model can stand before a classifier in a pipeline.
    gradient : {"approximate", "distributional", "exact", "straight-through"} or None
        How the encoder's gradient is estimated; see `sghash.models.sgh.paper.gradients`. None is
        "exact" beside a ranking loss, which compares the codes without a draw, and else
        "approximate".
    coding : {"signed", "binary"}
        Whether the decoder sees a bit as -1/+1 or as 0/1.
    kl_weight : float or (float, float)
        Weight of the divergence in the objective, or its first and its last value, with a line
        between over three quarters of the steps. The paper has 1.
    noise : "learned" or float
        Variance rho² of the decoder, learned or given (in squared units of the vectors).
    init : {"itq", "pca", "random", "script"}
        Where training starts; see `sghash.models.sgh.training.start`.
    optimizer : {"adam", "sgd"}
        What a gradient does to the parameters.
    learning_rate : float
        First learning rate, for vectors of mean variance one (see `standardize`).
    schedule : {"step", "sqrt", "constant", "cosine"} or None
        How the rate falls: times `decay` every `decay_every` steps, as 1 / sqrt(t), not at all, or
        as half a cosine to zero. None is "cosine" beside a ranking loss, else "step" for Adam and
        "sqrt" for SGD.
    decay, decay_every : float, int or None
        Factor and interval of "step"; None is half of the budget.
    batch_size : int
        Vectors per step; with `neighbors`, pairs per step beside half as many single vectors.
    n_steps : int or None
        Budget in steps; None is 500 and 25 more per bit, at most 2000 (1500 with `neighbors`, and
        for the description length alone 500 and 45 more per bit, at most 4000).
    n_passes : float or None
        Budget in passes over the vectors instead.
    sampling : {"passes", "uniform"}
        Batches from shuffled passes, or drawn uniformly with replacement (sources beyond memory
        are always read in passes).
    patience : int or None
        Stop early after so many reports in which neither the reconstruction error nor the
        description length of vectors kept apart from training got better; None never stops early.
    validation_fraction, tol : float
        Share of the vectors that `patience` keeps apart, and the least improvement that counts: a
        share of the error, or bits of description length per bit of the code.
    refit : bool
        Fit the decoder to the final codes by least squares.
    iterate : {"last", "theorem1", "theorem2"}
        Which iterate is returned: the last, or a random one with the probabilities of the paper's
        Theorem 1 (for the smoothness constant `smoothness`) or Theorem 2.
    smoothness : float
        L in Theorem 1.
    terms : mapping of names to weights, or sequence of terms
        Extra losses; see `sghash.models.sgh.losses.terms`.
    decoder_scale : "variance" or None
        Train the decoder as U * |scale|, one scale per column that starts at the column's
        variance, as the authors' released script does.
    standardize : bool
        Train on shifted vectors scaled by one number to mean variance one, so that one learning
        rate fits all data. The attributes are always in units of the given vectors.
    report_every : int or None
        Steps between reports; None is a twentieth of the budget.
    random_state : int, Generator or None
        Seed; the same seed and number of threads give the same model, bit for bit.
    callback : callable or None
        Receives a `Progress` with every report.

    Attributes
    ----------
    encoder_weights_, encoder_bias_ : (d, n_bits), (n_bits,)
        A bit is set where x @ weights + bias > 0.
    decoder_weights_, decoder_bias_ : (n_bits, d), (d,)
        A code h stands for the vector h @ weights + bias.
    noise_variance_ : float
        Mean squared error per column that the decoder expects.
    prior_logits_ : (n_bits,)
        Log odds of each bit before a vector is seen.
    history_ : dict of lists
        Per report: step, description_length (bits per vector), reconstruction_error,
        bits_in_use (sum of the bits' entropies).
    steps_done_ : int
        Steps taken in all.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        decodes=True, tables=True, sharpens=True, online=True, supervised=True
    )
    _learned: ClassVar[tuple[str, ...]] = (
        "encoder_weights_",
        "encoder_bias_",
        "decoder_weights_",
        "decoder_bias_",
        "noise_variance_",
        "prior_logits_",
    )
    _recorded: ClassVar[tuple[str, ...]] = ("history_", "steps_done_")

    def __init__(
        self,
        *,
        n_bits: int = 64,
        metric: str = "l2",
        goal: str = "balanced",
        neighbors: int = 0,
        pair_loss: str = "softmax",
        pair_weight: float | None = None,
        supervised: bool = False,
        gradient: str | None = None,
        coding: str = "signed",
        kl_weight: float | tuple[float, float] = (1.0, 0.0),
        noise: str | float = "learned",
        init: str = "itq",
        optimizer: str = "adam",
        learning_rate: float = 0.01,
        schedule: str | None = None,
        decay: float = 0.5,
        decay_every: int | None = None,
        batch_size: int = 500,
        n_steps: int | None = None,
        n_passes: float | None = None,
        sampling: str = "passes",
        patience: int | None = None,
        validation_fraction: float = 0.1,
        tol: float = 1e-3,
        refit: bool = True,
        iterate: str = "last",
        smoothness: float = 1.0,
        terms: Mapping[str, float] | Sequence[Term] = (),
        decoder_scale: str | None = None,
        standardize: bool = True,
        report_every: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.n_bits, self.gradient, self.coding, self.metric = n_bits, gradient, coding, metric
        self.goal, self.neighbors = goal, neighbors
        self.pair_loss, self.pair_weight, self.supervised = pair_loss, pair_weight, supervised
        self.kl_weight, self.noise, self.init = kl_weight, noise, init
        self.optimizer, self.learning_rate, self.schedule = optimizer, learning_rate, schedule
        self.decay, self.decay_every = decay, decay_every
        self.batch_size, self.n_steps, self.n_passes = batch_size, n_steps, n_passes
        self.sampling, self.patience, self.validation_fraction = (
            sampling,
            patience,
            validation_fraction,
        )
        self.tol, self.refit, self.iterate, self.smoothness = tol, refit, iterate, smoothness
        self.terms, self.decoder_scale, self.standardize = terms, decoder_scale, standardize
        self.report_every, self.random_state, self.callback = report_every, random_state, callback

    @classmethod
    def paper(cls, *, n_bits: int = 64, **options: Any) -> Self:
        """Return the paper's model: Algorithm 1 and the constants it states, nothing of ours.

        0/1 coding, approximate gradient, divergence at weight 1, random start, Adam at 0.01 with
        step decay, batches of 500 drawn uniformly. The number of steps is the released script's,
        since the paper names none. `options` may add a seed, a callback, a metric or a budget.
        """
        return cls._preset(PAPER, n_bits, options)

    @classmethod
    def authors_script(cls, *, n_bits: int = 64, **options: Any) -> Self:
        """Return what the authors' released script does, where that differs from the paper.

        A constant threshold in the place of the draw (straight-through), no divergence but the
        confidence term of opposite sign, fixed unit noise, weight decay, one learned scale per
        column that starts at the variance, and a learning rate that never falls. It takes vectors
        as they are: give MNIST between 0 and 1, as the script does.
        """
        return cls._preset(AUTHORS_SCRIPT, n_bits, options)

    @classmethod
    def _preset(cls, preset: Mapping[str, Any], n_bits: int, options: dict[str, Any]) -> Self:
        mixed = sorted(set(options) - set(FREE_OPTIONS))
        if mixed:
            raise InvalidInput(
                f"a preset fixes {', '.join(mixed)}: build SGH(...) with all options yourself"
            )
        return cls(n_bits=n_bits, **{**preset, **options})

    def fit(
        self, X: ArrayLike | VectorSource, y: ArrayLike | None = None, *, pairs: Any = None
    ) -> Self:
        """Learn the code from vectors `X` (n, d): an array, a memory map or a `VectorSource`.

        `y` are labels (n,) if the option `supervised` is set, -1 for unlabelled rows. `pairs` =
        (i, j, similar), each (m,), are rows of `X` and whether they belong together: the paper's
        pair model. See `sghash.models.sgh.losses.supervision`.
        """
        check_options(self)
        with self._unchanged_on_failure():
            vectors = self._training_vectors(X)
            known = supervision_terms(self, vectors, y, pairs)
            self._train(vectors, known)
        return self

    def _fit(self, vectors: Any, y: ArrayLike | None) -> None:
        self._train(vectors, ())

    def _train(self, vectors: Any, known: Sequence[Term]) -> None:
        # The products of a step are small: threads inside them wait longer than they work.
        with single_threaded_blas():
            self._trainer = fitting.fit(self, vectors, known)

    def partial_fit(self, X: ArrayLike | VectorSource, y: ArrayLike | None = None) -> Self:
        """Go on learning from one more piece of vectors (n, d): one pass over it.

        Pieces are learned from by the description length alone, whatever the goal, and whatever
        `fit` knew of labels and pairs: neighbours are not to be found in them. The first call
        starts from its piece. The schedules run with the steps taken in all and stay at their end
        beyond `n_steps`, so pieces may keep coming for ever; `n_steps` at about the number of
        vectors to come over `batch_size` makes the most of a single pass. A bounded sample of all
        pieces is kept for `refit` (never saved).
        """
        check_options(self)
        if self.neighbors:
            raise InvalidInput("partial_fit finds no neighbours in pieces: use neighbors=0, or fit")
        if self.supervised and y is not None:
            raise InvalidInput("partial_fit learns nothing from labels: give no y, or use fit")
        with self._unchanged_on_failure():
            is_first = not self.__sklearn_is_fitted__()
            vectors = self._training_vectors(X, reset=is_first)
            with single_threaded_blas():
                self._trainer = fitting.partial_fit(self, vectors, is_first=is_first)
        return self

    def _training_vectors(self, X: ArrayLike | VectorSource, *, reset: bool = True) -> Any:
        """Check `X` and leave it as it is stored: batches are converted one by one."""
        with translate_sklearn_errors(), np.errstate(over="ignore"):
            if is_source(X):
                rows = read_rows(X, 0, 1)
                validate_data(self, rows, dtype=np.float32, reset=reset, ensure_all_finite=False)
                return X
            return validate_data(self, X, dtype=STORED, order="C", reset=reset)
