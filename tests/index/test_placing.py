"""Rows find their lists through groups of lists, in pieces and threads, as the slow way does."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.index import PartitionedIndex
from sghash.index.lists import arranged, centroids
from sghash.index.rows import RowIds


@pytest.fixture
def many_lists(monkeypatch):
    """Lists of clustered vectors that count as very many."""
    monkeypatch.setattr(centroids, "FLAT_LISTS", 100)
    rng = np.random.default_rng(3)
    centers = rng.standard_normal((40, 12)) * 1.2
    vectors = (centers[rng.integers(40, size=9000)] + rng.standard_normal((9000, 12))).astype("f4")
    partitions = centroids.learn_partitions(
        vectors, centroids.GROUPED_FROM, metric="l2", spill=0.1, rng=rng
    )
    return vectors, partitions


def slowly(partitions, vectors, n_near, n):
    """One row after the other: the nearest groups, then the nearest of their lists."""
    wide = partitions.centroids.astype(np.float32)
    groups = partitions.group_centroids.astype(np.float32)
    found, scores = [], []
    for row in vectors:
        near = np.argsort((groups**2).sum(1) / 2 - groups @ row, kind="stable")[:n_near]
        starts = partitions.group_starts
        lists = np.concatenate([np.arange(starts[g], starts[g + 1]) for g in near])
        some = (wide[lists] ** 2).sum(1) / 2 - wide[lists] @ row
        best = np.argsort(some, kind="stable")[:n]
        found.append(lists[best])
        scores.append(some[best])
    return np.array(found), np.array(scores)


@pytest.mark.parametrize("n", [1, 2])
def test_lists_of_the_nearest_groups_are_those_of_the_slow_way(many_lists, n):
    vectors, partitions = many_lists
    lists, scores = partitions.lists_near(vectors[:500], n)
    expected, their_scores = slowly(partitions, vectors[:500], centroids.NEAR_GROUPS, n)
    np.testing.assert_array_equal(lists, expected)
    np.testing.assert_allclose(scores, their_scores, rtol=1e-4, atol=1e-4)


def test_all_groups_give_the_nearest_of_all_lists(many_lists, monkeypatch):
    vectors, partitions = many_lists
    monkeypatch.setattr(centroids, "NEAR_GROUPS", 1000)
    lists, expected = partitions.lists_near(vectors), partitions.lists_of(vectors)
    np.testing.assert_array_equal(lists[0], expected[0])


def test_few_groups_are_nearly_always_enough(many_lists):
    vectors, partitions = many_lists
    same = partitions.lists_near(vectors)[0] == partitions.lists_of(vectors)[0]
    assert 0.9 < same.mean() < 1


def test_blocks_and_pieces_change_nothing(many_lists, monkeypatch):
    vectors, _ = many_lists
    codes = np.packbits(vectors[:, :8] > 0, axis=1)
    whole = PartitionedIndex(1, n_lists=centroids.GROUPED_FROM, spill=0.1)
    whole.add(codes, vectors=vectors)
    whole.rebalance(vectors, n_lists=centroids.GROUPED_FROM)
    monkeypatch.setattr(arranged, "_PIECE", 1000)
    monkeypatch.setattr(centroids, "_GROUPED_BLOCK", 300)
    cut = PartitionedIndex(1, n_lists=centroids.GROUPED_FROM, spill=0.1)
    cut.add(codes, vectors=vectors)
    cut.rebalance(vectors, n_lists=centroids.GROUPED_FROM)
    for name in ("blocks", "ranks", "starts", "counts"):
        np.testing.assert_array_equal(getattr(whole.held, name), getattr(cut.held, name))


def test_without_groups_rows_are_compared_with_all_lists(many_lists):
    vectors, partitions = many_lists
    bare = partitions._replace(
        group_centroids=partitions.group_centroids[:0], group_starts=partitions.group_starts[:1]
    )
    np.testing.assert_array_equal(bare.lists_near(vectors)[0], bare.lists_of(vectors)[0])


def test_threads_together_hold_a_bounded_part_of_the_vectors(many_lists, monkeypatch):
    vectors, partitions = many_lists
    codes, asked = np.packbits(vectors[:, :8] > 0, axis=1), []

    class Places:
        shape = vectors.shape

        def __getitem__(self, rows):
            asked.append(rows.stop - rows.start)
            return vectors[rows]

    monkeypatch.setattr(arranged, "available_cores", lambda: 4)
    monkeypatch.setattr(arranged, "_NUMBERS", 4 * 12 * 100)
    arranged.arrange_all(codes, None, Places(), partitions, RowIds(len(codes)), len(codes))
    assert set(asked) == {100}
