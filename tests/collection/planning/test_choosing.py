"""What decides between codes in front of the same kept vectors."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.collection.planning import choosing, pipelines
from sghash.collection.planning.choosing import Wanted, choose
from sghash.collection.planning.looking import look
from sghash.collection.planning.trials import Ranked


@pytest.mark.parametrize(
    ("costs", "chosen", "verdict"),
    [
        ({8: 100.0, 16: 50.0, 32: 48.0}, 16, "chosen: as quick, and smaller"),
        ({8: 100.0, 16: 60.0, 32: 48.0}, 32, "chosen: the quickest"),
        ({8: 40.0, 16: 50.0, 32: 48.0}, 8, "chosen: the quickest"),
    ],
)
def test_of_codes_that_are_as_quick_the_shortest_is_chosen(monkeypatch, costs, chosen, verdict):
    rows = np.random.default_rng(0).standard_normal((2600, 16)).astype(np.float32)
    seen = look(rows, metric=None, queries=None, k=10, random_state=0)
    monkeypatch.setattr(pipelines, "SHORTLIST_BITS", (64, 128, 256))
    monkeypatch.setattr(choosing, "ranked", lambda *given: Ranked(2600, {10: 0.9, 40: 1.0}, 0.9))
    monkeypatch.setattr(
        choosing, "_cost", lambda look, wanted, pipeline, found: costs[pipeline.code_bytes]
    )
    found = choose(seen, Wanted(0.9, 10, None, "float32", 0), lambda what: None)
    assert found.pipeline.code_bytes == chosen
    assert [one.verdict for one in found.tried if one.verdict.startswith("chosen")] == [verdict]
