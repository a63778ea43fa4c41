"""Runs that several experiments read: fit a model, encode, search by Hamming distance, measure."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from sghash.bits import unpack_bits
from sghash.evaluation import metrics
from sghash.evaluation.specs import Run, build_model, format_model, parse_model
from sghash.experiments.experiment import Context, Row, Values
from sghash.experiments.sets import MNIST, SIFT, BenchSet, load, truth
from sghash.kernels import hamming_neighbors
from sghash.models import model_class
from sghash.models.base import Progress, VectorModel
from sghash.models.sgh.options import GOAL, MAX_ROWS
from sghash.models.sgh.recipe import CHOSEN, PREFIX

STORE = "hashing"
DEPTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
NEIGHBORS = (1, 10, 100)

PAPER, DEFAULT, NEIGHBOR_TERM = "SGH.paper", "SGH", "SGH(neighbors=10)"
#: The generative model alone, for decoding and asymmetric scores.
RECONSTRUCTING = "SGH(goal='reconstruction')"
#: Every method of the paper's comparison; the first are ours.
OURS = (PAPER, DEFAULT, NEIGHBOR_TERM)
RIVALS = (
    "ITQ",
    "KMeansHashing",
    "SpectralHashing",
    "SphericalHashing",
    "BinaryAutoencoder",
    "GraphHashing",
)
BEYOND = ("LSH", "PCAHashing")

#: How often methods are repeated that take long, or draw nothing.
_FEWER = {
    "BinaryAutoencoder": 1,
    "GraphHashing": 3,
    "KMeansHashing": 3,
    "PCAHashing": 1,
    "SpectralHashing": 1,
    "SphericalHashing": 3,
    NEIGHBOR_TERM: 3,
    RECONSTRUCTING: 3,
}
#: Where the slowest has as many as the other rivals: the sets that all are compared on.
_CLOSELY = (MNIST.label, SIFT.label)
SEEDS_TOLD = (
    "5 seeds for SGH, ITQ and LSH, 3 for SGH with neighbours, k-means, spherical and graph "
    "hashing, and for the binary autoencoder on MNIST and SIFT from 16 bits on (elsewhere 1), 1 "
    "for methods without randomness"
)
# Options that decide which compiled code a fit runs through.
_WAYS = ("goal", "neighbors", "hidden", "gradient", "coding")
# A quick run cannot wait for the usual budgets: model -> options.
_QUICK_OPTIONS: dict[str, dict[str, int]] = {
    "BinaryAutoencoder": {"n_iterations": 3},
    "GraphHashing": {"n_anchors": 100},
    PAPER: {"n_steps": 500},
    DEFAULT: {"n_steps": 150},
}


def known_models(models: Sequence[str]) -> list[str]:
    """Those of `models` whose options this version has."""
    return [text for text in models if _is_known(text)]


def reconstructing() -> str:
    """The model for decoding; our default in versions that know no other."""
    return RECONSTRUCTING if known_models([RECONSTRUCTING]) else DEFAULT


def spec_for(context: Context, model: str) -> str:
    """The text of the model as it is fitted: in a quick run with a small budget."""
    name, options = parse_model(model)
    quick = _QUICK_OPTIONS.get(name, {}) if context.quick else {}
    return format_model(name, {**quick, **options})


def repetitions(context: Context, which: BenchSet, model: str, n_bits: int) -> range:
    """The seeds with which `model` is fitted."""
    most = _FEWER.get(model, context.seeds)
    if model == "BinaryAutoencoder" and which.label in _CLOSELY and n_bits >= 16:
        most = 3
    return range(min(context.seeds, most))


def hashing_rows(
    context: Context, sets: Sequence[BenchSet], models: Sequence[str], lengths: Sequence[int]
) -> list[Row]:
    """One row per set, model, length and seed; rows that another experiment measured are shared."""
    return [
        hashing_row(context, which, model, n_bits, seed)
        for which in sets
        for n_bits in lengths
        for model in known_models(models)
        for seed in repetitions(context, which, model, n_bits)
    ]


def hashing_row(context: Context, which: BenchSet, model: str, n_bits: int, seed: int) -> Row:
    """The row of one fit."""
    spec = spec_for(context, model)
    settings = {
        **which.settings(),
        "model": model,
        "options": options_of(spec, n_bits, which.metric),
        "n_bits": n_bits,
        "seed": seed,
    }
    return context.measured(STORE, settings, lambda: _measure(context, which, spec, n_bits, seed))


def make_model(spec: str, n_bits: int, seed: int, metric: str) -> VectorModel:
    """An unfitted model for a text such as "SGH.paper" or "LSH(center=False)"."""
    name, options = parse_model(spec)
    return build_model(Run(name, n_bits, seed, options), metric)


def options_of(spec: str, n_bits: int, metric: str) -> dict[str, str]:
    """All options that `spec` stands for, as text: a row does not outlive a changed default."""
    options = make_model(spec, n_bits, 0, metric).get_params()
    left_out = {"callback", "n_bits", "random_state"}
    if "recipe" in options:
        # As rows have always named them, so that those of earlier versions are found.
        options = {name.removeprefix(PREFIX): value for name, value in options.items()}
        options |= {k: v for k, v in {**CHOSEN, "goal": GOAL}.items() if options[k] is None}
        left_out |= {"recipe"} | ({"max_rows"} if options["max_rows"] == MAX_ROWS else set())
        left_out |= set() if options.get("hidden") else {"hidden"}
    return {name: repr(value) for name, value in options.items() if name not in left_out}


def _measure(context: Context, which: BenchSet, spec: str, n_bits: int, seed: int) -> Values:
    model = make_model(spec, n_bits, seed, which.metric)
    return measure_model(context, which, model)


def measure_model(
    context: Context,
    which: BenchSet,
    model: VectorModel,
    *,
    neighbors: Sequence[int] = NEIGHBORS,
) -> Values:
    """Fit `model` on a set and measure times, recall, bits in use and reconstruction."""
    data = load(which)
    warm_up_like(model, data.base.dtype)
    options = model.get_params(deep=False)
    reports: list[Progress] = []
    if "callback" in options:
        model.set_params(callback=reports.append)
    start = time.perf_counter()
    model.fit(data.base)
    values = {"train_seconds": time.perf_counter() - start}
    return {
        **values,
        **measure_fitted(context, which, model, neighbors=neighbors),
        **_curve(model, reports),
    }


def measure_fitted(
    context: Context,
    which: BenchSet,
    model: VectorModel,
    *,
    neighbors: Sequence[int] = NEIGHBORS,
) -> Values:
    """Recall by Hamming distance, bits in use and reconstruction of a fitted model."""
    data = load(which)
    start = time.perf_counter()
    codes = model.encode(data.base)
    values: Values = {"encode_seconds": time.perf_counter() - start}
    query_codes = model.encode(data.queries)
    depth = min(DEPTHS[-1], len(data.base))
    found = hamming_neighbors(
        codes, query_codes, depth, n_bits=model.code_bits, threads=context.threads
    )
    values |= recalls(which, found.ids, neighbors=neighbors)
    values["bits_in_use"] = metrics.bits_in_use(unpack_bits(codes, model.code_bits))
    if model.capabilities.decodes:
        decoded = model.decode(query_codes)
        values["reconstruction_error"] = metrics.reconstruction_error(data.queries, decoded)
        values["unexplained_variance"] = metrics.unexplained_variance(data.queries, decoded)
    return values


def recalls(which: BenchSet, found: Any, *, neighbors: Sequence[int] = NEIGHBORS) -> Values:
    """RecallK@N of retrieved ids for every K in `neighbors` and every N in `DEPTHS`."""
    return {
        f"recall{k}@{n}": metrics.recall(truth(which, k).ids, found, k=k, n=n)
        for k in neighbors
        for n in DEPTHS
        if n <= found.shape[1]
    }


def _curve(model: VectorModel, reports: Sequence[Progress]) -> Values:
    """Reconstruction error on training rows against vectors seen, where training reports it."""
    if not reports or "reconstruction_error" not in reports[0].values:
        return {}
    size = int(model.get_params(deep=False)["batch_size"])
    return {
        "samples_seen": [report.step * size for report in reports],
        "error_seen": [report.values["reconstruction_error"] for report in reports],
    }


def warm_up_like(model: VectorModel, dtype: np.dtype[Any]) -> None:
    """Compile what a fit of this model on rows of a type runs through."""
    options = model.get_params(deep=False)
    ways = {name: options[name] for name in _WAYS if name in options}
    warm_up(type(model).__name__, dtype.name, **ways)


@functools.cache
def warm_up(name: str, dtype: str, **ways: Any) -> None:
    """Compile what a model needs for rows of a type, so that no fit's time counts it."""
    rows = (50 * np.random.default_rng(0).random((300, 16))).astype(dtype)
    model = model_class(name)(n_bits=8, **ways)
    if "n_steps" in model.get_params(deep=False):
        model.set_params(n_steps=20)
    codes = model.fit(rows).encode(rows)
    hamming_neighbors(codes, codes[:9], 10, n_bits=8)


def _is_known(text: str) -> bool:
    name, options = parse_model(text)
    known = model_class(name.partition(".")[0])().get_params()
    return set(options) <= set(known)
