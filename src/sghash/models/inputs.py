"""What comes into a model, checked: by scikit-learn's rules, which are loaded when they are needed.

Plain arrays of numbers, which most callers give, need no look from scikit-learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.errors import InvalidDtype, InvalidInput, NotFitted, SghashError
from sghash.frames import refuse_frame
from sghash.validation import Vectors

BLOCK_ROWS = 16384
# Sums of thousands of squares of such numbers still fit float32.
MAX_ABSOLUTE = 1e15

# What to do about an input that scikit-learn refuses, by a word of its sentence.
_REMEDIES = {
    "NaN": "remove or fill these values first",
    "infinity": "remove these values or rescale the vectors first",
    "parse": "give real numbers",
    "sequence": "give rows of one length, as in np.stack(rows)",
    "features": "use vectors of the same kind as those the model was fitted on",
}


def check_is_fitted(model: Any) -> None:
    """Raise `NotFitted`, which is also scikit-learn's `NotFittedError`, for an unfitted model."""
    if not model.__sklearn_is_fitted__():
        raise not_fitted(
            f"this {type(model).__name__} is not fitted yet, or has been given an option that asks "
            "for another fit: call fit first, or read a fitted model with sghash.load_model"
        )


def not_fitted(sentence: str) -> NotFitted:
    """The error about an unfitted model, ours and scikit-learn's at once."""
    return _not_fitted_class()(sentence)


@cache
def _not_fitted_class() -> type[NotFitted]:
    from sklearn.exceptions import NotFittedError

    def reduce(self: NotFitted) -> tuple[Any, ...]:
        return not_fitted, self.args

    names = {"__module__": NotFitted.__module__, "__doc__": NotFitted.__doc__, "__reduce__": reduce}
    return type("NotFitted", (NotFitted, NotFittedError), names)


def validate_data(model: Any, X: Any, **rules: Any) -> Any:
    """Check `X` as scikit-learn does, and a table with named columns more strictly."""
    from sklearn.utils.validation import validate_data as validate

    refuse_frame(X)
    return validate(model, X, **rules)


def check_block(model: Any, block: NDArray[Any]) -> Vectors:
    """Return a block (m, d) of numbers as finite float32 in C order."""
    # What overflows float32 is refused as infinite; sums may overflow both ways, to NaN.
    with np.errstate(over="ignore", invalid="ignore"):
        if is_plain(block):
            rows = np.ascontiguousarray(block, dtype=np.float32)
            if np.isfinite(rows.sum(dtype=np.float64)) or np.isfinite(rows).all():
                return rows
        from sklearn.utils import check_array

        with translate_sklearn_errors():
            checked: Vectors = check_array(block, dtype=np.float32, order="C", estimator=model)
            return checked


def is_plain(X: Any) -> TypeGuard[NDArray[Any]]:
    """Whether `X` is nothing but a table (n, d) of real numbers with at least one of them."""
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in "fiu" and X.size > 0


def one_vector_as_table(X: Any) -> Any:
    """A single vector (d,) as a table (1, d); anything else as it is."""
    flat_list = isinstance(X, (list, tuple)) and bool(X) and np.isscalar(X[0])
    if not flat_list and getattr(X, "ndim", None) != 1:
        return X
    try:
        array = np.asarray(X)
    except (ValueError, TypeError):
        return X  # whoever checks it will say what is wrong
    return array[None, :] if array.ndim == 1 and array.dtype.kind in "fiu" else X


def refuse_one_vector(X: Any) -> None:
    """Refuse a single vector where scikit-learn's own contract asks for a table."""
    if one_vector_as_table(X) is not X:
        raise InvalidInput(
            "Expected 2D array, got 1D array instead. Reshape your data to (1, n_columns), "
            "or use encode, which takes a single vector"
        )


def is_source(X: Any) -> TypeGuard[VectorSource]:
    """Whether `X` is read by ranges of rows: a memory map or a `VectorSource`."""
    if isinstance(X, np.ndarray):
        return isinstance(X, np.memmap) and X.ndim == 2
    # What isinstance(X, VectorSource) asks, in a tenth of its time.
    return all(hasattr(X, name) for name in ("shape", "dtype", "read"))


@contextmanager
def translate_sklearn_errors() -> Iterator[None]:
    """Turn what scikit-learn refuses into our errors: its sentence on one line, with a remedy."""
    try:
        # Infinite numbers are refused; that their sum is none needs no warning.
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except SghashError:
        raise
    except (ValueError, TypeError) as error:
        sentence = " ".join(str(error).split()).rstrip(".")
        if "contains NaN" in sentence:
            # What follows is advice about classifiers.
            sentence = sentence.partition(". ")[0]
        remedy = next((text for word, text in _REMEDIES.items() if word in sentence), None)
        kind = InvalidDtype if isinstance(error, TypeError) else InvalidInput
        raise kind(f"{sentence}: {remedy}" if remedy else sentence) from error


def sample_rows(
    source: VectorSource | NDArray[Any], n_rows: int, rng: np.random.Generator
) -> Vectors:
    """Take `n_rows` random rows without replacement, as float32, reading the source once."""
    n = source.shape[0]
    # All rows ask for no draw: a caller's generator then goes on as it does for an array.
    chosen = np.arange(n) if n_rows == n else np.sort(rng.choice(n, size=n_rows, replace=False))
    sample = np.empty((n_rows, source.shape[1]), dtype=np.float32)
    filled = 0
    for first, block in blocks_of(source, BLOCK_ROWS):
        last = int(np.searchsorted(chosen, first + len(block)))
        # Numbers too large for float32 become infinite, and are refused as such.
        with np.errstate(over="ignore"):
            sample[filled:last] = block[chosen[filled:last] - first]
        filled = last
    return sample


def refuse_huge(vectors: Vectors) -> Vectors:
    """Refuse numbers so large that sums of their squares overflow float32."""
    largest = max(float(vectors.max(initial=0)), -float(vectors.min(initial=0)))
    if largest > MAX_ABSOLUTE:
        raise InvalidInput(
            f"the vectors reach {largest:.3g}, and squares of numbers beyond {MAX_ABSOLUTE:.0e} "
            "overflow float32: rescale them first"
        )
    return vectors
