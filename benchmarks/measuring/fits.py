"""One fit at a time, by processor seconds, on a stated number of threads; every fit is a row."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numba
from threadpoolctl import threadpool_limits

from measuring.splits import Split, all_digits, split_of, truth_of
from sghash.evaluation import metrics
from sghash.experiments.experiment import Context, Row, Values
from sghash.experiments.hashing import known_models, make_model, options_of
from sghash.experiments.sets import BenchSet
from sghash.kernels import hamming_neighbors

DEPTH = 100
NEIGHBORS = (10, 100)
WARM_ROWS, WARM_STEPS = 2000, 20
DIGITS = "all digits"


class Plan(NamedTuple):
    """What is fitted: sets, lengths and models by text, `seeds` times each."""

    sets: Sequence[BenchSet]
    lengths: Sequence[int]
    models: Sequence[str]
    seeds: int
    validation: bool = False
    half: bool = False
    threads: int = 1


@contextmanager
def on_threads(n: int) -> Iterator[None]:
    """Keep this process to `n` of the cores it may use, its libraries to `n` threads."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if before is not None:
        # Of those that it may use: `taskset` has the first word.
        os.sched_setaffinity(0, set(sorted(before)[-n:]))
    numba.set_num_threads(min(n, numba.config.NUMBA_NUM_THREADS))
    try:
        with threadpool_limits(limits=n):
            yield
    finally:
        if before is not None:
            os.sched_setaffinity(0, before)
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)


def fit_rows(context: Context, store: str, plan: Plan) -> list[Row]:
    """A row per set, length, seed and model; the models of a seed take turns."""
    models = known_models(plan.models)
    with on_threads(plan.threads):
        return [
            _row(context, store, plan, which, (model, n_bits, seed))
            for which in plan.sets
            for n_bits in plan.lengths
            for seed in range(plan.seeds)
            for model in models
        ]


def digits_rows(context: Context, store: str, plan: Plan) -> list[Row]:
    """Fits of the first of the models on all 1,797 digits: their time alone."""
    which = BenchSet(DIGITS, "digits", 1797, 0)
    with on_threads(plan.threads):
        return [
            _row(context, store, plan, which, (plan.models[0], n_bits, seed))
            for n_bits in plan.lengths
            for seed in range(plan.seeds)
        ]


def _row(
    context: Context, store: str, plan: Plan, which: BenchSet, cell: tuple[str, int, int]
) -> Row:
    text, n_bits, seed = cell
    settings = {
        **which.settings(),
        "validation": plan.validation,
        "half": plan.half,
        "threads": plan.threads,
        "model": text,
        "options": options_of(text, n_bits, which.metric),
        "n_bits": n_bits,
        "seed": seed,
    }

    def measure() -> Values:
        model = make_model(text, n_bits, seed, which.metric)
        if which.label == DIGITS:
            return timed_fit(model, all_digits())
        split = split_of(which, validation=plan.validation, half=plan.half)
        return {**timed_fit(model, split), **_recalls(model, which, split, plan)}

    return context.measured(store, settings, measure)


def timed_fit(model: Any, split: Split) -> Values:
    """Processor and wall seconds of a fit, after a short one that compiles what it needs."""
    _warm_up(model, split)
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(split.train)
    return {
        "cpu_seconds": time.process_time() - cpu,
        "wall_seconds": time.perf_counter() - wall,
    }


_warm: set[tuple[Any, ...]] = set()


def _warm_up(model: Any, split: Split) -> None:
    """Fit a copy on few rows with few steps, once per model, length and kind of rows."""
    from sklearn.base import clone

    asked = model.get_params(deep=False)
    given = {name: value for name, value in asked.items() if name != "random_state"}
    key = (type(model).__name__, repr(given), split.train.dtype.str)
    if key in _warm:
        return
    copy = clone(model)
    if "n_steps" in asked:
        copy.set_params(n_steps=WARM_STEPS)
    copy.fit(split.train[:WARM_ROWS]).encode(split.train[:WARM_ROWS])
    _warm.add(key)


def _recalls(model: Any, which: BenchSet, split: Split, plan: Plan) -> Values:
    """RecallK@100 by Hamming distance over all rows that are searched, for every K."""
    query_codes = model.encode(split.queries)
    values: Values = {}
    for name, rows in split.searched.items():
        found = hamming_neighbors(
            model.encode(rows), query_codes, DEPTH, n_bits=model.code_bits, threads=plan.threads
        )
        for k in NEIGHBORS:
            true = truth_of(which, name, k, validation=plan.validation, half=plan.half)
            values[f"{name}recall{k}@{DEPTH}"] = metrics.recall(true.ids, found.ids, k=k, n=DEPTH)
    return values
