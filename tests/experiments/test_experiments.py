"""What experiments compute, each against its slow definition; rows that resume; the page."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import sghash
from sghash.data.builtin import digits
from sghash.data.catalog import CATALOG
from sghash.data.dataset import DataSet
from sghash.data.sources import ArraySource
from sghash.errors import InvalidInput, MissingData
from sghash.evaluation.rows import read_rows
from sghash.experiments import EXPERIMENTS, experiment, hashing, sets
from sghash.experiments.by_query import unpack_shares
from sghash.experiments.claims import convergence, modern_embeddings
from sghash.experiments.claims.convergence import Trajectory, looks
from sghash.experiments.claims.entropy_term import wasted
from sghash.experiments.claims.estimators import compare, reinforce, squared_bias
from sghash.experiments.claims.modern_embeddings import contenders
from sghash.experiments.claims.reconstruction import by_rotation
from sghash.experiments.claims.sensitivity import values_of
from sghash.experiments.claims.templates import largest_cosine, pack_images, unpack_images
from sghash.experiments.contenders.contender import Contender, measure
from sghash.experiments.contenders.others import bytes_a_row
from sghash.experiments.experiment import Context
from sghash.experiments.sets import QUICK_CLUSTERS, QUICK_DIGITS, load, truth
from sghash.kernels import hamming_neighbors
from sghash.models.sgh import encoder_gradient


def test_a_row_is_measured_once_and_read_afterwards(tmp_path):
    calls = []

    def measure():
        calls.append(1)
        return {"value": 2.0}

    first = Context(tmp_path).measured("store", {"set": "a", "seed": 0}, measure)
    again = Context(tmp_path).measured("store", {"seed": 0, "set": "a"}, measure)
    assert len(calls) == 1 and again["values"] == first["values"] == {"value": 2.0}
    assert again["revision"] == first["revision"] and again["machine"]
    other = Context(tmp_path).measured("store", {"set": "a", "seed": 1}, measure)
    assert len(calls) == 2 and other["key"] != first["key"]


def test_an_interrupted_run_goes_on(tmp_path):
    def fail():
        raise KeyboardInterrupt

    context = Context(tmp_path)
    context.measured("store", {"seed": 0}, lambda: {"value": 1.0})
    with pytest.raises(KeyboardInterrupt):
        context.measured("store", {"seed": 1}, fail)
    said = []
    later = Context(tmp_path, say=said.append)
    rows = [later.measured("store", {"seed": s}, lambda: {"value": 2.0}) for s in range(2)]
    assert [row["values"]["value"] for row in rows] == [1.0, 2.0] and said == ["  seed 1"]


def test_a_changed_default_is_measured_again():
    here = hashing.options_of("ITQ", 8, "l2")
    there = hashing.options_of("ITQ(n_iterations=7)", 8, "l2")
    assert here != there and here.keys() == there.keys() and "callback" not in here


class Asked(Context):
    """Measures nothing, and keeps what it was asked for."""

    def measured(self, store, settings, measure):
        self.say(settings)
        return {"settings": settings, "values": {}}


def asked_of(name, folder):
    found = []
    experiment(name).run(Asked(folder, quick=True, seeds=1, say=found.append))
    return [one for one in found if isinstance(one, dict)]  # and not what it leaves out


OPTIONS = {
    "sensitivity": (hashing, "build_model"),
    "entropy_term": (sghash.SGH, "paper"),
    "estimators": (sghash.SGH, "paper"),
    "modern_embeddings": (hashing, "build_model"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_rows_of_a_model_do_not_outlive_its_defaults(name, tmp_path, monkeypatch):
    before = asked_of(name, tmp_path)
    where, made = OPTIONS[name]
    make = getattr(where, made)

    def other(*given, **options):
        model = make(*given, **options)
        return model.set_params(batch_size=77) if "batch_size" in model.get_params() else model

    monkeypatch.setattr(where, made, other)
    after = asked_of(name, tmp_path)
    assert len(after) == len(before) > 0
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed and all(new["options"]["batch_size"] == "77" for new in changed)
    learning = [one for one in before if "batch_size" in one["options"]]
    assert len(changed) == len(learning) - sum(one.get("option") == "batch_size" for one in before)


def test_rows_of_the_theorems_do_not_outlive_how_they_are_measured(tmp_path, monkeypatch):
    before = asked_of("convergence", tmp_path)
    for constant, value in (("N_LOOKS", 7), ("N_DRAWS", 7), ("OPTIMUM", 7), ("START", "pca")):
        with monkeypatch.context() as changed:
            changed.setattr(convergence, constant, value)
            after = asked_of("convergence", tmp_path)
        assert not any(one in before for one in after), constant


def test_every_learned_contender_tells_its_options(tmp_path):
    told, full = (
        {
            settings["method"]: settings["options"]
            for settings, _ in modern_embeddings.cases(Context(tmp_path, quick=quick))
        }
        for quick in (True, False)
    )
    assert told["SGH, asymmetric"]["sweeps"] == "3" and told["FAISS RaBitQ"] == {"bits": "2"}
    assert full["FAISS OPQ"] == {"rounds": "20", "rows": "16384"}
    assert full["Collection.build"]["target_recall"] == "0.95"
    silent = {"SignHashing, medians", "FAISS PQ", "usearch b1", "usearch b1, HNSW", "usearch i8",
              "usearch i8, HNSW"}  # fmt: skip
    assert {name for name, options in full.items() if not options} == silent


def test_rows_without_options_are_not_read(tmp_path):
    context = Context(tmp_path, quick=True)
    (settings, _), *_ = modern_embeddings.cases(context)
    old = {name: value for name, value in settings.items() if name != "options"}
    context.measured(modern_embeddings.STORE, old, lambda: {"recall10@10": 0.1})
    assert modern_embeddings.kept_rows(Context(tmp_path, quick=True)) == []
    context.measured(modern_embeddings.STORE, settings, lambda: {"recall10@10": 0.5})
    (row,) = modern_embeddings.kept_rows(Context(tmp_path, quick=True))
    assert row["values"] == {"recall10@10": 0.5}


def test_every_file_of_rows_is_read_by_an_experiment():
    folder = Path(__file__).parents[2] / "docs" / "results" / "rows"
    modules = [importlib.import_module(experiment(name).run.__module__) for name in EXPERIMENTS]
    known = {"part_sizes", hashing.STORE, *(getattr(m, "STORE", "") for m in modules)}
    assert {path.stem for path in folder.glob("*.jsonl")} <= known


def test_rows_that_are_kept_have_the_options_of_today():
    """A row is found by the text of its options: another default would leave all of them unread."""
    rows = read_rows(Path(__file__).parents[2] / "docs" / "results" / "rows" / "hashing.jsonl")
    asked = {}
    for row in rows:
        settings = row["settings"]
        if settings["model"] in hashing.OURS:
            asked[settings["model"], settings["n_bits"]] = settings["options"]
    assert {model for model, _ in asked} == set(hashing.OURS)
    for (model, n_bits), options in asked.items():
        now = hashing.options_of(model, n_bits, options["metric"].strip("'"))
        assert now == options
    changed = hashing.options_of("SGH(max_rows=7, recipe__init='pca')", 8, "l2")
    assert changed["max_rows"] == "7" and changed["init"] == "'pca'"


def test_unknown_options_leave_a_model_out():
    assert hashing.known_models(["ITQ", "ITQ(nope=1)", "SGH.paper"]) == ["ITQ", "SGH.paper"]


def test_quick_specs_have_small_budgets(tmp_path):
    quick, full = Context(tmp_path, quick=True), Context(tmp_path)
    assert hashing.spec_for(quick, "SGH.paper") == "SGH.paper(n_steps=500)"
    assert hashing.spec_for(quick, "SGH(n_steps=9)") == "SGH(n_steps=9)"
    assert hashing.spec_for(full, "SGH.paper") == "SGH.paper"


def test_no_time_counts_compiling(tmp_path, monkeypatch):
    """What is fitted before the clock starts goes the same way, on rows of the same type."""
    fits = []

    class Recorded(sghash.SGH):
        def fit(self, X, y=None):
            fits.append((X.dtype, self.goal, self.neighbors, self.coding))
            return super().fit(X, y)

    monkeypatch.setattr(hashing, "model_class", lambda name: Recorded)
    hashing.warm_up.cache_clear()
    model = Recorded(n_bits=8, n_steps=5, goal="reconstruction", coding="binary")
    context = Context(tmp_path, quick=True)
    which = QUICK_DIGITS._replace(n_vectors=100, n_queries=10)
    monkeypatch.setattr(hashing, "load", lambda _: _small(np.uint8))
    monkeypatch.setattr(hashing, "measure_fitted", lambda *_, **__: {})
    hashing.measure_model(context, which, model)
    hashing.warm_up.cache_clear()
    assert len(fits) == 2 and fits[0] == fits[1] == (np.uint8, "reconstruction", 0, "binary")


def _small(dtype):
    rows = np.arange(400).reshape(100, 4).astype(dtype)
    return sets.Loaded(rows, rows[:10].astype("f4"), "l2", None)


def test_a_hashing_row_is_what_a_search_by_hand_gives(tmp_path):
    context = Context(tmp_path, quick=True, seeds=1)
    row = hashing.hashing_row(context, QUICK_DIGITS, "LSH", 16, 3)
    data = load(QUICK_DIGITS)
    model = sghash.models.LSH(n_bits=16, random_state=3).fit(data.base)
    found = hamming_neighbors(model.encode(data.base), model.encode(data.queries), 50, n_bits=16)
    true = truth(QUICK_DIGITS, 10).ids[:, :10]
    hits = [len(set(a) & set(b)) for a, b in zip(found.ids.tolist(), true.tolist(), strict=True)]
    # Ties in the truth may only add to what is found.
    assert 0 <= row["values"]["recall10@50"] - np.mean(hits) / 10 < 0.01
    with (tmp_path / "hashing.jsonl").open() as stream:
        assert len([json.loads(line) for line in stream]) == 1


def small_model(rng, coding):
    model = sghash.SGH(n_bits=4, coding=coding)
    model.n_features_in_ = 5
    model.encoder_weights_ = rng.standard_normal((5, 4))
    model.encoder_bias_ = rng.standard_normal(4)
    model.decoder_weights_ = rng.standard_normal((4, 5))
    model.decoder_bias_ = rng.standard_normal(5)
    model.noise_variance_, model.prior_logits_ = 0.7, rng.standard_normal(4)
    return model


def test_the_squared_bias_is_that_of_all_pairs_of_different_draws(rng):
    draws = [0.2 + rng.standard_normal((3, 2)) for _ in range(7)]
    pairs = [float((one * other).sum())
             for a, one in enumerate(draws) for b, other in enumerate(draws) if a != b]  # fmt: skip
    assert squared_bias(draws)[0] == pytest.approx(np.mean(pairs))
    assert squared_bias(draws[:1]) == (pytest.approx(float(np.square(draws[0]).sum())), 0.0)


@pytest.mark.parametrize("bias", [0.0, 0.05, 0.5])
def test_the_error_of_a_squared_bias_covers_what_draws_do(bias, rng):
    found = [squared_bias(list(bias + rng.standard_normal((40, 30)))) for _ in range(400)]
    squares, errors = np.array(found).T
    assert squares.mean() == pytest.approx(30 * bias**2, abs=4 * squares.std() / 20)
    missed = np.abs(squares - 30 * bias**2) > 1.96 * errors
    assert 0.01 <= missed.mean() <= 0.11


@pytest.mark.parametrize("baseline", [False, True])
@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_reinforce_is_unbiased(rng, coding, baseline):
    model = small_model(rng, coding)
    rows = rng.standard_normal((20, 5)).astype(np.float32)
    exact = encoder_gradient(model, rows, estimator="exact")
    draws = np.array([reinforce(model, rows, rng, baseline=baseline) for _ in range(3000)])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.abs((draws.mean(axis=0) - exact) / error).max() < 4.5


def test_bias_and_deviation_of_a_known_estimator():
    exact = np.ones((4, 4))
    values = compare(lambda rng: exact + 1 + rng.standard_normal((4, 4)), exact, 4000)
    assert values["bias"] == pytest.approx(1, abs=0.05)
    assert values["deviation"] == pytest.approx(1, abs=0.05)
    assert values["by_chance"] == pytest.approx(4000**-0.5, rel=0.05)


def test_looks_cover_the_trajectory():
    for horizon in (1, 7, 50, 10_000):
        shares = looks(horizon)
        assert sum(shares.values()) == pytest.approx(1)
        assert min(shares) >= 0 and max(shares) < horizon


def test_a_short_walk_is_the_mean_over_all_iterates(rng):
    rows = rng.standard_normal((40, 6)).astype(np.float32)
    trajectory = Trajectory(rows, "theorem 1", 0)
    norms = []
    for parameters, _ in trajectory.walk(12):
        gradient = trajectory._full(trajectory.exact, parameters, 1)
        norms.append(float(gradient @ gradient))
    assert trajectory.squared_norms(12) == pytest.approx(np.mean(norms), rel=1e-6)


def test_wasted_bits_are_counted(rng):
    bits = rng.random((500, 6)) < 0.5
    bits[:, 2] = True
    bits[:, 4] = ~bits[:, 0]
    assert wasted(bits) == {"constant_bits": 1.0, "repeated_bits": 1.0}


def test_templates_are_compared_by_angle():
    assert largest_cosine(np.eye(3, dtype=np.float32)) == 0
    assert largest_cosine(np.array([[1, 0], [-2, 0]], np.float32)) == pytest.approx(1)
    assert largest_cosine(np.array([[1, 0], [0, 0]], np.float32)) == 1


def test_images_survive_packing(rng):
    images = rng.standard_normal((3, 64)).astype(np.float32)
    back = unpack_images(json.loads(json.dumps(pack_images(images))))
    assert back.shape == (3, 8, 8)
    np.testing.assert_allclose(back.reshape(3, 64), images, atol=np.ptp(images) / 255)


def test_itqs_own_decoder_is_orthogonal_and_worse_than_the_fitted_one():
    rows = load(QUICK_CLUSTERS).base
    model = sghash.ITQ(n_bits=8, random_state=0).fit(rows)
    own = np.square(rows - by_rotation(model, rows)).sum()
    fitted = np.square(rows - model.decode(model.encode(rows))).sum()
    assert fitted <= own < np.square(rows - rows.mean(axis=0)).sum()


def test_options_stay_whole_and_legal():
    assert values_of("batch_size", 500, (0.25, 1, 4)) == [125, 500, 2000]
    assert values_of("bits_per_part", 4, (0.25, 0.5, 1, 2, 4)) == [1, 2, 4, 8]
    assert values_of("penalty", 1e-4, (0.5, 2)) == [5e-5, 2e-4]


@pytest.mark.parametrize("name", ["SGH", "SGH, asymmetric", "SignHashing, medians"])
def test_codes_take_their_bytes_and_are_timed(tmp_path, name):
    context = Context(tmp_path, quick=True, seeds=1)
    which = QUICK_CLUSTERS._replace(metric="cosine")
    values = measure(contenders(context)[name], which, 4, 0)
    assert values["stored_bytes"] == 4 and values["recall10@100"] > 0.5
    assert values["query_milliseconds"] > 0 and values["learned_from"] == 4000
    shares = unpack_shares(values["by_query"]["recall10@10"])
    assert shares.mean() == pytest.approx(values["recall10@10"])


def test_a_package_that_is_not_here_leaves_its_method_out_unless_it_was_measured(
    tmp_path, monkeypatch
):
    missing = {"nobody's": Contender(None, (4,), package="no_such_package")}
    monkeypatch.setattr(modern_embeddings, "contenders", lambda context: missing)
    said = []
    context = Context(tmp_path, quick=True, seeds=1, say=said.append)
    assert modern_embeddings.run(context) == []
    assert said == ["nobody's is left out: the package no_such_package is not installed"]
    monkeypatch.setattr(modern_embeddings, "measure", lambda *_: {"recall10@10": 0.5})
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(modern_embeddings.others, "is_here", lambda package: True)
        rows = modern_embeddings.run(Context(tmp_path, quick=True, seeds=1))
    assert len(rows) == 1
    again = modern_embeddings.run(Context(tmp_path, quick=True, seeds=1))
    assert [row["key"] for row in again] == [row["key"] for row in rows]


def test_bytes_a_row_are_those_that_grow_with_rows():
    rows = np.zeros((100, 3), np.float32)
    assert bytes_a_row(lambda some: 5000 + 7 * len(some), rows) == 7


def test_bags_of_words_are_unit_rows_without_empty_ones():
    texts = ["a red house", "the red red dog", "zebra", "a house and a dog"]
    data = DataSet(
        "texts", ArraySource(np.zeros((4, 2), np.float32)), ArraySource(np.zeros((2, 2), "f4")),
        base_texts=texts, query_texts=["dog", "nothing known"],
    )  # fmt: skip
    found = sets.bags_of_words(data, 3)
    base, queries = found.base.read(0, 3), np.asarray(found.queries)
    assert base.shape == (3, 3) and queries.shape == (1, 3) and found.metric == "l2"
    np.testing.assert_allclose(np.linalg.norm(base, axis=1), 1, rtol=1e-6)
    # The words are dog, house and red; twice red outweighs dog.
    (second,) = base[(base[:, 0] > 0) & (base[:, 2] > 0)]
    assert second[2] > second[0] and second[1] == 0
    with pytest.raises(MissingData, match="no texts"):
        sets.bags_of_words(digits(), 3)


def test_every_set_is_in_the_catalog_and_large_enough(tmp_path):
    full, originals = Context(tmp_path), Context(tmp_path, originals=True)
    known = [sets.word_set(c) for c in (full, originals)]
    known += [which for c in (full, originals) for which in sets.image_sets(c)]
    for which in (*known, sets.CIFAR, sets.TEXTS):
        entry = CATALOG[which.source]
        assert which.n_vectors <= entry.base[0] and which.n_queries <= entry.queries[0]
        assert which.metric == entry.metric
    assert {"SIFT-1M", "GIST-1M", "WORD2VEC"} <= {which.label for which in known}


def test_an_unknown_experiment_is_refused():
    with pytest.raises(InvalidInput, match="no experiment 'nope'"):
        experiment("nope")


def test_a_part_of_a_set_that_is_sorted_by_class_has_all_classes(monkeypatch):
    labels = np.repeat(np.arange(10), 100)
    rows = np.arange(1000, dtype=np.float32)[:, None]
    data = DataSet("sorted", ArraySource(rows), ArraySource(rows[:5]), base_labels=labels)
    monkeypatch.setattr(sets, "load_dataset", lambda name: data)
    load.cache_clear()
    part = load(sets.CIFAR._replace(n_vectors=200, n_queries=5))
    whole = load(sets.CIFAR._replace(n_vectors=1000, n_queries=5))
    load.cache_clear()
    assert set(part.base_labels) == set(range(10)) and len(part.base) == 200
    np.testing.assert_array_equal(labels[part.base[:, 0].astype(int)], part.base_labels)
    np.testing.assert_array_equal(whole.base, rows)
