"""Times of fits, and how long until an error is reached."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sghash
from sghash.experiments import timings
from sghash.experiments.claims import training_time
from sghash.experiments.experiment import Context
from sghash.experiments.sets import QUICK_CLUSTERS, load


def test_the_first_moment_at_or_below_a_bound_counts():
    assert timings.time_to([1.0, 2.0, 3.0], [9.0, 5.0, 4.0], 5.0) == 2.0
    assert timings.time_to([1.0, 2.0], [9.0, 5.0], 4.0) == math.inf


def test_errors_are_compared_on_the_same_rows():
    rows = load(QUICK_CLUSTERS).base[:500]
    model = sghash.SGH.paper(8, n_steps=200, random_state=0)
    values = timings.watched_fit(model, rows, 200)
    assert len(values["cpu_seen"]) == len(values["error_seen"]) == timings.REPORTS
    assert np.all(np.diff(values["cpu_seen"]) >= 0)
    assert values["error_seen"][-1] == pytest.approx(model.reconstruction_error(rows))


def test_both_decoders_of_itq_are_measured():
    rows = load(QUICK_CLUSTERS).base[:500]
    model = sghash.ITQ(n_bits=8, random_state=0)
    times = timings.timed_fit(model, rows)
    assert times["cpu_seconds"] > 0 and times["train_seconds"] > 0
    errors = timings.errors_of(model, rows)
    assert errors["fitted_error"] <= errors["own_error"]


def test_every_method_learns_from_all_rows_of_the_judged_set(tmp_path, monkeypatch):
    seen = {}

    def measured(self, store, settings, measure):
        if store == training_time.STORE:
            seen[settings["model"]] = settings["options"]
        return {"settings": settings, "values": {}}

    monkeypatch.setattr(Context, "measured", measured)
    training_time.run(Context(tmp_path, quick=True, seeds=1))
    assert set(seen) == set(training_time.MODELS)
    assert seen["BinaryAutoencoder"]["sample"] == "None" == seen["ITQ"]["sample"]


def test_without_the_data_the_stored_rows_are_drawn(tmp_path, monkeypatch):
    """As before: the fits of the recall curves tell the time, SIFT's too."""
    asked = []
    monkeypatch.setattr(
        training_time, "hashing_rows", lambda c, sets, *_: asked.extend(s.label for s in sets) or []
    )
    monkeypatch.setenv("SGHASH_DATA", str(tmp_path))
    assert training_time.run(Context(tmp_path)) == []
    assert asked == ["MNIST", "SIFT", "GIST"]
