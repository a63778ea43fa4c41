"""Distances to kept vectors equal the formula, whatever the width, the kind and the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.kernels.reference import vectors as reference
from sghash.kernels.vectors import stored as kept


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("width", [1, 7, 8, 31, 32, 33, 100])
def test_distances_are_the_formula(width, kind, metric, rng):
    vectors = rng.standard_normal((50, width)).astype(kind)
    queries = rng.standard_normal((9, width)).astype(np.float32)
    rows = rng.integers(0, 50, (9, 13))
    rows[2, [0, 5, 12]] = -1
    expected = reference.kept_distances(vectors, rows, queries, metric)
    for threads in (1, 2):
        found = kept.kept_distances(vectors, rows, queries, metric, threads=threads)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_halves_are_widened_where_the_cpu_cannot(metric, rng, monkeypatch):
    vectors = rng.standard_normal((50, 21)).astype(np.float16)
    queries = rng.standard_normal((5, 21)).astype(np.float32)
    rows = rng.integers(-1, 50, (5, 30))
    expected = kept.kept_distances(vectors, rows, queries, metric)
    monkeypatch.setattr(kept, "HALVES", False)
    monkeypatch.setattr(kept, "_WIDENED_ROWS", 7)
    found = kept.kept_distances(vectors, rows, queries, metric)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.skipif(not kept.HALVES, reason="this CPU does not widen by itself")
def test_every_half_is_widened_right():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    vectors = np.zeros((len(halves), 33), dtype=np.float16)
    rows = np.arange(len(halves))[None]
    for column in (0, 31, 32):
        vectors[:] = 0
        vectors[:, column] = halves
        found = kept.kept_distances(vectors, rows, np.ones((1, 33), dtype=np.float32), "ip")
        np.testing.assert_array_equal(found[0], -halves.astype(np.float32))


def test_without_length_there_is_no_direction():
    vectors = np.zeros((2, 4), dtype=np.float32)
    vectors[1, 0] = 3
    queries = np.zeros((2, 4), dtype=np.float32)
    queries[1, 0] = 2
    found = kept.kept_distances(vectors, np.tile([0, 1], (2, 1)), queries, "cosine")
    np.testing.assert_array_equal(found, [[1, 1], [1, 0]])
