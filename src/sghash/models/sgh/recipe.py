"""The recipe of `SGH`: how it is trained, beyond what its own options say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sghash.errors import InvalidInput
from sghash.models.sgh.losses.ranking import PAIR_LOSSES
from sghash.models.sgh.losses.terms import Term, make_terms
from sghash.models.sgh.training.batches import SAMPLING
from sghash.models.sgh.training.optimizer import ITERATES, OPTIMIZERS, SCHEDULES
from sghash.models.sgh.training.start import STARTS
from sghash.validation import check_choice, check_count, check_flag, check_number

#: How options of `SGH` name fields of its recipe.
PREFIX = "recipe__"
#: What a field is where None leaves it open, whatever the other options.
CHOSEN: dict[str, Any] = {
    "pair_loss": "softmax",
    "decay": 0.5,
    "sampling": "passes",
    "validation_fraction": 0.1,
    "tol": 1e-3,
    "smoothness": 1.0,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Recipe:
    """How `SGH` is trained: what few callers change, and nobody has to.

    A recipe never changes. `SGH(recipe=Recipe(schedule="cosine"))` and
    `SGH().set_params(recipe__schedule="cosine")` mean the same, and grids may vary
    `recipe__schedule`. A field at None is chosen for you; one that is given where it could have no
    effect is refused by `fit`.

    Parameters
    ----------
    pair_loss : {"softmax", "bernoulli"} or None
        Loss of a pair of neighbours, or of labels; see `sghash.models.sgh.losses.ranking`. None is
        "softmax".
    pair_weight : float or None
        Weight of the ranking loss, of labels and of known pairs; None chooses the first by the
        goal and the number of bits, and 2560 / n_bits for the others.
    noise : "learned" or float
        Variance rho² of the decoder, learned or given (in squared units of the vectors).
    init : {"itq", "pca", "random", "script"}
        Where training starts; see `sghash.models.sgh.training.start`.
    optimizer : {"adam", "sgd"}
        What a gradient does to the parameters.
    schedule : {"step", "sqrt", "constant", "cosine"} or None
        How the learning rate falls: times `decay` every `decay_every` steps, as 1 / sqrt(t), not
        at all, or as half a cosine to zero. None is "sqrt" for SGD, "cosine" beside a ranking
        loss, else "step".
    decay, decay_every : float or None, int or None
        Factor and interval of the schedule "step"; None is 0.5, and half of the budget.
    n_passes : float or None
        Budget in passes over the vectors, in the place of `n_steps`.
    sampling : {"passes", "uniform"} or None
        Batches from shuffled passes (None), or drawn uniformly with replacement. A ranking loss
        always draws uniformly, and what is read from a file always comes in passes.
    patience : int or None
        Stop early after so many reports in which neither the reconstruction error nor the
        description length of held-out vectors got better; None never stops early.
    validation_fraction, tol : float or None
        Share of the vectors that `patience` holds out (None is 0.1), and the least improvement
        that counts (None is 0.001): a share of the error, or bits of description length per bit of
        the code.
    refit : bool
        Fit the decoder to the final codes by least squares.
    iterate : {"last", "theorem1", "theorem2"}
        Which iterate is returned: the last, or a random one with the probabilities of the paper's
        Theorem 1 (for the smoothness constant `smoothness`) or Theorem 2.
    smoothness : float or None
        L in Theorem 1; None is 1.
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
    """

    pair_loss: str | None = None
    pair_weight: float | None = None
    noise: str | float = "learned"
    init: str = "itq"
    optimizer: str = "adam"
    schedule: str | None = None
    decay: float | None = None
    decay_every: int | None = None
    n_passes: float | None = None
    sampling: str | None = None
    patience: int | None = None
    validation_fraction: float | None = None
    tol: float | None = None
    refit: bool = True
    iterate: str = "last"
    smoothness: float | None = None
    terms: Mapping[str, float] | Sequence[Term] = ()
    decoder_scale: str | None = None
    standardize: bool = True
    report_every: int | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All fields by name, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in FIELDS}

    def set_params(self, **changes: Any) -> Recipe:
        """Return a copy with these fields changed: a recipe may be shared."""
        unknown = ", ".join(sorted(set(changes) - set(FIELDS)))
        if unknown:
            raise InvalidInput(f"a recipe has no {unknown}: it has {', '.join(FIELDS)}")
        return replace(self, **changes)

    def chosen(self, name: str) -> Any:
        """Return a field, or what `CHOSEN` says of it where it is left open."""
        value = getattr(self, name)
        return CHOSEN.get(name) if value is None else value

    def __repr__(self) -> str:
        changed = [f.name for f in fields(self) if repr(getattr(self, f.name)) != repr(f.default)]
        return f"Recipe({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"


FIELDS: tuple[str, ...] = tuple(field.name for field in fields(Recipe))

#: What the paper's Algorithm 1 and its experiments state; `SGH.paper` adds the options.
PAPER = Recipe(init="random", optimizer="adam", schedule="step", sampling="uniform", refit=False)
#: What the authors' released script does; its loss is a sum over the batch, ours a mean.
AUTHORS_SCRIPT = Recipe(
    noise=1.0,
    init="script",
    optimizer="adam",
    schedule="constant",
    sampling="uniform",
    refit=False,
    terms={"confidence": 1e-3, "weight_decay": 1e-3 / 500},
    decoder_scale="variance",
    standardize=False,
)

_CHOICES = {"init": STARTS, "optimizer": OPTIMIZERS, "iterate": ITERATES}
_OPTIONAL_CHOICES = {
    "pair_loss": tuple(PAIR_LOSSES),
    "schedule": SCHEDULES,
    "sampling": SAMPLING,
}
_OPTIONAL_COUNTS = ("decay_every", "patience", "report_every")
_OPTIONAL_POSITIVE = ("pair_weight", "decay", "n_passes", "smoothness")


def recipe_of(option: Any) -> Recipe:
    """Return the recipe that the option `recipe` stands for."""
    if option is None:
        return Recipe()
    if not isinstance(option, Recipe):
        raise InvalidInput(
            f"recipe must be None or a Recipe, as in Recipe(schedule='cosine'), got {option!r}"
        )
    return option


def recipe_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what options named `recipe__...` say, by the names of the fields."""
    named = {k: v for k, v in options.items() if k.startswith(PREFIX)}
    return {name.removeprefix(PREFIX): value for name, value in named.items()}


def check_recipe(recipe: Recipe) -> None:
    """Refuse, in one sentence, the first field that cannot be used."""
    for name, choices in _CHOICES.items():
        check_choice(getattr(recipe, name), choices, name=name)
    for name, choices in _OPTIONAL_CHOICES.items():
        if getattr(recipe, name) is not None:
            check_choice(getattr(recipe, name), choices, name=name)
    for name in _OPTIONAL_COUNTS:
        check_count(getattr(recipe, name), name=name, or_none=True)
    for name in _OPTIONAL_POSITIVE:
        if getattr(recipe, name) is not None:
            check_number(getattr(recipe, name), name=name, above=0)
    if recipe.decoder_scale not in (None, "variance"):
        raise InvalidInput(
            f"decoder_scale must be None or 'variance', got {recipe.decoder_scale!r}"
        )
    if recipe.noise != "learned":
        check_number(recipe.noise, name="noise", above=0)
    if recipe.tol is not None:
        check_number(recipe.tol, name="tol", least=0)
    if recipe.validation_fraction is not None:
        check_number(recipe.validation_fraction, name="validation_fraction", above=0)
        if not recipe.validation_fraction < 1:
            raise InvalidInput(
                f"validation_fraction must lie between 0 and 1, got {recipe.validation_fraction!r}"
            )
    for name in ("refit", "standardize"):
        check_flag(getattr(recipe, name), name=name)
    make_terms(recipe.terms)


#: Preset -> the options that it fixes; the paper names no number of steps, this is the script's.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "goal": "reconstruction",
        "gradient": "approximate",
        "coding": "binary",
        "kl_weight": 1.0,
        "learning_rate": 0.01,
        "batch_size": 500,
        "n_steps": 5000,
        "recipe": PAPER,
    },
    "authors_script": {
        "goal": "reconstruction",
        "gradient": "straight-through",
        "coding": "binary",
        "kl_weight": 0.0,
        "learning_rate": 0.01,
        "batch_size": 500,
        "n_steps": 5000,
        "recipe": AUTHORS_SCRIPT,
    },
}
#: What a caller may choose beside a preset without changing what it stands for.
FREE_OPTIONS = ("metric", "n_steps", "random_state", "callback")
FREE_FIELDS = ("n_passes", "report_every", "patience", "validation_fraction", "tol")


def preset_options(preset: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a preset, with what the caller may add to it."""
    free = (*FREE_OPTIONS, *(f"recipe__{name}" for name in FREE_FIELDS))
    mixed = sorted(set(options) - set(free))
    if mixed:
        raise InvalidInput(
            f"a preset takes no {', '.join(mixed)}: it takes {', '.join(free)}; for others, "
            "build SGH(...) with all options yourself"
        )
    fixed, changes = dict(PRESETS[preset]), recipe_fields(options)
    if changes.get("n_passes") is not None:
        fixed["n_steps"] = None
    fixed["recipe"] = fixed["recipe"].set_params(**changes)
    return {**fixed, **{name: v for name, v in options.items() if name in FREE_OPTIONS}}


#: Until version 0.1 the fields of the recipe were options, and these had values by default where
#: None now leaves them open: beside other options they would be refused.
_OPENED = {
    "goal": "balanced",
    "pair_loss": "softmax",
    "decay": 0.5,
    "sampling": "passes",
    "validation_fraction": 0.1,
    "tol": 1e-3,
    "smoothness": 1.0,
}


def to_save(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as files hold them: the fields of the recipe beside them, by `PREFIX`."""
    recipe = options["recipe"]
    # Earlier versions, which know no hidden layer, read files without one.
    options = {k: v for k, v in options.items() if k != "hidden" or v != 0}
    if not isinstance(recipe, Recipe):
        return dict(options)
    fields = {f"{PREFIX}{name}": value for name, value in recipe.get_params().items()}
    return {**{k: v for k, v in options.items() if k != "recipe"}, **fields}


def from_saved(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a file holds; `TypeError` for what no version has written."""
    fields = recipe_fields(saved)
    if any(name in saved for name in FIELDS):
        saved = {k: None if k in _OPENED and _OPENED[k] == v else v for k, v in saved.items()}
        fields = {name: value for name, value in saved.items() if name in FIELDS}
        if saved.get("neighbors"):  # which decided alone, whatever the goal
            saved["goal"] = None
    options = {k: v for k, v in saved.items() if k not in FIELDS and not k.startswith(PREFIX)}
    if not fields:
        return options
    # JSON knows no tuples.
    fields["terms"] = fields.get("terms") or ()
    return {**options, "recipe": Recipe(**fields)}
