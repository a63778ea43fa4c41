"""`minimize_binary` on max-cut and number partitioning, beside simple rivals.

    python benchmarks/integer_programs.py [--seeds 5] [--sizes 40 80 160]

Every method but the one-pass greedy may ask for as many values of the function as distributional
SGD did ("values"). Local search starts at random, flips the first bit that helps until none does,
and starts again; each flip it tries counts as one value. Figures are means over instances: the cut
as a share of all weights (higher is better), and the difference between the two sums of a
partition of numbers up to a million (lower is better).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sghash.evaluation import format_table
from sghash.models import minimize_binary


class Problem(NamedTuple):
    """What to minimise, its slope, and the greedy answer."""

    f: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    greedy: np.ndarray
    shown: Callable[[float], float]


def max_cut(n: int, rng: np.random.Generator) -> Problem:
    """A random graph with eight edges per node and weights from 1 to 9."""
    upper = np.triu((rng.random((n, n)) < 8 / n) * rng.integers(1, 10, (n, n)), 1)
    weights = (upper + upper.T).astype(float)
    degrees, total = weights.sum(axis=1), float(upper.sum())

    def f(bits: np.ndarray) -> np.ndarray:
        h = bits.astype(float)
        return np.einsum("ij,ij->i", h @ weights, h) - h @ degrees

    def slope(bits: np.ndarray) -> np.ndarray:
        return 2 * bits.astype(float) @ weights - degrees

    greedy = np.zeros(n, dtype=bool)
    for node in range(1, n):  # to the side where fewer of its weights are
        placed = weights[node, :node]
        greedy[node] = placed[~greedy[:node]].sum() > placed[greedy[:node]].sum()
    return Problem(f, slope, greedy, lambda value: -value / total)


def partition(n: int, rng: np.random.Generator) -> Problem:
    """Numbers up to a million in two heaps of nearly equal sums."""
    numbers = rng.integers(1, 10**6, n).astype(float)

    def f(bits: np.ndarray) -> np.ndarray:
        return np.abs((2.0 * bits - 1) @ numbers)

    def slope(bits: np.ndarray) -> np.ndarray:
        return 2 * np.sign((2.0 * bits - 1) @ numbers)[:, None] * numbers

    greedy, sums = np.zeros(n, dtype=bool), [0.0, 0.0]
    for place in np.argsort(-numbers):  # the largest left, to the smaller heap
        greedy[place] = sums[1] < sums[0]
        sums[int(greedy[place])] += numbers[place]
    return Problem(f, slope, greedy, lambda value: value)


def local_search(
    problem: Problem, n_bits: int, n_values: int, rng: np.random.Generator
) -> tuple[float, int]:
    """Random restarts, single flips, first improvement; best value and the number of restarts."""
    best, used, n_starts = np.inf, 0, 0
    while used < n_values:
        bits = rng.random(n_bits) < 0.5
        here = float(problem.f(bits[None])[0])
        used, n_starts, failed = used + 1, n_starts + 1, 0
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
    return best, n_starts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", type=int, default=[40, 80, 160])
    options = parser.parse_args()
    methods = (
        "distributional", "approximate", "straight-through",
        "local search", "random draws", "greedy",
    )  # fmt: skip
    lines = []
    for name, make in (("max-cut", max_cut), ("partition", partition)):
        for n in options.sizes:
            figures: dict[str, list[float]] = {method: [] for method in methods}
            for seed in range(options.seeds):
                rng = np.random.default_rng([seed, n])
                problem = make(n, rng)
                found = minimize_binary(problem.f, n, random_state=seed)
                figures["distributional"].append(problem.shown(found.value))
                for other in ("approximate", "straight-through"):
                    # The same number of passes: a slope is worth all flips of a vector.
                    answer = minimize_binary(
                        problem.f, n, gradient=other, slope=problem.slope, random_state=seed
                    )
                    figures[other].append(problem.shown(answer.value))
                value, _ = local_search(problem, n, found.n_values, rng)
                figures["local search"].append(problem.shown(value))
                draws = rng.random((found.n_values, n)) < 0.5
                figures["random draws"].append(problem.shown(float(problem.f(draws).min())))
                greedy = float(problem.f(problem.greedy[None])[0])
                figures["greedy"].append(problem.shown(greedy))
            shown = "{:.4f}" if name == "max-cut" else "{:,.0f}"
            means = [np.mean(figures[method]) for method in methods]
            lines.append([name, str(n), f"{found.n_values:,}", *(shown.format(m) for m in means)])
    print(format_table(["problem", "bits", "values", *methods], lines, markdown=True))


if __name__ == "__main__":
    main()
