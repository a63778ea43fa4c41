"""The five sets of the training benchmarks, and how their rows are split."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.data.builtin import digits
from sghash.evaluation.truth import ground_truth, truth_folder
from sghash.experiments.sets import (
    GIST,
    MNIST,
    QUICK_CLUSTERS,
    QUICK_DIGITS,
    SIFT,
    TEXTS,
    WORDS,
    BenchSet,
    load,
)
from sghash.neighbors import Neighbors

SETS = {
    "MNIST": MNIST,
    "SIFT": SIFT,
    "GIST": GIST,
    "GloVe": WORDS._replace(label="GloVe"),
    "MiniLM": TEXTS._replace(label="MiniLM"),
}
QUICK_SETS = {
    "digits": QUICK_DIGITS,
    "clusters": QUICK_CLUSTERS,
}
#: Held-out queries and halves are drawn by these, so that every run has the same.
VALIDATION_SEED, HALF_SEED = 7, 11
N_VALIDATION = 1000


class Split(NamedTuple):
    """Rows to learn from, queries (m, d) float32, and by name the rows that are searched."""

    train: NDArray[Any]
    queries: NDArray[np.float32]
    metric: str
    searched: dict[str, NDArray[Any]]


def held_out(base: NDArray[Any], n_queries: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """All rows but `n_queries` drawn ones, and those as queries."""
    order = np.random.default_rng(VALIDATION_SEED).permutation(len(base))
    queries = base[np.sort(order[:n_queries])].astype(np.float32)
    return base[np.sort(order[n_queries:])], queries


def halves(base: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """A random half of the rows, and the other."""
    order = np.random.default_rng(HALF_SEED).permutation(len(base))
    n = len(base) // 2
    return base[np.sort(order[:n])], base[np.sort(order[n:])]


@functools.lru_cache(maxsize=1)
def split_of(which: BenchSet, *, validation: bool = False, half: bool = False) -> Split:
    """The rows of a set; `validation` and `half` as in the options of `training.py`."""
    data = load(which)
    base, queries = data.base, data.queries
    if validation:
        base, queries = held_out(base, min(N_VALIDATION, len(base) // 10))
    if not half:
        return Split(base, queries, data.metric, {"": base})
    seen, unseen = halves(base)
    return Split(seen, queries, data.metric, {"seen ": seen, "unseen ": unseen})


def all_digits() -> Split:
    """scikit-learn's 1,797 digits, to learn from alone."""
    data = digits()
    rows = [np.asarray(part.read(0, part.shape[0])) for part in (data.base, data.queries)]
    train = np.concatenate(rows)
    return Split(train, train[:0], "l2", {})


@functools.lru_cache(maxsize=4)
def _truth(which: BenchSet, validation: bool, half: bool, name: str, k: int) -> Neighbors:
    split = split_of(which, validation=validation, half=half)
    is_built_in = which in QUICK_SETS.values()
    return ground_truth(
        split.searched[name],
        split.queries,
        k,
        metric=split.metric,
        cache=None if is_built_in else truth_folder(),
    )


def truth_of(
    which: BenchSet, name: str, k: int, *, validation: bool = False, half: bool = False
) -> Neighbors:
    """The k true neighbours of a split's queries among the rows searched under `name`."""
    return _truth(which, validation, half, name, k)
