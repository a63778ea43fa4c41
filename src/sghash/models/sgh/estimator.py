"""Stochastic Generative Hashing, the estimator.

Dai, Guo, Kumar, He, Song, "Stochastic Generative Hashing", ICML 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sghash.blocks import VectorSource, read_rows
from sghash.errors import InvalidInput
from sghash.models.base import Callback
from sghash.models.capabilities import Capabilities
from sghash.models.inputs import is_source, translate_sklearn_errors, validate_data
from sghash.models.sgh.inference import GenerativeHasher
from sghash.models.sgh.losses.supervision import supervision_terms
from sghash.models.sgh.options import KL_WEIGHT, MAX_ROWS, settings_of
from sghash.models.sgh.paper.gradients import fitted_encoder
from sghash.models.sgh.recipe import (
    FIELDS,
    PREFIX,
    PRESETS,
    Recipe,
    from_saved,
    preset_options,
    recipe_fields,
    recipe_of,
    to_save,
)
from sghash.models.sgh.training.encoder import HIDDEN
from sghash.models.sgh.training.fitting import Past, Session, fit, fit_piece, ranked_rows
from sghash.models.sgh.training.learned import Learned
from sghash.models.sgh.training.scaling import STORED
from sghash.models.shared.blockwise import single_threaded_blas
from sghash.models.shared.seeds import generator_of


class SGH(GenerativeHasher):
    """Codes that describe vectors shortest: a linear encoder and decoder, trained together.

    Parameters
    ----------
    n_bits : int
        Code length; may exceed the width of the vectors.
    metric : {"l2", "ip", "cosine"}
        What `query_tables` scores, and by what neighbours are near. "cosine" also brings every
        vector to unit length first (a zero vector stays zero): the model is one of directions.
    goal : {"balanced", "hamming", "reconstruction"} or None
        What the codes are for. "hamming" weighs a ranking loss more: a vector's nearest others
        shall have the nearest codes. "reconstruction" is the description length alone,
        best for `decode` and asymmetric search. "balanced" (None) has a little of the ranking
        loss.
    neighbors : int
        Learn from so many neighbours of every vector of the sample, with more weight and for
        longer: better recall by Hamming distance for about three times the time. 0 learns from a
        few neighbours of some vectors. There is no `goal` beside a number of neighbours.
    hidden : int
        Units of a hidden layer beside the linear encoder: codes of short length rank much better
        for a longer training and a slower `encode`, above all with `neighbors`. 0 (the paper's
        model) has none; at most 65,536.
    supervised : bool
        Whether `fit` learns from `y`: labels, -1 for unlabelled rows. Off, `y` is ignored, so that
        the model can stand before a classifier in a pipeline.
    coding : {"signed", "binary"}
        Whether the decoder sees a bit as -1/+1 or as 0/1.
    gradient : {"approximate", "distributional", "exact", "straight-through"} or None
        How the encoder's gradient is estimated; see `sghash.models.sgh.paper.gradients`. None is
        "exact" beside a ranking loss, which compares the codes without a draw, and else
        "approximate".
    kl_weight : float or (float, float)
        Weight of the divergence in the objective, or its first and its last value, with a line
        between over three quarters of the steps. The paper has 1.
    n_steps : int or None
        Budget in steps; None is 200 and 6 more per bit, at most 1000 (with `neighbors` 600 and 8
        more per bit, at most 1500, beside a hidden layer 2500; for the description length alone
        500 and 45 more per bit, at most 4000). Unasked, large sets get up to twice as many, and
        small ones fewer: no vector is looked at more than twenty times.
    batch_size : int
        Vectors per step: half of them anchors, half of them neighbours, one of each. With a hidden
        layer, so many of either.
    learning_rate : float or None
        First learning rate, for vectors of mean variance one (see `Recipe.standardize`). None is
        0.01, beside a ranking loss 0.02, and there with a hidden layer 0.005.
    max_rows : int or None
        Rows that `fit` looks at beside a ranking loss, that is, by default: a random sample of so
        many, or of as many as 256 MiB hold in float32 (43,690 of width 1536) if these are fewer.
        Without `neighbors` 3,000 per bit or a quarter of them are enough, whichever is more. None
        is all rows, in memory at once. The
        description length alone (`goal="reconstruction"`) reads all rows, batch by batch.
    recipe : Recipe or None
        Everything else: the start, the optimiser and its schedule, early stopping, extra terms;
        see `Recipe`. None is `Recipe()`. Its fields can be set as `recipe__schedule` and so on.
    random_state : int, RandomState, Generator or None
        Seed; the same seed and number of threads give the same model, bit for bit.
    callback : callable or None
        Receives a `Progress` with every report.

    Attributes
    ----------
    encoder_weights_, encoder_bias_ : (d, n_bits), (n_bits,)
        A bit is set where x @ weights + bias > 0; beside a hidden layer where
        x @ weights + max(x @ hidden_weights + hidden_bias, 0) @ hidden_output + bias > 0.
    hidden_weights_, hidden_bias_, hidden_output_ : (d, hidden), (hidden,), (hidden, n_bits)
        The hidden layer, if `hidden` is not 0.
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
        decodes=True, tables=True, sharpens=True, online=True, supervised=True, onnx=True
    )
    presets: ClassVar[tuple[str, ...]] = tuple(PRESETS)
    learned_names: ClassVar[tuple[str, ...]] = (
        "encoder_weights_",
        "encoder_bias_",
        "decoder_weights_",
        "decoder_bias_",
        "noise_variance_",
        "prior_logits_",
    )
    optional_names: ClassVar[tuple[str, ...]] = tuple(f"{name}_" for name in HIDDEN)
    shape_options: ClassVar[tuple[str, ...]] = ("hidden",)
    recorded_names: ClassVar[tuple[str, ...]] = ("history_", "steps_done_")

    def __init__(
        self,
        n_bits: int = 64,
        *,
        metric: str = "l2",
        goal: str | None = None,
        neighbors: int = 0,
        hidden: int = 0,
        supervised: bool = False,
        coding: str = "signed",
        gradient: str | None = None,
        kl_weight: float | tuple[float, float] = KL_WEIGHT,
        n_steps: int | None = None,
        batch_size: int = 500,
        learning_rate: float | None = None,
        max_rows: int | None = MAX_ROWS,
        recipe: Recipe | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.n_bits, self.metric, self.goal = n_bits, metric, goal
        self.neighbors, self.hidden = neighbors, hidden
        self.supervised, self.coding, self.gradient = supervised, coding, gradient
        self.kl_weight, self.n_steps, self.batch_size = kl_weight, n_steps, batch_size
        self.learning_rate, self.max_rows, self.recipe = learning_rate, max_rows, recipe
        self.random_state, self.callback = random_state, callback

    @classmethod
    def paper(cls, n_bits: int = 64, **options: Any) -> Self:
        """Return the paper's model: Algorithm 1 with the constants that the paper states.

        0/1 coding, approximate gradient, divergence at weight 1, random start, Adam at 0.01,
        batches of 500 drawn uniformly. Not in the paper, but here: vectors are shifted and scaled
        to mean variance one for the training (`standardize`), the encoder has a bias, the decoder
        starts at the data's mean and the noise at its variance, and the learning rate is halved
        once, after half of the steps (the paper says it decays, not how). The decoder's
        translation is from the supplement; the number of steps is the released script's, since
        the paper names none.

        `options` may add `metric`, `n_steps`, `random_state`, `callback`, and of the recipe
        `recipe__n_passes`, `recipe__report_every` and what belongs to `recipe__patience`.
        """
        return cls(n_bits, **preset_options("paper", options))

    @classmethod
    def authors_script(cls, n_bits: int = 64, **options: Any) -> Self:
        """Return what the authors' released script does, where that differs from the paper.

        A constant threshold in the place of the draw (straight-through), no divergence but the
        confidence term of opposite sign, fixed unit noise, weight decay, one learned scale per
        column that starts at the variance, and a learning rate that never falls. It takes vectors
        as they are: give MNIST between 0 and 1, as the script does. `options` as in `paper`.
        """
        return cls(n_bits, **preset_options("authors_script", options))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All options by name; if `deep`, the fields of the recipe too, as `recipe__...`."""
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and self.recipe is None:
            params |= {f"{PREFIX}{name}": value for name, value in Recipe().get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set options by name; `recipe__...` puts a changed copy in the place of the recipe."""
        moved = [name for name in params if name in FIELDS]
        if moved:
            raise InvalidInput(f"{moved[0]} is a field of the recipe: set {PREFIX}{moved[0]}")
        changes = recipe_fields(params)
        if changes:
            recipe = recipe_of(params.get("recipe", self.recipe)).set_params(**changes)
            params = {k: v for k, v in params.items() if not k.startswith(PREFIX)}
            params["recipe"] = recipe
        super().set_params(**params)
        return self

    @property
    def stored_names(self) -> tuple[str, ...]:
        """Learned attributes of a model with these options."""
        return (*self.learned_names, *(self.optional_names if self.hidden else ()))

    def options_to_save(self) -> dict[str, Any]:
        """Options as a file holds them, those of the recipe by names of their own."""
        return to_save(super().options_to_save())

    @classmethod
    def from_saved_options(cls, options: Mapping[str, Any]) -> Self:
        """A model with the options of a file, of an older version too."""
        return cls(**from_saved(options))

    def fit(
        self, X: ArrayLike | VectorSource, y: ArrayLike | None = None, *, pairs: Any = None
    ) -> Self:
        """Learn the code from vectors `X` (n, d): an array, a memory map or a `VectorSource`.

        `y` are labels (n,) if the option `supervised` is set, -1 for unlabelled rows. `pairs` =
        (i, j, similar), each (m,), are rows of `X` and whether they belong together: the paper's
        pair model. See `sghash.models.sgh.losses.supervision`.
        """
        settings = settings_of(self, pairs=pairs is not None)
        rng = generator_of(self.random_state)
        with self._unchanged_on_failure():
            vectors = self._training_vectors(X)
            supervision = supervision_terms(settings, vectors, y, pairs)
            # The products of a step are small: threads inside them wait longer than they work.
            with single_threaded_blas():
                self._publish(fit(settings, vectors, rng, self._listen, supervision))
        return self

    def partial_fit(self, X: ArrayLike | VectorSource, y: ArrayLike | None = None) -> Self:
        """Go on learning from one more piece of vectors (n, d): one pass over it.

        Pieces are learned from by the description length alone, whatever the goal, and whatever
        labels and pairs `fit` had: neighbours are not to be found in them. The first call
        starts from its piece. The schedules run with the steps taken in all and stay at their end
        beyond `n_steps`, so pieces may keep coming for ever; `n_steps` at about the number of
        vectors to come over `batch_size` makes the most of a single pass. A bounded sample of all
        pieces is kept for `refit` (never saved).
        """
        settings = settings_of(self, online=True)
        if self.neighbors:
            raise InvalidInput("partial_fit finds no neighbours in pieces: use neighbors=0, or fit")
        if self.supervised and y is not None:
            raise InvalidInput("partial_fit learns nothing from labels: give no y, or use fit")
        past = self._past()
        rng = generator_of(self.random_state if past is None or past.session is None else None)
        with self._unchanged_on_failure():
            vectors = self._training_vectors(X, reset=past is None)
            with single_threaded_blas():
                self._publish(fit_piece(settings, vectors, past, self._listen, rng))
        return self

    def rows_learned(self, n: int) -> int:
        """Of n vectors, from how many a model with these options learns; once it is fitted."""
        settings = settings_of(self)
        ranked = settings.asks_for_ranking
        return min(n, ranked_rows(settings, n, int(self.n_features_in_))) if ranked else n

    def _past(self) -> Past | None:
        if not self.__sklearn_is_fitted__():
            return None
        own = {name.removesuffix("_"): getattr(self, name) for name in self.learned_names}
        learned = Learned(**own, hidden=fitted_encoder(self, np.float32).hidden)
        return Past(getattr(self, "_session", None), learned, getattr(self, "steps_done_", 0))

    def _publish(self, session: Session) -> None:
        """Set the learned attributes, and keep the session for pieces to come."""
        self._session, learned = session, session.learned
        for name in self.learned_names:
            setattr(self, name, getattr(learned, name.removesuffix("_")))
        for name in self.optional_names:
            self.__dict__.pop(name, None)  # an earlier fit may have had a hidden layer
        if learned.hidden is not None:
            self.hidden_weights_, self.hidden_bias_, self.hidden_output_ = learned.hidden
        self.history_, self.steps_done_ = session.trainer.history, session.trainer.n_done

    def _listen(self, step: int, total: int, values: dict[str, float]) -> None:
        self._report(step, total, **values)

    def _training_vectors(self, X: ArrayLike | VectorSource, *, reset: bool = True) -> Any:
        """Check `X` and leave it as it is stored: batches are converted one by one."""
        with translate_sklearn_errors(), np.errstate(over="ignore"):
            if is_source(X):
                rows = read_rows(X, 0, 1)
                validate_data(self, rows, dtype=np.float32, reset=reset, ensure_all_finite=False)
                return X
            return validate_data(self, X, dtype=STORED, order="C", reset=reset)
