"""Models that are asked for: as text ("ITQ", "SGH.paper", "LSH(center=False)"), and as a run."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sghash.errors import InvalidInput, SghashError
from sghash.models import model_class
from sghash.models.base import VectorModel
from sghash.optional import require


class ModelSpec(NamedTuple):
    """A name in `MODELS`, perhaps with a preset, and the options to set."""

    model: str
    options: dict[str, Any]


class Run(NamedTuple):
    """One model with one length and one seed; `options` go to its constructor.

    `model` is a name in `MODELS`, or a name and a preset of that class, as in "SGH.paper".
    """

    model: str
    n_bits: int
    seed: int
    options: Mapping[str, Any] = {}


def parse_model(text: str) -> ModelSpec:
    """Read a name with options in parentheses; values are Python literals."""
    try:
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Call):
            if tree.args or any(keyword.arg is None for keyword in tree.keywords):
                raise ValueError("options need names")
            options = {str(k.arg): ast.literal_eval(k.value) for k in tree.keywords}
            # As in a row: JSON knows lists, not tuples.
            return ModelSpec(_dotted(tree.func), json.loads(json.dumps(options)))
        return ModelSpec(_dotted(tree), {})
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise InvalidInput(
            f"expected a model as in 'ITQ', 'SGH.paper' or 'LSH(center=False)', got {text!r}"
        ) from error


def format_model(model: str, options: Mapping[str, Any]) -> str:
    """The text that `parse_model` reads back."""
    if not options:
        return model
    return f"{model}({', '.join(f'{name}={value!r}' for name, value in options.items())})"


def build_model(run: Run, metric: str) -> VectorModel:
    """The unfitted model of a run; a model that has an option `metric` is given the data's."""
    name, _, preset = run.model.partition(".")
    cls = model_class(name)
    blank: VectorModel = cls()
    known, length = blank.get_params(deep=False), blank.capabilities.length
    if length.option in run.options:
        raise InvalidInput(
            f"the length of a code is given as a number of bits, not by the option "
            f"{length.option}: leave it out of the options of {run.model}"
        )
    options = {**length.options(run.n_bits, model=name), **run.options}
    if "random_state" in known:
        options.setdefault("random_state", run.seed)
    if "metric" in known:
        options.setdefault("metric", metric)
    make = cls
    if preset:
        if preset not in cls.presets:
            known_ones = f"use one of {', '.join(cls.presets)}" if cls.presets else "leave it out"
            raise InvalidInput(f"the model {name} has no preset {preset!r}: {known_ones}")
        make = getattr(cls, preset)
    # Options of options, as in recipe__schedule; a preset itself says which of them it leaves free.
    nested = {} if preset else {name: v for name, v in options.items() if "__" in name}
    unknown = sorted(set(options) - set(known) - set(nested)) if not preset else []
    if unknown:
        raise InvalidInput(_unknown_option(run.model, unknown[0], blank))
    try:
        model: VectorModel = make(**{k: v for k, v in options.items() if k not in nested})
        if nested:
            model.set_params(**nested)
    except SghashError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{run.model} does not take these options ({error}): it has {', '.join(sorted(known))}"
        ) from error
    return model


def _unknown_option(name: str, option: str, blank: VectorModel) -> str:
    """Say where an option of an option is found, or else which options there are."""
    deep = [known for known in blank.get_params() if known.endswith(f"__{option}")]
    if deep:
        return f"{name} has no option {option}: give it as {deep[0]}"
    return f"{name} has no option {option}: it has {', '.join(sorted(_settable(blank)))}"


def _settable(blank: VectorModel) -> list[str]:
    """Options that can be typed: the length is a number of bits, and calls cannot be written."""
    hidden = (blank.capabilities.length.option, "callback")
    return [name for name in blank.get_params(deep=False) if name not in hidden]


def check_run(run: Run, metric: str) -> None:
    """Refuse what cannot be measured before anything is: no codes to search, or no package."""
    if model_class(run.model.partition(".")[0])().capabilities.codes == "numbers":
        raise InvalidInput(
            f"{run.model} makes numbers, not codes that can be searched: choose another model"
        )
    model = build_model(run, metric)
    check_metric(model, metric)
    require_extra(model)


def check_metric(model: VectorModel, metric: str | None) -> None:
    """Refuse codes whose tables would score the cosine of vectors of any length wrongly."""
    if model.capabilities.codes == "bytes" and metric == "cosine" and model.metric is None:
        # Tables add up to inner products, which are cosines for codes of unit vectors alone.
        raise InvalidInput(
            f"{type(model).__name__} takes no account of a metric, so its tables cannot score "
            "cosine: bring all vectors to unit length and use l2, or choose another model"
        )


def require_extra(model: VectorModel) -> None:
    """Refuse a model whose `fit` needs a package that is not installed."""
    if model.capabilities.extra is not None:
        require(model.capabilities.extra, extra=model.capabilities.extra)


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    raise ValueError("not a name")
