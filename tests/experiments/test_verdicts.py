"""Every verdict, on rows made up to support the claim and on rows made up against it."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.experiments import EXPERIMENTS, experiment
from sghash.experiments.claims.convergence import HORIZONS, THEOREMS
from sghash.experiments.claims.entropy_term import FIXED, FULL as WITH_ENTROPY, VARIANTS
from sghash.experiments.claims.estimators import REINFORCE, TWO_PASSES
from sghash.experiments.claims.inner_product import QUANTIZER, asymmetric
from sghash.experiments.claims.online import FULL, ONLINE, SAME
from sghash.experiments.claims.reconstruction import FITTED, OWN
from sghash.experiments.claims.templates import PCA, pack_images
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
    return {
        f"recall{k}@{n}": min(1.0, level + 0.03 * place)
        for k in (1, 10, 100)
        for place, n in enumerate(depths)
    }


def by_recall(levels):
    """Rows of every method at its level, each seed a little off."""

    def values(model, seed, **_):
        return recalls(levels[model] + 0.001 * seed)

    return grid(values, **SETS, model=tuple(levels))


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
        **SETS, model=tuple(seconds),
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

    rows = grid(values, set=("SIFT",), n_bits=(16, 32), model=tuple(seconds))
    others = [one for one in times(9.0, 1.0, 1.0) if one["settings"]["set"] == "MNIST"]
    return [*rows, *others]


def streamed(paper, itq):
    levels = {PAPER: paper, DEFAULT: 0.5, "ITQ": itq}
    return grid(
        lambda model, **_: recalls(levels[model]),
        seeds=1, n_rows=(1000,), n_bits=(16, 32), model=tuple(levels),
    )  # fmt: skip


def products(paper, rivals, scored, quantizer):
    levels = {PAPER: paper, DEFAULT: 0.3, **dict.fromkeys(RIVALS, rivals)}
    return by_recall({**levels, asymmetric(PAPER): scored, QUANTIZER: quantizer})


def templates(cosine, error, pca=0.2, entropy=0.9):
    images = pack_images(np.linspace(-1, 1, 4 * 64).reshape(4, 64))
    drawn = {"pictures": images, "templates": images, "largest_cosine": cosine}
    values = {
        PCA: {"unexplained_variance": pca, "originals": images, "pictures": images},
        PAPER: {**drawn, "unexplained_variance": error, "least_entropy": entropy},
        DEFAULT: {**drawn, "unexplained_variance": error, "least_entropy": entropy},
        "ITQ": {
            **drawn,
            "unexplained_variance": 0.5,
            "least_entropy": 1.0,
            "own_error": 0.6,
            "own_pictures": images,
        },
    }
    return [row(value, set="digits", model=model) for model, value in values.items()]


def falling(power, bound):
    def values(theorem, horizon, seed):
        value = 10 * horizon**power * (1 + 0.01 * seed)
        return {"bounded": value} if theorem == "theorem 1" else {"bounded": 5.0, "bound": bound}

    return grid(values, theorem=tuple(THEOREMS), horizon=HORIZONS)


def estimators(bias, deviation, approximate=0.5, unbiased=1.0):
    def values(estimator, **_):
        found = {"bias": 0.01, "by_chance": 0.01, "deviation": 1.0, "seconds": 1.0}
        if estimator in ("distributional", TWO_PASSES):
            found["bias"], found["deviation"] = bias, unbiased
        if estimator == "approximate":
            found["bias"] = approximate
        if estimator in REINFORCE:
            found["deviation"] = deviation
        return found

    names = ("approximate", "distributional", "exact", "straight-through", TWO_PASSES, *REINFORCE)
    return grid(values, seeds=1, coding=("binary",), stage=(1, 300), estimator=names)


def entropies(with_term, without, drawn, rounded):
    def values(variant, seed, **_):
        return {
            "constant_bits": with_term if variant == WITH_ENTROPY else without,
            "repeated_bits": 0.0,
            "bits_in_use": 10.0,
            "recall10@100": 0.5,
            "early_error": (rounded if variant == FIXED else drawn) + 0.01 * seed,
            "samples_seen": [500, 1000],
            "error_seen": [2.0, 1.0],
        }

    return grid(values, set=("MNIST", "SIFT"), variant=tuple(VARIANTS))


def sensitive(ours, theirs):
    options = {PAPER: ours, DEFAULT: ours, "KMeansHashing": theirs, "GraphHashing": 0.5}

    def values(model, factor, seed, **_):
        return {"recall10@100": 0.8 - options[model] * abs(math.log2(factor)) / 2}

    return grid(values, model=tuple(options), option=("option",), factor=(0.25, 0.5, 1.0, 2.0, 4.0))


def streaming(online, same):
    levels = {ONLINE: online, SAME: same, FULL: 0.9, "ITQ": 0.5}

    def values(way, seed):
        return {
            "recall10@100": levels[way] + 0.001 * seed,
            "reconstruction_error": 1.0,
            "train_seconds": 1.0,
            "vectors_seen": [100, 200],
            "recall_seen": [0.2, levels[way]],
        }

    return grid(values, way=tuple(levels))


def modern(ours, theirs):
    def values(method, seed, **_):
        level = ours if method == "SGH" else theirs
        return {"recall10@10": level / 2, "recall10@100": level}

    return grid(values, bytes=(8, 16), method=("SGH", "OPQ", "ITQ", "LSH"))


#: Experiment -> rows, and the outcome that they must have.
CASES = {
    "reconstruction": [
        (reconstruction(0.8, 1.0), "agrees"),
        (reconstruction(1.2, 1.0), "differs"),
        (reconstruction(1.0, 1.0), "open"),
    ],
    "training_time": [
        (times(1.0, 2.0, 5.0), "agrees"),
        (times(1.0, 0.8, 5.0), "agrees"),
        (times(1.0, 0.5, 5.0), "differs"),
        (times(1.0, 2.0, 1.5), "differs"),
        (times_on_sift(1.0, 2.0, 5.0), "agrees"),
        (times_on_sift(1.0, 0.5, 5.0), "differs"),
        (times_on_sift(1.0, 2.0, 1.5), "differs"),
    ],
    "recall_l2": [
        (hashing(0.5, 0.4), "agrees"),
        (hashing(0.4, 0.5), "differs"),
        (hashing(0.4, 0.4), "open"),
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
    ],
    "templates": [
        (templates(0.5, 0.22), "agrees"),
        (templates(0.99, 0.22), "differs"),
        (templates(0.5, 0.22, entropy=0.01), "differs"),
        (templates(0.5, 0.3), "differs"),
        (templates(0.5, 0.55, pca=0.5), "differs"),
    ],
    "convergence": [
        (falling(-0.5, 6.0), "agrees"),
        (falling(-0.2, 6.0), "differs"),
        (falling(-0.5, 4.0), "differs"),
    ],
    "estimators": [
        (estimators(0.01, 5.0), "agrees"),
        (estimators(0.10, 5.0), "differs"),
        (estimators(0.01, 0.5), "differs"),
        (estimators(0.01, 5.0, approximate=0.01), "differs"),
        (estimators(0.01, 5.0, unbiased=6.0), "differs"),
    ],
    "entropy_term": [
        (entropies(0.0, 3.0, 1.0, 2.0), "agrees"),
        (entropies(3.0, 0.0, 1.0, 2.0), "differs"),
        (entropies(0.0, 3.0, 2.0, 1.0), "differs"),
        (entropies(0.0, 0.0, 1.0, 1.0), "open"),
    ],
    "sensitivity": [
        (sensitive(0.01, 0.2), "agrees"),
        (sensitive(0.3, 0.2), "open"),
        (sensitive(0.6, 0.2), "differs"),
    ],
    "online": [(streaming(0.79, 0.8), "agrees"), (streaming(0.7, 0.8), "differs")],
    "modern_embeddings": [(modern(0.9, 0.5), "open"), (modern(0.4, 0.5), "open")],
}


def test_every_experiment_has_cases():
    assert set(CASES) == set(EXPERIMENTS)


@pytest.mark.parametrize(
    ("name", "rows", "outcome"),
    [(name, rows, outcome) for name, cases in CASES.items() for rows, outcome in cases],
)
def test_the_verdict_follows_from_the_rows(name, rows, outcome):
    verdict = experiment(name).verdict(rows)
    assert verdict.outcome == outcome, verdict.sentence
    assert any(character.isdigit() for character in verdict.sentence)
    assert "nan" not in verdict.sentence


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_nothing_is_judged_without_rows(name):
    with pytest.raises(InvalidInput, match="no rows"):
        experiment(name).verdict([])


def test_training_is_judged_on_sift_alone_and_tells_when_it_is_as_good_as_itq():
    found = experiment("training_time")
    verdict = found.verdict(times_on_sift(1.0, 2.0, 5.0))
    assert "the whole training of SGH.paper takes 0.50 times (0.50 to 0.50) as long as ITQ" in (
        verdict.sentence
    )
    assert "own decoder at 2 of 2 lengths, in 0.10 times" in verdict.sentence
    assert "never reaches the training error of ITQ's fitted decoder" in verdict.sentence
    # MNIST takes nine times as long: it is told, and does not decide.
    assert "on the other sets, not judged, SGH.paper takes 8.9" in verdict.sentence
    (table,) = [p for p in found.draw(times_on_sift(1.0, 2.0, 5.0)) if "medians" in p.caption]
    lines = {line[0]: line[1:] for line in table.cells}
    assert lines["SGH.paper"] == ["1.00", "1.00"] and lines["ITQ"] == ["2.00", "2.00"]
    assert lines["SGH.paper to the training error of ITQ's own decoder"] == ["0.20", "0.20"]
    assert lines["SGH.paper to the training error of ITQ's fitted decoder"] == ["never", "never"]


def test_rows_without_the_times_to_an_error_are_judged_by_the_whole_training():
    found = experiment("training_time")
    assert "training error" not in found.verdict(times(1.0, 2.0, 5.0)).sentence
    headings = [line[0] for p in found.draw(times(1.0, 2.0, 5.0)) if hasattr(p, "cells")
                for line in p.cells]  # fmt: skip
    assert not any("training error" in line for line in headings)


def test_a_stream_cannot_confirm_but_tells_its_direction():
    found = experiment("streamed_recall")
    assert "points the same way" in found.verdict(streamed(0.5, 0.4)).sentence
    assert "points the other way" in found.verdict(streamed(0.4, 0.5)).sentence
    assert "shows no difference" in found.verdict(streamed(0.4, 0.4)).sentence


def test_the_best_of_the_modern_table_is_named():
    sentence = experiment("modern_embeddings").verdict(modern(0.9, 0.5)).sentence
    assert "8 bytes: SGH 0.900" in sentence and "OPQ 0.500" in sentence


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rows_can_be_drawn(name):
    pytest.importorskip("matplotlib")
    rows = CASES[name][0][0]
    parts = experiment(name).draw(rows)
    assert parts
    for part in parts:
        if hasattr(part, "make"):
            assert part.make().get_axes() and part.caption and part.alt
        else:
            assert part.cells
            assert all(len(line) == len(part.headings) for line in part.cells)
            assert not any("nan" in cell for line in part.cells for cell in line)


def test_after_how_many_vectors_the_error_is_below_itqs_is_told():
    sentence = experiment("reconstruction").verdict(reconstruction(0.5, 1.0)).sentence
    # ITQ ends at 1.5 after 750 vectors on average; the paper's training is there after 1000.
    assert "falls below the end of ITQ, own decoder in 4 of 4 cells" in sentence
    assert "133.3 to 133.3 % as many vectors as its 50 iterations" in sentence
