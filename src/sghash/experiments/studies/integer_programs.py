"""`minimize_binary` on max-cut and number partitioning, beside simple rivals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.experiments.experiment import Context, Drawing, Row, Table, Values
from sghash.experiments.studies.tables import study, table_of
from sghash.models.sgh.variants.integer import minimize_binary

STORE = "integer_programs"
SIZES, QUICK_SIZES = (40, 80, 160), (12,)
Bits = NDArray[np.bool_]
Numbers = NDArray[np.float64]


class Problem(NamedTuple):
    """What to minimise, its slope, the greedy answer, and what of a value is shown."""

    f: Callable[[Bits], Numbers]
    slope: Callable[[Bits], Numbers]
    greedy: Bits
    shown: Callable[[float], float]


def max_cut(n: int, rng: np.random.Generator) -> Problem:
    """A random graph with eight edges per node and weights from 1 to 9."""
    upper = np.triu((rng.random((n, n)) < 8 / n) * rng.integers(1, 10, (n, n)), 1)
    weights = (upper + upper.T).astype(float)
    degrees, total = weights.sum(axis=1), float(upper.sum())

    def f(bits: Bits) -> Numbers:
        h = bits.astype(float)
        return np.asarray(np.einsum("ij,ij->i", h @ weights, h) - h @ degrees)

    def slope(bits: Bits) -> Numbers:
        return np.asarray(2 * bits.astype(float) @ weights - degrees)

    greedy = np.zeros(n, dtype=bool)
    for node in range(1, n):  # to the side where fewer of its weights are
        placed = weights[node, :node]
        greedy[node] = placed[~greedy[:node]].sum() > placed[greedy[:node]].sum()
    return Problem(f, slope, greedy, lambda value: -value / total)


def partition(n: int, rng: np.random.Generator) -> Problem:
    """Numbers up to a million in two heaps of nearly equal sums."""
    numbers = rng.integers(1, 10**6, n).astype(float)

    def f(bits: Bits) -> Numbers:
        return np.asarray(np.abs((2.0 * bits - 1) @ numbers))

    def slope(bits: Bits) -> Numbers:
        return np.asarray(2 * np.sign((2.0 * bits - 1) @ numbers)[:, None] * numbers)

    greedy, sums = np.zeros(n, dtype=bool), [0.0, 0.0]
    for place in np.argsort(-numbers):  # the largest left, to the smaller heap
        greedy[place] = sums[1] < sums[0]
        sums[int(greedy[place])] += numbers[place]
    return Problem(f, slope, greedy, lambda value: value)


PROBLEMS = {"max-cut": max_cut, "partition": partition}


def local_search(problem: Problem, n_bits: int, n_values: int, rng: np.random.Generator) -> float:
    """Random restarts, single flips, first improvement; the best value."""
    best, used = np.inf, 0
    while used < n_values:
        bits = rng.random(n_bits) < 0.5
        here = float(problem.f(bits[None])[0])
        used, failed = used + 1, 0
        while failed < n_bits and used < n_values:
            for k in rng.permutation(n_bits):
                bits[k] = ~bits[k]
                there = float(problem.f(bits[None])[0])
                used += 1
                if there < here:
                    here, failed = there, 0
                else:
                    bits[k] = ~bits[k]
                    failed += 1
                if failed >= n_bits or used >= n_values:
                    break
        best = min(best, here)
    return best


def compare(problem: Problem, n: int, seed: int, rng: np.random.Generator) -> Values:
    """Every method on one instance; all but greedy may ask for as many values of f."""
    found = minimize_binary(problem.f, n, random_state=seed)
    values: dict[str, float] = {"distributional": found.value}
    for other in ("approximate", "straight-through"):
        # The same number of passes: a slope is worth all flips of a vector.
        answer: Any = minimize_binary(
            problem.f, n, gradient=other, slope=problem.slope, random_state=seed
        )
        values[other] = answer.value
    values["local search"] = local_search(problem, n, found.n_values, rng)
    draws = rng.random((found.n_values, n)) < 0.5
    values["random draws"] = float(problem.f(draws).min())
    values["greedy"] = float(problem.f(problem.greedy[None])[0])
    shown = {name: float(problem.shown(value)) for name, value in values.items()}
    return {"values_asked": found.n_values, **shown}


def run(context: Context) -> list[Row]:
    """Every problem at every size, an instance per seed."""
    rows = []
    for name, make in PROBLEMS.items():
        for n in context.pick(QUICK_SIZES, SIZES):
            for seed in range(context.seeds):
                settings = {"problem": name, "n_bits": n, "seed": seed}

                def measure(make: Any = make, n: int = n, seed: int = seed) -> Values:
                    rng = np.random.default_rng([seed, n])
                    return compare(make(n, rng), n, seed, rng)

                rows.append(context.measured(STORE, settings, measure))
    return rows


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Means over instances."""
    return [table_of(rows, ("problem", "n_bits"), list(rows[0]["values"]))]


EXPERIMENT = study(
    "integer_programs",
    title="Any function of bits",
    question="How good is distributional SGD on integer programs without vectors?",
    setup="max-cut (the cut as a share of all weights, higher is better) and number partitioning "
    "(the difference of two sums of numbers up to a million, lower is better), beside local search "
    "with random restarts and random draws, which may ask for as many values, and a greedy pass.",
    run=run,
    draw=draw,
)
