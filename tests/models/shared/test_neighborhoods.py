"""Nearest other vectors against sorting all distances."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.models.shared.neighborhoods import k_nearest_others


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_others_are_the_nearest_and_never_the_row_itself(rng, metric):
    vectors = rng.integers(-3, 4, size=(60, 3)).astype(np.float32)  # many duplicates and ties
    found = k_nearest_others(vectors, 7, metric=metric, threads=2)
    assert found.shape == (60, 7)
    if metric == "ip":
        scores = -(vectors @ vectors.T)
    else:
        scores = np.square(vectors[:, None] - vectors[None]).sum(axis=2)
    np.fill_diagonal(scores, np.inf)
    for row, others in enumerate(found):
        assert row not in others and len(set(others)) == 7
        assert np.array_equal(scores[row, others], np.sort(scores[row])[:7])
