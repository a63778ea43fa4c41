"""What experiments compute, each against its slow definition; rows that resume; the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sghash
from sghash.data.builtin import digits
from sghash.data.catalog import CATALOG
from sghash.errors import InvalidInput, MissingData, MissingExtra
from sghash.evaluation.rows import read_rows
from sghash.evaluation.summary import Estimate
from sghash.experiments import EXPERIMENTS, comparisons, experiment, hashing, reproduction, sets
from sghash.experiments.claims.convergence import Trajectory, looks
from sghash.experiments.claims.entropy_term import wasted
from sghash.experiments.claims.estimators import compare, reinforce
from sghash.experiments.claims.modern_embeddings import methods
from sghash.experiments.claims.reconstruction import by_rotation
from sghash.experiments.claims.sensitivity import values_of
from sghash.experiments.claims.templates import largest_cosine, pack_images, unpack_images
from sghash.experiments.experiment import Context, Drawing, Experiment, Table, Verdict
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


def test_rows_measured_before_there_were_recipes_are_found():
    """A row is found by the text of its options, unless it stands for another training now."""
    rows = read_rows(Path(__file__).parents[2] / "docs" / "results" / "rows" / "hashing.jsonl")
    asked = {}
    for row in rows:
        settings = row["settings"]
        if settings["model"] in hashing.OURS:
            asked[settings["model"], settings["n_bits"]] = settings["options"]
    assert {model for model, _ in asked} == set(hashing.OURS)
    for (model, n_bits), options in asked.items():
        now = hashing.options_of(model, n_bits, options["metric"].strip("'"))
        is_same = model == hashing.PAPER
        assert (now == options) is is_same
        assert now == {**options, "learning_rate": now["learning_rate"]}
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


def test_leads_and_standings():
    sure = Estimate(0.5, 0.01, 5)
    assert comparisons.lead(sure, Estimate(0.4, 0.01, 5)) == 1
    assert comparisons.lead(Estimate(0.4, 0.01, 5), sure) == -1
    assert comparisons.lead(sure, Estimate(0.499, 0.01, 5)) == 0
    assert comparisons.lead(Estimate(0.5, None, 1), Estimate(0.496, None, 1), least=0.005) == 0
    found = {
        ("a", "we"): sure, ("a", "x"): Estimate(0.4, None, 1), ("a", "y"): Estimate(0.6, None, 1),
        ("b", "we"): sure, ("b", "x"): Estimate(0.4, None, 1),
    }  # fmt: skip
    assert comparisons.standing(found, "we", ["x", "y"]) == (1, 0, 1)
    assert comparisons.standing(found, "we", ["x"]) == (2, 0, 0)
    assert comparisons.standing(found, "we", ["x"], larger_is_better=False) == (0, 0, 2)


def small_model(rng, coding):
    model = sghash.SGH(n_bits=4, coding=coding)
    model.n_features_in_ = 5
    model.encoder_weights_ = rng.standard_normal((5, 4))
    model.encoder_bias_ = rng.standard_normal(4)
    model.decoder_weights_ = rng.standard_normal((4, 5))
    model.decoder_bias_ = rng.standard_normal(5)
    model.noise_variance_, model.prior_logits_ = 0.7, rng.standard_normal(4)
    return model


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


@pytest.mark.slow
def test_no_method_of_the_modern_table_exceeds_its_bytes(tmp_path):
    context = Context(tmp_path, quick=True, seeds=1)
    which = QUICK_CLUSTERS._replace(metric="cosine")
    pytest.importorskip("faiss")
    for name in ("RaBitQ", "GenerativeQuantizer"):
        values = methods(context)[name].measure(context, which, 12, 0)
        assert values["stored_bytes"] <= 12 and values["recall10@100"] > 0.5


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


def stub(name, rows):
    def run(context):
        if rows is None:
            raise MissingData("the set is not here")
        return [context.measured(name, {"seed": s}, lambda: {"value": 1.0}) for s in range(rows)]

    return Experiment(
        name=name,
        title=name.capitalize(),
        claim=f"claim of {name}",
        shown="Figure 0",
        setup="nothing",
        run=run,
        verdict=lambda found: Verdict("agrees", f"{len(found)} rows."),
        draw=lambda found: [Table(["a", "b"], [["1", "2"]], "a table")],
    )


def test_missing_data_leaves_a_claim_open_and_the_page_whole(tmp_path, monkeypatch):
    known = {"here": stub("here", 2), "absent": stub("absent", None)}
    monkeypatch.setattr(reproduction, "experiment", known.__getitem__)
    said = []
    context = reproduction.make_context(tmp_path, Context(tmp_path, say=said.append))
    with pytest.raises(MissingData):
        reproduction.reproduce(["absent"], context)
    results = reproduction.reproduce(["here", "absent"], context, tolerant=True)
    assert [result.verdict.outcome for result in results] == ["agrees", "open"]
    assert any(line.startswith("absent: open, after") for line in said)
    html, markdown = reproduction.write(results, tmp_path, quick=False)
    for path in (html, markdown):
        text = path.read_text(encoding="utf-8")
        assert "claim of here" in text and "the set is not here" in text and "a table" in text
    assert (tmp_path / "results" / "rows" / "here.jsonl").exists()


def test_a_page_without_the_plots_extra_has_its_tables(tmp_path, monkeypatch):
    def make():
        raise MissingExtra("this needs matplotlib: pip install 'sghash[plots]'")

    found = replace(stub("here", 1), draw=lambda rows: [Drawing(make, "A curve.", "it rises")])
    monkeypatch.setattr(reproduction, "experiment", lambda name: found)
    results = reproduction.reproduce(["here"], Context(tmp_path))
    text = reproduction.page_of(results, quick=False).markdown()
    assert "A curve. The figure is left out: this needs matplotlib" in text


def test_the_page_names_the_data_by_checksum(tmp_path, monkeypatch):
    monkeypatch.setenv("SGHASH_DATA", str(tmp_path))
    settings = [
        {"set": "digits", "source": "digits", "n_vectors": 1600, "n_queries": 150},
        {"set": "elsewhere", "source": "sift-photos", "n_vectors": 9, "n_queries": 9},
    ]
    context = Context(tmp_path)
    rows = [context.measured("store", one, lambda: {"value": 1.0}) for one in settings]
    result = reproduction.Result(stub("here", 1), rows, Verdict("agrees", "So."), 0.0)
    text = reproduction.page_of([result], quick=False).markdown()
    assert f"| digits | digits | 1,600 | 150 | {digits().checksum[:16]} |" in text
    assert "| sift-photos | 9 | 9 | not here |" in text


@pytest.mark.slow
def test_everything_runs_quickly_and_resumes(tmp_path):
    names = list(EXPERIMENTS)
    context = Context(tmp_path / "rows", quick=True, seeds=2)
    results = reproduction.reproduce(names, context)
    assert all(result.rows for result in results)
    written = reproduction.write(results, tmp_path, quick=True)
    assert "mean nothing" in written[0].read_text(encoding="utf-8")
    said = []
    again = Context(tmp_path / "rows", quick=True, seeds=2, say=said.append)
    repeated = reproduction.reproduce(names, again)
    assert [r.verdict for r in repeated] == [r.verdict for r in results]
    measured = [line for line in said if line.startswith("  ")]
    assert not measured, "rows that exist were measured again"


def test_every_experiment_is_listed_with_its_verdict():
    docs = Path(__file__).parents[2] / "docs"
    pages = [(docs / name).read_text(encoding="utf-8") for name in ("experiments.md", "results.md")]
    for name in EXPERIMENTS:
        found = experiment(name)
        assert found.name == name and found.setup
        rows = [
            line.replace("\\", "")
            for page in pages
            for line in page.splitlines()
            if line.startswith(f"| `{name}` |")
        ]
        assert len(rows) == 2 and rows[0] == rows[1], name
        start = f"| `{name}` | {found.shown} | {found.claim} | "
        assert rows[0].removeprefix(start) in ("agrees |", "differs |", "open |"), name
