"""Splits and fits of the training benchmark on built-in data."""

from __future__ import annotations

import os
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from measuring.fits import Plan, digits_rows, fit_rows, on_threads
from measuring.splits import QUICK_SETS, SETS, all_digits, halves, held_out, split_of, truth_of

from sghash.evaluation import metrics
from sghash.experiments.experiment import Context
from sghash.kernels import hamming_neighbors
from sghash.models import ITQ
from sghash.validation import available_cores

DIGITS = QUICK_SETS["digits"]
TRAINING = Path(__file__).resolve().parents[2] / "benchmarks" / "training.py"


def test_held_out_queries_are_not_searched(rng):
    base = rng.random((100, 4)).astype("f4")
    rest, queries = held_out(base, 10)
    assert rest.shape == (90, 4) and queries.dtype == np.float32
    together = np.concatenate([rest, queries])
    assert len(np.unique(together, axis=0)) == 100
    np.testing.assert_array_equal(held_out(base, 10)[1], queries)


def test_halves_share_no_row_and_lose_none(rng):
    base = rng.random((101, 4)).astype("f4")
    seen, unseen = halves(base)
    assert (len(seen), len(unseen)) == (50, 51)
    assert len(np.unique(np.concatenate([seen, unseen]), axis=0)) == 101


def test_digits_are_fitted_whole():
    assert all_digits().train.shape == (1797, 64)


def test_threads_and_cores_are_given_back():
    before = available_cores()
    with on_threads(1):
        if hasattr(os, "sched_getaffinity"):
            assert available_cores() == 1
    assert available_cores() == before


@pytest.mark.slow
def test_recall_on_unseen_rows_is_what_a_search_by_hand_gives(tmp_path):
    plan = Plan([DIGITS], [16], ["ITQ"], 1, validation=True, half=True)
    (row,) = fit_rows(Context(tmp_path), "rows", plan)
    split = split_of(DIGITS, validation=True, half=True)
    model = ITQ(n_bits=16, random_state=0).fit(split.train)
    for name in ("seen ", "unseen "):
        rows = split.searched[name]
        found = hamming_neighbors(model.encode(rows), model.encode(split.queries), 100, n_bits=16)
        true = truth_of(DIGITS, name, 10, validation=True, half=True)
        expected = metrics.recall(true.ids, found.ids, k=10, n=100)
        assert row["values"][f"{name}recall10@100"] == pytest.approx(expected)
    assert split.train is split.searched["seen "] and row["values"]["cpu_seconds"] > 0


@pytest.mark.slow
def test_a_stored_fit_is_not_run_again_and_another_split_is(tmp_path):
    def run(**changes):
        said = []
        plan = Plan([DIGITS], [8], ["ITQ", "LSH", "LSH(no_such_option=1)"], 2)._replace(**changes)
        rows = fit_rows(Context(tmp_path, say=said.append), "rows", plan)
        return [row["values"] for row in rows], len(said)

    first, n_measured = run()
    # In turns: both models of a seed, then the next seed; an unknown option leaves a model out.
    assert n_measured == 4 == len(first)
    assert run() == (first, 0)
    assert run(seeds=3)[1] == 2
    assert run(validation=True)[1] == 4


def test_digits_rows_have_their_time_alone(tmp_path):
    plan = Plan([], [8], ["ITQ"], 2)
    rows = digits_rows(Context(tmp_path), "rows", plan)
    assert [set(row["values"]) for row in rows] == [{"cpu_seconds", "wall_seconds"}] * 2


def test_rows_of_other_folders_are_known_and_never_written(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    Context(there).measured("store", {"seed": 0}, lambda: {"value": 1.0})
    before = (there / "store.jsonl").read_bytes()
    alone = Context(here)
    alone.measured("store", {"seed": 9}, lambda: {"value": 9.0})
    # A copy of a context that has read its rows already.
    context = replace(alone, also=(there,))
    rows = [context.measured("store", {"seed": s}, lambda: {"value": 2.0}) for s in range(2)]
    assert [row["values"]["value"] for row in rows] == [1.0, 2.0]
    assert (there / "store.jsonl").read_bytes() == before
    assert len((here / "store.jsonl").read_text().splitlines()) == 2


def test_the_options_say_what_is_fitted(capsys):
    script = runpy.run_path(str(TRAINING), run_name="imported")

    def plan(*arguments):
        return script["plan_of"](script["parsed"](arguments))

    usual = plan()
    assert [which.label for which in usual.sets] == list(SETS) and usual.seeds == 5
    assert usual.models[0] == "ITQ" and len(usual.models) == 4 and usual.threads == 1
    assert list(plan("--long").lengths) == [256, 512, 1024]
    assert [which.label for which in plan("--long").sets] == ["MiniLM"]
    rivals = plan("--rivals", "--rows", "1000")
    assert list(rivals.lengths) == [8, 16, 32, 64] and "KMeansHashing" in rivals.models
    assert {which.n_vectors for which in rivals.sets} == {1000}
    assert plan("--models", "SGH", "--half").models == ["ITQ", "SGH"]
    for wrong in (["--rivals", "--half"], ["--store", "rows.txt"], ["--rivals", "--long"]):
        with pytest.raises(SystemExit):
            script["parsed"](wrong)
    assert "--store is a file that ends in .jsonl" in capsys.readouterr().err


def test_rivals_are_known_from_stored_rows_and_ours_are_measured(tmp_path, monkeypatch):
    """A row of ours that names the same options may be of another version's training."""
    script = runpy.run_path(str(TRAINING), run_name="imported")
    asked = []
    place = script["rival_rows"].__globals__

    def hashing_rows(context, sets, models, lengths):
        asked.append((context, models))
        return []

    monkeypatch.setitem(place, "hashing_rows", hashing_rows)
    plan = script["plan_of"](script["parsed"](["--rivals"]))
    script["rival_rows"](Context(tmp_path), plan)
    (ours, our_models), (theirs, rivals) = asked
    assert our_models == ["SGH"] and ours.also == ()
    assert "SGH" not in rivals and "ITQ" in rivals and theirs.also == (script["STORED"],)
