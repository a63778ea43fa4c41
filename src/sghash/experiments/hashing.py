"""Runs that several experiments read: fit a model, encode, search by Hamming distance, measure."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sghash.bits import unpack_bits
from sghash.evaluation import metrics
from sghash.evaluation.specs import Run, build_model, format_model, parse_model
from sghash.experiments.by_query import KEPT, pack_shares
from sghash.experiments.experiment import Context, Row, Values
from sghash.experiments.sets import BenchSet, load, truth, width_of
from sghash.kernels import exact_neighbors, hamming_neighbors
from sghash.models import model_class
from sghash.models.base import Progress, VectorModel
from sghash.models.sgh.options import GOAL, MAX_ROWS
from sghash.models.sgh.recipe import CHOSEN, PREFIX

STORE = "hashing"
DEPTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
NEIGHBORS = (1, 10, 100)
#: By that many neighbours methods are compared at one depth alone.
WIDEST = 100

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

#: The part sizes its paper chooses from; and on how many rows, beside how many held out.
KMEANS, PART_SIZES = "KMeansHashing", (2, 4, 8)
HELD_OUT, CHOICE_ROWS = 500, 20_000
#: Methods that draw nothing (`draws_nothing` knows the exceptions): one run tells all.
FIXED = ("PCAHashing", "SpectralHashing", KMEANS)
SEEDS_TOLD = (
    "5 seeds for every method that draws; spectral and PCA hashing are deterministic and run once, "
    "k-means hashing too where it learns from all rows (it samples SIFT's). K-means hashing has "
    "the part size (2, 4 or 8 bits) that is best for rows held out of the base"
)
# From so many rows k-means hashing learns; of more it draws a sample.
_KMEANS_SAMPLE = int(model_class(KMEANS)().get_params()["sample"])
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
    is_fixed = draws_nothing({**which.settings(), "model": model, "n_bits": n_bits})
    return range(1 if is_fixed else context.seeds)


def draws_nothing(settings: Mapping[str, Any]) -> bool:
    """Whether the row of these settings tells all of its method, whatever its seed.

    PCA and k-means hashing with more bits than there are numbers in a vector spread their axes at
    random; k-means hashing draws a sample of many rows.
    """
    model = settings.get("model")
    if model not in FIXED or model == "SpectralHashing":
        return model in FIXED
    width = width_of(settings["source"]) if "source" in settings else None
    if width is not None and settings["n_bits"] > width:
        return False
    return model != KMEANS or int(settings.get("n_vectors", 0)) <= _KMEANS_SAMPLE


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
    if model == KMEANS and not context.quick:
        spec = format_model(KMEANS, {"bits_per_part": part_size(context, which, n_bits)})
    settings = {
        **which.settings(),
        "model": model,
        "options": options_of(spec, n_bits, which.metric),
        "n_bits": n_bits,
        "seed": seed,
    }
    return context.measured(STORE, settings, lambda: _measure(context, which, spec, n_bits, seed))


def part_size(context: Context, which: BenchSet, n_bits: int) -> int:
    """Bits per part of k-means hashing, chosen by rows of the base that are kept out of its fit."""
    sizes = [size for size in PART_SIZES if size <= n_bits]

    def measure() -> Values:
        data = load(which)
        chosen = np.random.default_rng(0).permutation(len(data.base))[: HELD_OUT + CHOICE_ROWS]
        asked, rows = (data.base[np.sort(own)] for own in np.split(chosen, [HELD_OUT]))
        near = exact_neighbors(rows, asked, 10, metric=which.metric).ids
        found = {}
        for size in sizes:
            model = model_class(KMEANS)(n_bits=n_bits, bits_per_part=size, random_state=0)
            codes = model.fit(rows).encode(rows)
            ids = hamming_neighbors(codes, model.encode(asked), 100, n_bits=n_bits).ids
            found[str(size)] = metrics.recall(near, ids, k=10, n=100)
        return found

    settings = {**which.settings(), "n_bits": n_bits, "sizes": sizes}
    values = context.measured("part_sizes", settings, measure)["values"]
    return max(sizes, key=lambda size: values[str(size)])


def make_model(spec: str, n_bits: int, seed: int, metric: str) -> VectorModel:
    """An unfitted model for a text such as "SGH.paper" or "LSH(center=False)"."""
    name, options = parse_model(spec)
    return build_model(Run(name, n_bits, seed, options), metric)


def options_of(spec: str, n_bits: int, metric: str) -> dict[str, str]:
    """All options that `spec` stands for, as text: a row does not outlive a changed default."""
    return options_of_model(make_model(spec, n_bits, 0, metric))


def options_of_model(model: VectorModel) -> dict[str, str]:
    """The same of a model that is not fitted; lengths and seeds stand elsewhere in a row."""
    options = model.get_params()
    left_out = {"callback", "n_bits", "random_state"}
    if "recipe" in options:
        # As rows have always named them, so that those of earlier versions are found.
        options = {name.removeprefix(PREFIX): value for name, value in options.items()}
        options |= {k: v for k, v in {**CHOSEN, "goal": GOAL}.items() if options[k] is None}
        left_out |= {"recipe"} | ({"max_rows"} if options["max_rows"] == MAX_ROWS else set())
        left_out |= set() if options.get("hidden") else {"hidden"}
    return {name: repr(value) for name, value in options.items() if name not in left_out}


def rows_seen(model: str, n: int) -> str:
    """From how many of `n` vectors a method learns, in words for a table."""
    options = make_model(model, 16, 0, "l2").get_params()
    if model == PAPER:  # it draws batches from all
        return f"{options['n_steps'] * options['batch_size']:,} draws of {n:,}"
    most = options.get("sample", options.get("max_rows"))
    return f"{min(most or n, n):,}"


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
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(data.base)
    return {
        "train_seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
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
    wall, cpu = time.perf_counter(), time.process_time()
    codes = model.encode(data.base)
    values: Values = {
        "encode_seconds": time.perf_counter() - wall,
        "encode_cpu_seconds": time.process_time() - cpu,
    }
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
    """RecallK@N of retrieved ids for every K in `neighbors` and every N in `DEPTHS`.

    What each query found is kept of what methods are compared by: the mean of the curve, and
    RecallK@100.
    """
    return recalls_of({k: truth(which, k).ids for k in neighbors}, found)


def recalls_of(truths: Mapping[int, Any], found: Any) -> Values:
    """The same, with the ids of the true neighbours for every K."""
    values: Values = {}
    kept: dict[str, str] = {}
    for k, ids in truths.items():
        shares = {n: metrics.recall_by_query(ids, found, k=k, n=n)
                  for n in DEPTHS if n <= found.shape[1]}  # fmt: skip
        values |= {f"recall{k}@{n}": float(own.mean()) for n, own in shares.items()}
        curve = [own for n, own in shares.items() if n >= k]
        if curve and k < WIDEST:
            values[curve_of(k)] = float(np.mean(curve))
            kept[curve_of(k)] = pack_shares(np.mean(curve, axis=0))
        if 100 in shares and k > 1:
            kept[f"recall{k}@100"] = pack_shares(shares[100])
    return {**values, KEPT: kept}


def curve_of(k: int) -> str:
    """The value that holds the mean of RecallK@N over all N from K on."""
    return f"curve{k}"


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
