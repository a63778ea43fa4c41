"""Nearest other vectors against sorting all distances."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.models.shared.neighborhoods import ONE_CELL_ROWS, k_nearest_others, near_others


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


@pytest.fixture(scope="module")
def clouds() -> np.ndarray:
    """Many small clouds of vectors: the neighbours of a vector are those of its own."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((500, 12)) * 3
    rows = centres[rng.integers(500, size=2 * ONE_CELL_ROWS)]
    return (rows + rng.standard_normal(rows.shape)).astype(np.float32)


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_cells_find_most_of_the_neighbours_and_a_second_look_more(clouds, metric):
    true = k_nearest_others(clouds, 5, metric=metric)
    shares = []
    for again in (False, True):
        rng = np.random.default_rng(0)
        found = near_others(clouds, 5, metric=metric, rng=rng, n_rows=len(clouds), again=again)
        assert not (found == np.arange(len(clouds))[:, None]).any()
        shares.append((found[:, :, None] == true[:, None]).any(axis=2).mean())
    assert 0.6 < shares[0] <= shares[1]
    assert shares[1] > 0.75


def test_few_rows_are_searched_exactly_and_the_first_rows_alone_on_request(clouds):
    few = clouds[:300]
    rng = np.random.default_rng(0)
    found = near_others(few, 4, metric="l2", rng=rng, n_rows=20, again=False)
    np.testing.assert_array_equal(found, k_nearest_others(few, 4, metric="l2")[:20])


def test_the_same_seed_gives_the_same_neighbours_on_any_number_of_threads(clouds, monkeypatch):
    answers = []
    for cores in (1, 3):
        monkeypatch.setattr("sghash.models.shared.neighborhoods.available_cores", lambda n=cores: n)
        rng = np.random.default_rng(7)
        answers.append(near_others(clouds, 5, metric="l2", rng=rng, n_rows=3000))
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize("n", [2, 3, ONE_CELL_ROWS + 1])
def test_equal_vectors_have_others_too(n):
    found = near_others(
        np.ones((n, 4), np.float32), 5, metric="l2", rng=np.random.default_rng(0), n_rows=n
    )
    assert found.shape == (n, min(5, n - 1))
    assert ((found >= 0) & (found < n)).all()
    assert not (found == np.arange(n)[:, None]).any()
