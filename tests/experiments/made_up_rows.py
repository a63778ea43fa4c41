"""Rows made up for every experiment, to support its claim and against it."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from sghash.experiments.claims.convergence import HORIZONS, THEOREMS
from sghash.experiments.claims.entropy_term import FIXED, VARIANTS, WITHOUT
from sghash.experiments.claims.estimators import REINFORCE, TWO_PASSES
from sghash.experiments.claims.inner_product import QUANTIZER, asymmetric
from sghash.experiments.claims.online import FULL, ONLINE, SAME
from sghash.experiments.claims.reconstruction import FITTED, OWN
from sghash.experiments.claims.templates import PCA, pack_images
from sghash.experiments.claims.training_time import LENGTHS as TIMED
from sghash.experiments.hashing import DEFAULT, PAPER, RIVALS

SETS = {"set": ("MNIST", "SIFT"), "n_bits": (16, 32)}


def row(values, **settings):
    return {
        "key": repr(settings),
        "settings": settings,
        "values": values,
        "written": "2026-01-01T00:00:00+00:00",
        "versions": {"numpy": "2"},
        "revision": None,
        "machine": {"processor": "none", "cores": 1},
    }


def grid(values_of, *, seeds=3, **axes):
    """One row per combination of the axes and seed; `values_of` is given the combination."""
    return [
        row(values_of(**dict(zip(axes, cell, strict=True)), seed=seed),
            **dict(zip(axes, cell, strict=True)), seed=seed)
        for cell in product(*axes.values())
        for seed in range(seeds)
    ]  # fmt: skip


def recalls(level):
    """A recall curve around `level` for every K."""
    depths = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    values = {
        f"recall{k}@{n}": min(1.0, level + 0.03 * place)
        for k in (1, 10, 100)
        for place, n in enumerate(depths)
    }
    return {**values, "curve1": level, "curve10": level}


def by_recall(levels):
    """Rows of every method at its level, each seed a little off."""

    def values(model, seed, **_):
        return recalls(levels[model] + 0.001 * seed)

    return grid(values, **SETS, n_vectors=(1000,), model=tuple(levels))


def hashing(ours, theirs):
    return by_recall({PAPER: ours, DEFAULT: 0.5, **dict.fromkeys(RIVALS, theirs)})


def reconstruction(paper, itq):
    errors = {PAPER: paper, DEFAULT: 1.0, OWN: itq, FITTED: 0.4 * itq}

    def values(model, seed, **_):
        return {
            "reconstruction_error": errors[model] + 0.01 * seed,
            "samples_seen": [500, 1000],
            "error_seen": [2.0, 1.0],
        }

    rows = grid(values, **SETS, model=tuple(errors))
    for one in rows:
        if one["settings"]["model"] in (OWN, FITTED):
            one["settings"]["n_iterations"] = 50
    return rows


def times(paper, itq, autoencoder):
    seconds = {PAPER: paper, DEFAULT: 1.0, "ITQ": itq, "BinaryAutoencoder": autoencoder}
    return grid(
        lambda model, seed, **_: {"train_seconds": seconds[model] + 0.01 * seed},
        set=("MNIST", "SIFT"), n_bits=TIMED, model=tuple(seconds),
    )  # fmt: skip


def times_on_sift(paper, itq, autoencoder, errors=(4.0, 2.0, 1.0)):
    """SIFT with all that is measured there (the paper's training ends at `errors`), and MNIST."""
    seconds = {PAPER: paper, DEFAULT: 1.0, "ITQ": itq, "BinaryAutoencoder": autoencoder}

    def values(model, seed, **_):
        found = {"train_seconds": 99.0, "cpu_seconds": seconds[model] + 0.01 * (seed == 2)}
        if model == "ITQ":
            found |= {"own_error": 2.5, "fitted_error": 0.5}
        if model == PAPER:
            found |= {"cpu_seen": [0.1, 0.2, 0.3], "error_seen": list(errors)}
        return found

    rows = grid(values, set=("SIFT",), n_bits=TIMED, model=tuple(seconds))
    others = [one for one in times(9.0, 1.0, 1.0) if one["settings"]["set"] == "MNIST"]
    return [*rows, *others]


def streamed(paper, itq):
    levels = {PAPER: paper, DEFAULT: 0.5, "ITQ": itq}
    return grid(
        lambda model, seed, **_: recalls(levels[model] + 0.001 * seed),
        n_rows=(1000,), n_bits=(16, 32), model=tuple(levels),
    )  # fmt: skip


def products(paper, rivals, scored, quantizer):
    levels = {PAPER: paper, DEFAULT: 0.3, **dict.fromkeys(RIVALS, rivals)}
    rows = by_recall({**levels, asymmetric(PAPER): scored, QUANTIZER: quantizer})
    return without(rows, set="SIFT")


def templates(cosine, error, pca=0.2, entropy=0.9, alike=0.7, accuracy=0.9):
    images = pack_images(np.linspace(-1, 1, 4 * 64).reshape(4, 64))
    drawn = {"pictures": images, "templates": images, "largest_cosine": cosine}
    regenerated = {"similarity": 0.72, "accuracy": 0.92}
    ours = {"least_entropy": entropy, "similarity": alike, "accuracy": accuracy}
    itq = {"unexplained_variance": 0.5, "least_entropy": 1.0, **regenerated}
    own = {"unexplained_variance": 0.6, "pictures": images, **regenerated}
    values = {
        PCA: {"unexplained_variance": pca, "originals": images, "pictures": images,
              "accuracy_of_originals": 0.95, **regenerated},
        PAPER: {**drawn, "unexplained_variance": error, **ours},
        DEFAULT: {**drawn, "unexplained_variance": error, **ours},
        "ITQ": {**drawn, **itq, **{f"own_{name}": value for name, value in own.items()}},
    }  # fmt: skip

    def of(model, seed, **_):
        if seed and model == PCA:
            return None
        found = dict(values[model])
        # Every seed a little off; only the first has pictures.
        return {
            name: value + 0.001 * seed if isinstance(value, float) else value
            for name, value in found.items()
            if not seed or isinstance(value, float)
        }

    rows = grid(of, set=("digits",), n_vectors=(1600,), model=tuple(values))
    return [one for one in rows if one["values"] is not None]


def falling(power, bound, spread=0.0):
    def values(theorem, horizon, seed):
        value = 10 * horizon ** (power + spread * (seed - 1)) * (1 + 0.01 * seed)
        return {"bounded": value} if theorem == "theorem 1" else {"bounded": 5.0, "bound": bound}

    return grid(values, theorem=tuple(THEOREMS), horizon=HORIZONS)


def estimators(bias, deviation, approximate=0.5, unbiased=1.0, error=1e-4):
    def values(estimator, **_):
        found = {"bias": 0.01, "by_chance": 0.01, "deviation": 1.0, "seconds": 1.0}
        if estimator in ("distributional", TWO_PASSES):
            found["bias"], found["deviation"] = bias, unbiased
        if estimator == "approximate":
            found["bias"] = approximate
        if estimator in REINFORCE:
            found["deviation"] = deviation
        squared = found["bias"] ** 2 - found["by_chance"] ** 2
        return {**found, "squared_bias": squared, "squared_bias_error": error}

    names = ("approximate", "distributional", "exact", "straight-through", TWO_PASSES, *REINFORCE)
    return grid(values, seeds=2, coding=("binary",), stage=(1, 300), estimator=names)


def entropies(with_term, without, drawn, rounded):
    def values(variant, seed, **_):
        return {
            "constant_bits": without if variant == WITHOUT else with_term,
            "repeated_bits": 0.0,
            "bits_in_use": 10.0,
            "recall10@100": 0.5,
            "early_error": (rounded if variant == FIXED else drawn) + 0.01 * seed,
            "samples_seen": [500, 1000],
            "error_seen": [2.0, 1.0],
        }

    return grid(values, set=("MNIST", "SIFT"), n_bits=(16,), variant=tuple(VARIANTS))


def sensitive(ours, theirs):
    options = {PAPER: ours, DEFAULT: ours, "KMeansHashing": theirs, "GraphHashing": 0.5}

    def values(model, factor, seed, **_):
        noise = 0.001 * seed * (factor + 1)  # no factor is better by chance
        return {"recall10@100": 0.8 - options[model] * abs(math.log2(factor)) / 2 + noise}

    return grid(values, model=tuple(options), option=("option",), factor=(0.25, 0.5, 1.0, 2.0, 4.0))


def streaming(online, same):
    """The paper's recipe at these levels; our default, which is not judged, loses much."""
    levels = {
        **{(PAPER, way): level for way, level in ((ONLINE, online), (SAME, same), (FULL, 0.9))},
        **{(DEFAULT, way): level for way, level in ((ONLINE, 0.3), (SAME, 0.9), (FULL, 0.9))},
        ("ITQ", FULL): 0.5,
    }

    def values(model, way, seed):
        if (model, way) not in levels:
            return None
        return {
            "recall10@100": levels[model, way] + 0.001 * seed,
            "reconstruction_error": 1.0,
            "cpu_seconds": 1.0,
            "vectors_seen": [100, 200],
            "recall_seen": [0.2, levels[model, way]],
        }

    rows = grid(values, model=(PAPER, DEFAULT, "ITQ"), way=(ONLINE, SAME, FULL))
    return [one for one in rows if one["values"] is not None]


def modern(ours, theirs, **more):
    levels = {"SGH": ours, "FAISS OPQ": theirs, "ITQ": theirs / 2, "usearch b1": 0.1, **more}

    def values(method, seed, **own):
        level = levels[method] + 0.001 * seed
        return {
            "recall10@10": level,
            "recall10@100": level + 0.05,
            "stored_bytes": float(own["bytes"]),
            "query_milliseconds": 0.5,
            "build_seconds": 3.0,
            "learned_from": 0 if method == "usearch b1" else 1000,
        }

    rows = grid(values, bytes=(8, 16), method=tuple(levels))
    for one in rows:
        own = one["settings"]
        own |= {"is_ours": own["method"] == "SGH", "draws": own["method"] != "usearch b1"}
    # What draws nothing is run once; and one method has no code of 16 bytes.
    return [
        one for one in rows
        if (one["settings"]["draws"] or not one["settings"]["seed"])
        and (one["settings"]["method"], one["settings"]["bytes"]) != ("FAISS OPQ", 16)
    ]  # fmt: skip


def without(rows, **settings):
    """The same without those of these settings."""
    return [one for one in rows if not settings.items() <= one["settings"].items()]


def first_seeds(rows, n):
    """The same with fewer seeds."""
    return [one for one in rows if one["settings"]["seed"] < n]


#: Experiment -> rows, and the outcome that they must have.
CASES = {
    "reconstruction": [
        (reconstruction(0.8, 1.0), "agrees"),
        (reconstruction(1.2, 1.0), "differs"),
        (reconstruction(1.0, 1.0), "open"),
        (first_seeds(reconstruction(0.8, 1.0), 2), "open"),
        (without(reconstruction(0.8, 1.0), model=OWN), "open"),
    ],
    "training_time": [
        (times(1.0, 2.0, 5.0), "agrees"),
        (times(1.0, 0.8, 5.0), "agrees"),
        (times(1.0, 0.5, 5.0), "differs"),
        (times(1.0, 2.0, 1.5), "differs"),
        (times_on_sift(1.0, 2.0, 5.0), "agrees"),
        (times_on_sift(1.0, 0.5, 5.0), "differs"),
        (times_on_sift(1.0, 2.0, 1.5), "differs"),
        # Across the bound; with too few seeds; one row; without the autoencoder, or a length.
        (times(1.0, 0.67, 5.0), "open"),
        (first_seeds(times_on_sift(1.0, 2.0, 5.0), 2), "open"),
        (first_seeds(times_on_sift(1.0, 0.1, 5.0), 1), "open"),
        (times_on_sift(1.0, 2.0, 5.0)[:1], "open"),
        (without(times_on_sift(1.0, 2.0, 5.0), model="BinaryAutoencoder"), "open"),
        (without(times_on_sift(1.0, 2.0, 5.0), model="ITQ", n_bits=64), "open"),
    ],
    "recall_l2": [
        (hashing(0.5, 0.4), "agrees"),
        (without(hashing(0.5, 0.4), model="ITQ", set="SIFT", n_bits=16), "open"),
        (first_seeds(hashing(0.4, 0.5), 2), "open"),
        (hashing(0.4, 0.5), "differs"),
        (hashing(0.4, 0.4), "open"),
    ],
    "untouched": [
        (by_recall({PAPER: 0.1, DEFAULT: 0.5, **dict.fromkeys(RIVALS, 0.4)}), "agrees"),
        (by_recall({PAPER: 0.6, DEFAULT: 0.4, **dict.fromkeys(RIVALS, 0.5)}), "differs"),
        (by_recall({PAPER: 0.6, DEFAULT: 0.4, **dict.fromkeys(RIVALS, 0.4)}), "open"),
    ],
    "recall_by_length": [
        (hashing(0.5, 0.4), "agrees"),
        (hashing(0.4, 0.5), "differs"),
        (hashing(0.4, 0.4), "open"),
    ],
    "streamed_recall": [(streamed(0.5, 0.4), "open"), (streamed(0.4, 0.5), "open")],
    "inner_product": [
        (products(0.5, 0.4, 0.6, 0.5), "agrees"),
        (products(0.5, 0.4, 0.5, 0.6), "differs"),
        (products(0.3, 0.4, 0.6, 0.5), "differs"),
        (without(products(0.5, 0.4, 0.6, 0.5), model=QUANTIZER), "open"),
        (first_seeds(products(0.3, 0.4, 0.5, 0.6), 2), "open"),
    ],
    "templates": [
        (templates(0.5, 0.22), "agrees"),
        (templates(0.99, 0.22), "differs"),
        (templates(0.5, 0.22, entropy=0.01), "differs"),
        (templates(0.5, 0.3), "differs"),
        (templates(0.5, 0.55, pca=0.5), "differs"),
        (templates(0.5, 0.22, alike=0.66), "differs"),
        (templates(0.5, 0.22, accuracy=0.86), "differs"),
        (templates(0.5, 0.2489), "open"),
        (first_seeds(templates(0.5, 0.22), 2), "open"),
        (first_seeds(templates(0.5, 0.3), 1), "open"),
        (without(templates(0.5, 0.22), model="ITQ"), "open"),
    ],
    "convergence": [
        (falling(-0.5, 6.0), "agrees"),
        (falling(-0.2, 6.0), "differs"),
        (falling(-0.5, 4.0), "differs"),
        (falling(-0.45, 6.0, spread=0.2), "open"),
        (falling(-0.5, 5.0), "open"),
        (first_seeds(falling(-0.5, 6.0), 2), "open"),
        (first_seeds(falling(-0.2, 4.0), 1), "open"),
    ],
    "estimators": [
        (estimators(0.01, 5.0), "agrees"),
        (estimators(0.10, 5.0), "differs"),
        (estimators(0.01, 0.5), "differs"),
        (estimators(0.01, 5.0, approximate=0.01), "open"),
        (estimators(0.01, 5.0, unbiased=6.0), "open"),
        # So few draws that a bias would not be seen.
        (estimators(0.01, 5.0, error=0.01), "open"),
    ],
    "entropy_term": [
        (entropies(0.0, 3.0, 1.0, 2.0), "agrees"),
        (entropies(3.0, 0.0, 1.0, 2.0), "differs"),
        (entropies(0.0, 3.0, 2.0, 1.0), "differs"),
        (entropies(0.0, 0.0, 1.0, 1.0), "open"),
        (first_seeds(entropies(0.0, 3.0, 1.0, 2.0), 2), "open"),
        (without(entropies(0.0, 3.0, 1.0, 2.0), variant=WITHOUT, set="SIFT"), "open"),
    ],
    "sensitivity": [
        (sensitive(0.01, 0.2), "agrees"),
        (sensitive(0.2, 0.2), "open"),
        (sensitive(0.3, 0.2), "differs"),
        (sensitive(0.6, 0.2), "differs"),
        (first_seeds(sensitive(0.01, 0.2), 2), "open"),
        (first_seeds(sensitive(0.6, 0.2), 1), "open"),
        ([one for one in sensitive(0.01, 0.2) if "SGH" in one["settings"]["model"]], "open"),
    ],
    "online": [
        (streaming(0.79, 0.8), "agrees"),
        (streaming(0.7, 0.8), "differs"),
        # A mean above the bound, an interval across it.
        (streaming(0.777, 0.8), "open"),
        (first_seeds(streaming(0.79, 0.8), 2), "open"),
        (first_seeds(streaming(0.5, 0.8), 1), "open"),
    ],
    "modern_embeddings": [(modern(0.9, 0.5), "open"), (modern(0.4, 0.5), "open")],
}
