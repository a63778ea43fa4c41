"""What each choice behind SGH's defaults does, on rows held out of the bases."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from sghash.data.dataset import DataSet
from sghash.data.sources import ArraySource
from sghash.evaluation.bench import Bench
from sghash.evaluation.holdout import hold_out
from sghash.evaluation.runs import run_once
from sghash.evaluation.specs import Run, parse_model
from sghash.experiments.comparisons import geometric_mean
from sghash.experiments.experiment import Context, Drawing, Row, Table, Values
from sghash.experiments.hashing import known_models, options_of, spec_for
from sghash.experiments.sets import BenchSet, load
from sghash.experiments.studies.tables import sets_of, study

STORE = "choices"
CELLS = (
    ("mnist", 16),
    ("sift-photos", 32),
    ("cifar10-gist", 32),
    ("glove100", 16),
    ("glove100", 64),
    ("minilm-wordnet", 32),
    ("mnist", 128),
    ("minilm-wordnet", 128),
)
VARIANTS = (
    "SGH",
    "SGH(goal='hamming')",
    "SGH(goal='reconstruction')",
    "SGH(goal='reconstruction', gradient='exact')",
    "SGH(goal='reconstruction', gradient='straight-through')",
    "SGH(goal='reconstruction', kl_weight=1.0)",
    "SGH(gradient='approximate')",
    "SGH(kl_weight=0.0)",
    "SGH(kl_weight=1.0)",
    "SGH(recipe__init='random')",
    "SGH(learning_rate=0.003)",
    "SGH(learning_rate=0.03)",
    "SGH(neighbors=10)",
    "SGH(neighbors=10, recipe__pair_loss='bernoulli')",
    "SGH(neighbors=1)",
    "SGH(neighbors=50)",
    "SGH(neighbors=10, recipe__pair_weight=10.0)",
    "SGH(neighbors=10, recipe__pair_weight=400.0)",
    "SGH(neighbors=10, n_steps=3000)",
    "SGH.paper",
)
QUICK_VARIANTS = ("SGH", "SGH(kl_weight=1.0)")
RIVAL, VALUE = "ITQ", "recall10@100"
N_QUERIES, MAX_VECTORS, SEEDS = 600, 100_000, 2


def run(context: Context) -> list[Row]:
    """Every variant, and ITQ, on every cell."""
    cells = context.pick([("", 16)], CELLS)
    variants = context.pick(QUICK_VARIANTS, VARIANTS)
    return [
        _row(context, sets_of(context, [name])[0], model, n_bits, seed)
        for name, n_bits in cells
        for model in known_models([RIVAL, *variants])
        for seed in range(min(context.seeds, SEEDS))
    ]


def _row(context: Context, which: BenchSet, model: str, n_bits: int, seed: int) -> Row:
    spec = spec_for(context, model)
    settings = {
        **which.settings(),
        "model": model,
        "options": options_of(spec, n_bits, which.metric),
        "n_bits": n_bits,
        "seed": seed,
        "held_out": context.pick(100, N_QUERIES),
    }

    def measure() -> Values:
        name, options = parse_model(spec)
        bench = held_out(which, settings["held_out"], context.threads)
        values: Values = run_once(Run(name, n_bits, seed, options), bench)["values"]
        return values

    return context.measured(STORE, settings, measure)


@functools.lru_cache(maxsize=1)
def held_out(which: BenchSet, n_queries: int, threads: int | None) -> Bench:
    """At most `MAX_VECTORS` rows of the base, of which some became the queries."""
    base = load(which).base
    chosen = np.sort(np.random.default_rng(7).permutation(len(base))[:MAX_VECTORS])
    vectors, queries = hold_out(base[chosen], n_queries, random_state=7)
    data = DataSet(which.source, vectors, ArraySource(queries), which.metric)
    return Bench(data, depths=(100,), threads=threads)


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Ratios of recall to ITQ's, seed by seed, as geometric means."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        s = row["settings"]
        place = (f"{s['set']}, {s['n_bits']} bits", s["model"])
        found.setdefault(place, {})[s["seed"]] = row["values"][VALUE]
    cells = list(dict.fromkeys(cell for cell, _ in found))
    lines = []
    for model in dict.fromkeys(model for _, model in found if model != RIVAL):
        parts = [_ratio(found, cell, model) for cell in cells]
        known = [part for part in parts if part is not None]
        mean = geometric_mean(known) if len(known) == len(cells) else None
        lines.append([model, *("" if p is None else f"{p:.3f}" for p in [*parts, mean])])
    return [Table(["model", *cells, "geometric mean"], lines, f"Ratios of {VALUE} to {RIVAL}'s")]


def _ratio(found: dict[tuple[str, str], dict[int, float]], cell: str, model: str) -> float | None:
    ours, rival = found.get((cell, model), {}), found.get((cell, RIVAL), {})
    both = sorted(ours.keys() & rival.keys())
    return geometric_mean([ours[seed] / rival[seed] for seed in both]) if both else None


EXPERIMENT = study(
    "choices",
    title="What each choice behind the defaults does",
    question="Which options of SGH find most, where nobody looked at the queries?",
    setup=f"{N_QUERIES} queries drawn from the vectors that are searched and taken out of them, at "
    f"most {MAX_VECTORS:,} vectors per set, {SEEDS} seeds: the queries that results are reported "
    "on play no part, so that defaults can be chosen here.",
    run=run,
    draw=draw,
)
