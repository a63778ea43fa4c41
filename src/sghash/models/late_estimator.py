"""Estimators of scikit-learn that do not load it before somebody needs one.

To import scikit-learn takes longer than everything a search does. A model that is read from a file
only to encode and to score has no use for it, so the models begin with `LateEstimator` in the place
of scikit-learn's own bases. `become_estimators` puts the real ones there, for all models at once:
when a model is made by hand, when any method that comes from scikit-learn is called, and at once
where scikit-learn is loaded already. From then on everything is as if it had been inherited.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from sghash.errors import InvalidDtype
from sghash.guards import Guard

_guard = Guard(reentrant=True)
_reading: ContextVar[bool] = ContextVar("reading a model from a file", default=False)

#: What scikit-learn's bases bring that may be called on a model.
BROUGHT = (
    "fit_transform",
    "get_metadata_routing",
    "get_params",
    "set_output",
    "set_params",
    "__repr__",
    "__sklearn_clone__",
    "__sklearn_tags__",
    "_repr_html_",
    "_repr_mimebundle_",
)


class LateEstimator:
    """Stands for `TransformerMixin` and `BaseEstimator` until one of their methods is called."""


def _deferred(name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        family = become_estimators(type(self))
        return getattr(super(family, self), name)(*arguments, **options)

    method.__name__ = method.__qualname__ = name
    return method


for _name in BROUGHT:
    setattr(LateEstimator, _name, _deferred(_name))


def become_estimators(model_class: type) -> type:
    """Give the family of a model, all classes below the same one, scikit-learn's bases.

    Returns the class at the head of the family, which is the one whose bases were replaced.
    """
    with _guard.lock:
        head = _head_of(model_class)
        if LateEstimator in head.__bases__:
            from sklearn.base import BaseEstimator, TransformerMixin

            others = tuple(base for base in head.__bases__ if base is not LateEstimator)
            head.__bases__ = (TransformerMixin, BaseEstimator, *others)
            for cls in _family(head):
                # What Python calls for a class that is defined below these bases.
                super(head, cls).__init_subclass__()  # type: ignore[arg-type]
        return head


def made_by_hand(model_class: type) -> None:
    """A model that nobody reads from a file is for fitting, and an estimator from the start."""
    if not _reading.get():
        become_estimators(model_class)


def estimators_if_loaded(head: type) -> None:
    """Do it at once where scikit-learn is loaded: it costs nothing then."""
    _heads.append(head)
    if "sklearn.base" in sys.modules:
        become_estimators(head)


# The classes that stand directly above `LateEstimator`, or stood there.
_heads: list[type] = []


def _head_of(model_class: type) -> type:
    return next(head for head in _heads if issubclass(model_class, head))


def _family(head: Any) -> Iterator[Any]:
    yield head
    for cls in head.__subclasses__():
        yield from _family(cls)


@contextmanager
def reading_a_file() -> Iterator[None]:
    """Within it, models are made for what they have learned, and need not be estimators."""
    token = _reading.set(True)
    try:
        yield
    finally:
        _reading.reset(token)


def option_names(model_class: type) -> list[str]:
    """Names of the options of a model, sorted, as scikit-learn sorts them."""
    taken = inspect.signature(model_class.__init__).parameters.values()  # type: ignore[misc]
    return sorted(p.name for p in taken if p.name != "self" and p.kind is not p.VAR_KEYWORD)


def refuse_unknown_options(model_class: type, options: Mapping[str, Any]) -> None:
    """Refuse the first option that a model has not: with the one that was meant, if any."""
    unknown = options.keys() - set(option_names(model_class))
    if not unknown:
        return
    given, name = sorted(unknown)[0], model_class.__name__
    known = option_names(model_class)
    if given == "metric":
        raise InvalidDtype(
            f"{name} has no metric, it treats vectors as they are: leave it out; for cosine, bring "
            'the vectors to unit length first and say metric="cosine" to Collection.create'
        )
    near = difflib.get_close_matches(given, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
    raise InvalidDtype(f"{name} has no option {given}: {hint}")


def options_of(model: Any) -> dict[str, Any]:
    """The options of a model by name: what `get_params(deep=False)` says, without scikit-learn."""
    return {name: getattr(model, name) for name in option_names(type(model))}
