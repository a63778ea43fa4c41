"""Trials of few rows in few steps: what is tried here is the path, not the models."""

from __future__ import annotations

import pytest

from sghash.collection.planning import pipelines, trials


@pytest.fixture(autouse=True, scope="package")
def quick_trials():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "TRIAL_ROWS", 600)
        patch.setattr(trials, "TRIAL_QUERIES", 60)
        few = {"GenerativeQuantizer": (300, {"n_rounds": 1, "n_sweeps": 1}),
               "SGH": (600, {"n_steps": 10})}  # fmt: skip
        patch.setattr(trials, "LESS", few)
        patch.setattr(pipelines, "SHORTLIST_BITS", (32, 64))
        patch.setattr(pipelines, "ALONE_BYTES", (3, 6))
        yield
