"""The two convergence theorems, iterate by iterate, with plain SGD."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.experiments.comparisons import estimates, text_of
from sghash.experiments.experiment import (
    Context,
    Drawing,
    Experiment,
    Row,
    Table,
    Values,
    Verdict,
    check_rows,
)
from sghash.experiments.pictures import series_of
from sghash.experiments.sets import QUICK_DIGITS, SIFT, BenchSet, load
from sghash.models.sgh.training.batches import Batch
from sghash.models.sgh.training.optimizer import Parameters
from sghash.models.sgh.training.scaling import Scaling
from sghash.models.sgh.training.start import make_start
from sghash.models.sgh.training.step import GaussianStep
from sghash.validation import Vectors

STORE = "convergence"
HORIZONS, QUICK_HORIZONS = (100, 316, 1000, 3162, 10_000), (50, 200, 800)
N_ROWS, N_BITS, BATCH = 1000, 16, 50
CODING = "binary"
#: The step of horizon t is RATE / sqrt(t).
RATE = 0.2
N_LOOKS = 40
N_DRAWS = 4
THEOREMS = {"theorem 1": "distributional", "theorem 2": "approximate"}
# A bound of order 1/sqrt(t) has slope -1/2 in logarithms; what falls as fast or faster keeps it.
SLOPE, TOLERANCE = -0.5, 0.1
N_LONGEST = 3


def run(context: Context) -> list[Row]:
    """Per theorem, horizon and seed: the mean of what the theorem bounds, over the trajectory."""
    which = context.pick(QUICK_DIGITS, SIFT)
    n_rows = context.pick(300, N_ROWS)
    horizons = context.pick(QUICK_HORIZONS, HORIZONS)
    rows = []
    for theorem in THEOREMS:
        for horizon in horizons:
            for seed in range(context.seeds):
                settings = {
                    **which.settings(),
                    "n_rows": n_rows,
                    "n_bits": N_BITS,
                    "batch": BATCH,
                    "rate": RATE,
                    "theorem": theorem,
                    "horizon": horizon,
                    "seed": seed,
                }
                measure = _Measure(which, n_rows, theorem, horizon, horizons[-1], seed)
                rows.append(context.measured(STORE, settings, measure))
    return rows


class _Measure:
    """One trajectory of a given length."""

    def __init__(
        self, which: BenchSet, n_rows: int, theorem: str, horizon: int, longest: int, seed: int
    ) -> None:
        self.which, self.n_rows, self.theorem = which, n_rows, theorem
        self.horizon, self.longest, self.seed = horizon, longest, seed

    def __call__(self) -> Values:
        trajectory = Trajectory(_rows_of(self.which, self.n_rows), self.theorem, self.seed)
        if self.theorem == "theorem 1":
            return {"bounded": trajectory.squared_norms(self.horizon)}
        optimum = _end_of(self.which, self.n_rows, self.seed, 4 * self.longest)
        return trajectory.inner_products(self.horizon, optimum)


class Trajectory:
    """SGD from a random start on fixed rows in the trainer's units."""

    def __init__(self, rows: Vectors, theorem: str, seed: int) -> None:
        self.rows, self.seed = rows, seed
        self.step = GaussianStep(estimator=THEOREMS[theorem], coding=CODING)
        self.whole = GaussianStep(estimator=THEOREMS[theorem], coding=CODING)
        self.exact = GaussianStep(estimator="exact", coding=CODING)

    def walk(self, horizon: int) -> Any:
        """Yield the parameters before every step, and the stochastic gradient of the step."""
        rng = np.random.default_rng([self.seed, horizon])
        start = make_start("random", self.rows, N_BITS, coding=CODING, rng=_rng(self.seed))
        parameters = Parameters(start._asdict())
        gradient, rate = parameters.zeros(), np.float32(RATE / np.sqrt(horizon))
        for _ in range(horizon):
            chosen = rng.integers(len(self.rows), size=BATCH)
            batch = Batch(self.rows[chosen], chosen)
            self.step.gradient(parameters, batch, 1.0, rng, gradient)
            yield parameters, gradient
            parameters.flat -= rate * gradient.flat

    def squared_norms(self, horizon: int) -> float:
        """Mean over the trajectory of |gradient of the objective|², which is E over R.

        All steps are equal, so the theorem draws R uniformly.
        """
        shares = looks(horizon)
        total = 0.0
        for number, (parameters, _) in enumerate(self.walk(horizon)):
            if number in shares:
                gradient = self._full(self.exact, parameters, 1)
                total += shares[number] * float(gradient @ gradient)
        return total

    def inner_products(self, horizon: int, optimum: NDArray[np.float64]) -> Values:
        """Mean of (theta - optimum)·(mean approximate gradient), and the bound of the lemma."""
        shares = looks(horizon)
        product, largest, first = 0.0, 0.0, 0.0
        for number, (parameters, gradient) in enumerate(self.walk(horizon)):
            largest = max(largest, float(np.square(gradient.flat, dtype=np.float64).sum()))
            away = parameters.flat - optimum
            if number == 0:
                first = float(away @ away)
            if number in shares:
                slope = self._full(self.whole, parameters, N_DRAWS)
                product += shares[number] * float(away @ slope)
        rate = RATE / np.sqrt(horizon)
        bound = (first + horizon * rate**2 * largest) / (2 * horizon * rate)
        return {"bounded": product, "bound": float(bound)}

    def _full(self, step: GaussianStep, parameters: Parameters, n_draws: int) -> Any:
        """Gradient over all rows, averaged over draws."""
        out, total = parameters.zeros(), np.zeros(parameters.flat.size)
        batch = Batch(self.rows, np.arange(len(self.rows)))
        for draw in range(n_draws):
            step.gradient(parameters, batch, 1.0, np.random.default_rng(draw), out)
            total += out.flat
        return total / n_draws


def looks(horizon: int) -> dict[int, float]:
    """Iterates at which to look, and the share of the trajectory that each stands for.

    The start changes fastest, so it is looked at most; every stretch is seen in its middle.
    """
    edges = np.unique(np.geomspace(1, horizon + 1, N_LOOKS + 1).astype(int)) - 1
    ranges = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return {(first + last - 1) // 2: (last - first) / horizon for first, last in ranges}


def slope_of(rows: Sequence[Row], theorem: str) -> float:
    """Slope of log(mean over seeds) against log(t) over the longest horizons, least squares.

    An order says nothing of the first steps. NaN where a mean is not positive.
    """
    found = estimates(rows, "bounded", ("theorem", "horizon"))
    points = sorted((h, v.mean) for (t, h), v in found.items() if t == theorem)[-N_LONGEST:]
    if len(points) < 2 or min(mean for _, mean in points) <= 0:
        return float("nan")
    x, y = (np.log([point[side] for point in points]) for side in (0, 1))
    return float(np.polyfit(x, y, 1)[0])


def verdict(rows: Sequence[Row]) -> Verdict:
    """Do both quantities stay within an order of 1/sqrt(t)?"""
    check_rows(rows)
    first, second = (slope_of(rows, theorem) for theorem in THEOREMS)
    products = [row for row in rows if row["settings"]["theorem"] == "theorem 2"]
    kept = [row["values"]["bounded"] <= row["values"]["bound"] for row in products]
    said = (
        f"Theorem 1: over the longest runs the mean squared gradient falls as t^{first:.2f}, "
        f"where t^{SLOPE} is promised (within {TOLERANCE} counts). Theorem 2: the inner product "
        f"lies below the bound of its lemma, which falls as t^{SLOPE}, in {sum(kept)} of "
        f"{len(kept)} runs"
    )
    said += "; it is negative" if np.isnan(second) else f"; it falls as t^{second:.2f} itself"
    said += (
        ". The proof of the second never uses that theta* is optimal: it holds for any point, and "
        "says little of the optimum."
    )
    fulfilled = first <= SLOPE + TOLERANCE and all(kept)
    return Verdict("agrees" if fulfilled else "differs", said)


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """What each theorem bounds against the number of steps."""
    check_rows(rows)
    horizons = sorted({row["settings"]["horizon"] for row in rows})
    found = estimates(rows, "bounded", ("theorem", "horizon"))
    bounds = estimates(rows, "bound", ("theorem", "horizon"))
    cells = [
        [f"{h}", text_of(found["theorem 1", h]), text_of(found["theorem 2", h]),
         text_of(bounds["theorem 2", h])]
        for h in horizons
    ]  # fmt: skip
    headings = ["steps t", "E|gradient|²", "E(theta - theta*)·g", "bound of the lemma"]
    return [
        _drawing(rows, "theorem 1", "E |gradient|²"),
        _drawing(rows, "theorem 2", "E (theta - theta*)·g"),
        Table(headings, cells, "Means over seeds ± half of their 95 % interval"),
    ]


def _drawing(rows: Sequence[Row], theorem: str, label: str) -> Drawing:
    def make() -> Any:
        from sghash.plots import lines

        found = estimates(rows, "bounded", ("theorem", "horizon"))
        x = sorted({h for t, h in found if t == theorem})
        values = [found[theorem, h] for h in x]
        guide = [abs(values[0].mean) * (x[0] / h) ** 0.5 for h in x]
        curves = [series_of("measured", x, values), ("1 / sqrt(t)", x, guide)]
        bounds = estimates(rows, "bound", ("theorem", "horizon"))
        if (theorem, x[0]) in bounds:
            curves.append(("bound of the lemma", x, [bounds[theorem, h].mean for h in x]))
        is_positive = all(value.mean > 0 for value in values)
        scale = "log" if is_positive else "linear"
        return lines(
            curves, x_label="steps t", y_label=label, x_scale="log", y_scale=scale,
            title=theorem.capitalize(),
        )  # fmt: skip

    caption = f"{theorem.capitalize()}: {label} at a random iterate, by the number of steps."
    return Drawing(make, caption, f"{caption} A falling curve beside 1 / sqrt(t).")


@functools.lru_cache(maxsize=8)
def _end_of(which: BenchSet, n_rows: int, seed: int, n_steps: int) -> NDArray[np.float64]:
    """Where a long run with the approximate gradient ends."""
    walk = Trajectory(_rows_of(which, n_rows), "theorem 2", seed).walk(n_steps)
    last = np.empty(0)
    for parameters, _ in walk:
        last = parameters.flat
    return last.astype(np.float64)


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _rows_of(which: BenchSet, n_rows: int) -> Vectors:
    sample = load(which).base[:n_rows].astype(np.float32)
    return Scaling.of(sample, cosine=False, standardize=True).apply(sample)


EXPERIMENT = Experiment(
    name="convergence",
    title="Convergence theorems",
    claim="Distributional SGD converges as 1/sqrt(t): in the squared gradient with the unbiased "
    "estimator, and in (theta - theta*)·gradient with the approximate one.",
    shown="Theorems 1 and 2",
    setup=f"{N_ROWS:,} descriptors of SIFT, {N_BITS} bits, 0/1 coding, all parameters learned, "
    f"plain SGD with batches of {BATCH} and the step {RATE} / sqrt(t) for t steps, from a random "
    f"start; 5 seeds. The expectation over the random iterate is taken over {N_LOOKS} points of "
    "the trajectory, gradients over all rows (exactly for Theorem 1, over 4 draws for Theorem 2). "
    "theta* is where a run of 40,000 steps from the same start ends.",
    notes="What may explain a difference: the objective is not globally smooth, since the noise "
    "may go to zero, and an order says nothing of short runs.",
    run=run,
    verdict=verdict,
    draw=draw,
)
