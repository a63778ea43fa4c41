"""Exact neighbours equal the reference, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.kernels import exact_neighbors, reference


def assert_same(found, expected):
    for got, wanted in zip(found, expected, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("integer", [True, False])
def test_exact_neighbours_equal_the_reference(metric, integer, rng):
    vectors = rng.standard_normal((5000, 20)).astype(np.float32) * 3
    if integer:  # many ties
        vectors = np.round(vectors)
    vectors[7] = 0
    vectors[100:140] = vectors[99]
    queries = np.concatenate([vectors[90:110], rng.standard_normal((30, 20))]).astype(np.float32)
    expected = reference.exact_neighbors(vectors, queries, 25, metric=metric)
    for threads in (1, 2):
        found = exact_neighbors(vectors, queries, 25, metric=metric, threads=threads)
        assert_same(found, expected)


def test_exact_neighbours_survive_cancellation():
    """Far from the origin the fast scores are noise: the bound must keep the true neighbours."""
    rng = np.random.default_rng(5)
    vectors = (10_000 + rng.standard_normal((2000, 8))).astype(np.float32)
    expected = reference.exact_neighbors(vectors, vectors[:40], 10, metric="l2")
    found = exact_neighbors(vectors, vectors[:40], 10, metric="l2", threads=1)
    assert_same(found, expected)


def test_more_neighbours_than_vectors(rng):
    vectors = rng.standard_normal((3, 2)).astype(np.float32)
    found = exact_neighbors(vectors, vectors[:1], 5)
    assert found.ids[0, 3:].tolist() == [-1, -1] and np.isinf(found.distances[0, 3:]).all()


@pytest.mark.parametrize("kind", ["float16", "float64", "uint8"])
def test_queries_may_be_of_any_kind_of_number(kind, rng):
    vectors = rng.integers(0, 50, (300, 8)).astype(kind)
    found = exact_neighbors(vectors, vectors[:20], 5)
    expected = exact_neighbors(vectors.astype(np.float32), vectors[:20].astype(np.float32), 5)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.distances, expected.distances)
