"""The two convergence theorems, iterate by iterate, with plain SGD."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.evaluation.summary import Estimate, estimate
from sghash.experiments.comparisons import beside_bound, estimates, text_of
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
from sghash.experiments.findings import power
from sghash.experiments.pictures import series_of
from sghash.experiments.sets import QUICK_DIGITS, SIFT, BenchSet, load
from sghash.experiments.standings import outcome_of_bounds
from sghash.models.sgh.training.batches import Batch
from sghash.models.sgh.training.optimizer import Parameters
from sghash.models.sgh.training.scaling import Scaling
from sghash.models.sgh.training.start import make_start
from sghash.models.sgh.training.step import GaussianStep
from sghash.validation import Vectors

STORE = "convergence"
HORIZONS, QUICK_HORIZONS = (100, 316, 1000, 3162, 10_000), (50, 200, 800)
N_ROWS, N_BITS, BATCH = 1000, 16, 50
CODING, START = "binary", "random"
#: theta* is where a run of so many times the longest horizon ends.
OPTIMUM = 4
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
                    "options": options_of(horizons),
                    "theorem": theorem,
                    "horizon": horizon,
                    "seed": seed,
                }
                measure = _Measure(which, n_rows, theorem, horizon, horizons[-1], seed)
                rows.append(context.measured(STORE, settings, measure))
    return rows


def options_of(horizons: Sequence[int]) -> dict[str, Any]:
    """All else that a trajectory is made by: a row does not outlive a change of it."""
    return {
        "coding": CODING,
        "start": START,
        "looks": N_LOOKS,
        "draws": N_DRAWS,
        "estimators": THEOREMS,
        "optimum_after": OPTIMUM * horizons[-1],
    }


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
        optimum = _end_of(self.which, self.n_rows, self.seed, OPTIMUM * self.longest)
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
        start = make_start(START, self.rows, N_BITS, coding=CODING, rng=_rng(self.seed))
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


def slope_of(rows: Sequence[Row], theorem: str) -> Estimate | None:
    """Slope of log(value) against log(t) over the longest horizons, least squares, over seeds.

    An order says nothing of the first steps. None where a value is not positive, or there is no
    seed with two horizons.
    """
    by_seed: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        if row["settings"]["theorem"] == theorem:
            point = (float(row["settings"]["horizon"]), float(row["values"]["bounded"]))
            by_seed.setdefault(row["settings"]["seed"], []).append(point)
    slopes = []
    for points in by_seed.values():
        longest = sorted(points)[-N_LONGEST:]
        if min(value for _, value in longest) <= 0:
            return None
        if len(longest) > 1:
            x, y = (np.log([point[side] for point in longest]) for side in (0, 1))
            slopes.append(float(np.polyfit(x, y, 1)[0]))
    return estimate(slopes) if slopes else None


def verdict(rows: Sequence[Row]) -> Verdict:
    """Do both quantities stay within an order of 1/sqrt(t)?"""
    check_rows(rows)
    first, second = (slope_of(rows, theorem) for theorem in THEOREMS)
    products = [row for row in rows if row["settings"]["theorem"] == "theorem 2"]
    over = estimates([_over(row) for row in products], "over", ("horizon",))
    gaps = [None if first is None else beside_bound(first, SLOPE + TOLERANCE)]
    gaps += [beside_bound(value, 0.0) for value in over.values()] or [None]
    kept = [row["values"]["bounded"] <= row["values"]["bound"] for row in products]
    said = (
        "Theorem 1: over the longest runs the mean squared gradient falls as t to the power "
        f"{_told(first)}, where {SLOPE} is promised (within {TOLERANCE} counts). Theorem 2: the "
        f"inner product lies below the bound of its lemma, which falls as t^{SLOPE}, in "
        f"{sum(kept)} of {len(kept)} runs, and with the whole 95 % interval over seeds at "
        f"{sum(g is not None and g.half is not None and g.mean + g.half < 0 for g in gaps[1:])} "
        f"of {len(over)} lengths"
    )
    said += "; it is negative" if second is None else f"; its own power is {_told(second)}"
    said += (
        ". The proof of the second never uses that theta* is optimal, nor that the gradient is "
        "one: with the run's own largest gradient in it the bound holds by algebra. That part "
        "checks our code, and only the power in Theorem 1 could have contradicted the paper."
    )
    return Verdict(outcome_of_bounds(gaps), said)


def _over(row: Row) -> Row:
    """How far the inner product is above the bound of its own run."""
    return {**row, "values": {"over": row["values"]["bounded"] - row["values"]["bound"]}}


def _told(slope: Estimate | None) -> str:
    """A slope with its 95 % interval and seeds."""
    if slope is None:
        return "that is not known"
    return f"{text_of(slope, 2)} ({slope.n} seeds)"


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
    found = estimates(rows, "bounded", ("theorem", "horizon"))
    x = sorted({h for t, h in found if t == theorem})
    values = [found[theorem, h] for h in x]
    is_positive = all(value.mean > 0 for value in values)

    def make() -> Any:
        from sghash.plots import lines

        guide = [abs(values[0].mean) * (x[0] / h) ** 0.5 for h in x]
        guides = [("1 / sqrt(t)", x, guide)]
        bounds = estimates(rows, "bound", ("theorem", "horizon"))
        if (theorem, x[0]) in bounds:
            guides.append(("bound of the lemma", x, [bounds[theorem, h].mean for h in x]))
        return lines(
            [series_of("measured", x, values)], x_label="steps t", y_label=label, x_scale="log",
            y_scale="log" if is_positive else "linear", title=theorem.capitalize(), guides=guides,
        )  # fmt: skip

    caption = f"{theorem.capitalize()}: {label} at a random iterate, by the number of steps."
    told = f"From t = {x[0]:,} to {x[-1]:,} it goes from {values[0].mean:.3g} to "
    told += f"{values[-1].mean:.3g}"
    if is_positive and len(x) > 1:
        told += f", as t to the power {power(x, [v.mean for v in values]):.2f}; 1 / sqrt(t) is -0.5"
    return Drawing(make, caption, f"{caption} {told}.")


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
