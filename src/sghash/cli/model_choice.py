"""Choosing and fitting a model: what `fit` and `create` share."""

from __future__ import annotations

import ast
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from sghash.cli.argument_types import ModelName
from sghash.cli.inputs import seed_option
from sghash.cli.printing import say
from sghash.cli.progress import training_bar
from sghash.errors import InvalidInput
from sghash.validation import MAX_BITS

if TYPE_CHECKING:
    from sghash.data.sources import RowSource
    from sghash.models.base import VectorModel


class Choice(NamedTuple):
    """What the options say about the model to be fitted."""

    spec: str
    n_bits: int
    metric: str | None
    options: tuple[str, ...]
    seed: int


def model_options(function: Any) -> Any:
    """`--model`, `--bits`, `--metric`, `--option` and `--seed`."""
    for decorate in (
        seed_option,
        click.option(
            "-o", "--option", "options", multiple=True, metavar="NAME=VALUE",
            help="An option of the model; may be repeated. `sghash info SGH` lists them.",
        ),
        click.option(
            "--metric", type=click.Choice(["l2", "ip", "cosine"]),
            help="What makes vectors neighbours; if not given, what a data set says, or l2.",
        ),
        click.option(
            "--bits", "n_bits", type=click.IntRange(1, MAX_BITS), metavar="N", default=64,
            show_default=True, help="Code length; quantizers take whole bytes, as 64 bits.",
        ),
        click.option(
            "--model", "spec", type=ModelName(), default="SGH", show_default=True,
            help="A model that sghash info lists, with a preset (SGH.paper) or options "
            "(ITQ(n_iterations=20)).",
        ),
    ):  # fmt: skip
        function = decorate(function)
    return function


def build(choice: Choice, metric: str) -> VectorModel:
    """The model that was asked for, not yet fitted; `metric` is for one that can use it."""
    from sghash.evaluation.specs import Run, build_model, parse_model, require_extra

    name, options = parse_model(choice.spec)
    options |= _parse_options(choice.options)
    if "callback" in options:
        raise InvalidInput("a callback is not for a shell: leave it out")
    model = build_model(Run(name, choice.n_bits, choice.seed, options), choice.metric or metric)
    require_extra(model)
    if choice.metric is not None and model.metric not in (None, choice.metric):
        raise InvalidInput(f"--metric {choice.metric} contradicts the model's own option metric")
    return model


def check_kind(model: VectorModel, metric: str | None) -> None:
    """Refuse a model whose codes no collection can hold, or none of this metric."""
    from sghash.collection.stored_model import check_codes_of
    from sghash.evaluation.specs import check_metric

    check_codes_of(model)
    check_metric(model, metric)


class Fitted(NamedTuple):
    """How long a fit took, and of how many vectors how many were read."""

    seconds: float
    n_read: int
    n: int

    def __str__(self) -> str:
        some = f"{self.n_read} of {self.n}" if self.n_read < self.n else str(self.n)
        return f"{some} vectors"


def fit(model: VectorModel, rows: RowSource) -> Fitted:
    """Fit with a bar, or with a line where the model does not tell how far it is."""
    what = f"fitting {type(model).__name__}"
    started = time.perf_counter()
    if "callback" in model.get_params(deep=False):
        with training_bar(what) as bar:
            model.set_params(callback=bar)
            model.fit(rows)
        model.set_params(callback=None)
    else:
        say(f"{what} on {rows.shape[0]} vectors", err=True)
        model.fit(rows)
    n = rows.shape[0]
    return Fitted(time.perf_counter() - started, model.rows_learned(n), n)


def _parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise InvalidInput(f"--option takes NAME=VALUE, as in n_steps=500, got {pair!r}")
        if name in options:
            raise InvalidInput(f"--option {name} is given twice")
        options[name] = _value(text)
    return options


def _value(text: str) -> Any:
    """A Python constant; anything else is a text, so that the shell needs no second quotes."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, (bool, int, float, str, type(None), list)) else text
