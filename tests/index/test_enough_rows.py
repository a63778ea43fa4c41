"""Searches for a recall that must look further than was measured, and lists that are checked."""

from __future__ import annotations

import faulthandler
from dataclasses import replace

import numpy as np
import pytest

from sghash import SGH, Collection
from sghash.index import PartitionedIndex
from sghash.index.lists.curve import Curve, Point
from sghash.index.lists.file import check_copies
from sghash.kernels.partitions.layout import count_ranks
from sghash.kernels.reference import vector_distances

N_CLUSTERS, EACH, WIDTH = 40, 150, 12
N = N_CLUSTERS * EACH


@pytest.fixture(scope="module")
def data():
    """Clusters far from each other, row by row; queries near rows of the first five."""
    rng = np.random.default_rng(3)
    centres = 6 * rng.standard_normal((N_CLUSTERS, WIDTH))
    rows = np.repeat(centres, EACH, axis=0) + rng.standard_normal((N, WIDTH))
    queries = np.repeat(centres[:5], 4, axis=0) + rng.standard_normal((20, WIDTH))
    vectors = rows.astype(np.float32)
    return vectors, queries.astype(np.float32), SGH(32, random_state=0).fit(vectors)


@pytest.fixture(params=[0.0, 0.3], ids=["once", "spilled"])
def index(data, request):
    """As measured for ten neighbours: five lists of forty, those within a part of the way."""
    vectors, _, model = data
    made = PartitionedIndex.for_model(model, n_lists=N_CLUSTERS, spill=request.param)
    made.add(model.encode(vectors), vectors=vectors)
    made.curve = Curve([Point(5, 0.8, 100, 0.96, 0.0, 1.0)], 10)
    return made


def found_share(found, truth):
    return np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, truth, strict=True)])


def truth_of(vectors, queries, k, allowed=None):
    apart = vector_distances(vectors, queries, "l2")
    if allowed is not None:
        apart[:, ~allowed] = np.inf
    return np.argsort(apart, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("k", [10, 60, 700, N])
def test_many_neighbours_are_all_there(data, index, k):
    vectors, queries, _ = data
    for _ in range(2):  # the second time by the way that was gone before
        found = index.search(queries, k, kept=vectors, target_recall=0.9)
        assert (found.ids >= 0).all()
        assert found_share(found.ids, truth_of(vectors, queries, k)) > 0.9


@pytest.mark.parametrize("n_forbidden", [6, 30, 38])
def test_rows_far_away_are_found_where_only_they_are_allowed(data, index, n_forbidden):
    vectors, queries, _ = data
    allowed = np.repeat(np.arange(N_CLUSTERS) >= n_forbidden, EACH)
    found = index.search(queries, 10, kept=vectors, target_recall=0.9, mask=allowed)
    assert (found.ids >= 0).all() and allowed[found.ids].all()
    assert found_share(found.ids, truth_of(vectors, queries, 10, allowed)) > 0.7


def test_more_than_are_allowed_are_padded(data, index):
    vectors, queries, _ = data
    allowed = np.zeros(N, dtype=np.bool_)
    allowed[[7, N - 1]] = True
    found = index.search(queries, 5, kept=vectors, target_recall=0.9, mask=allowed)
    assert (np.sort(found.ids[:, :2]) == [7, N - 1]).all() and (found.ids[:, 2:] == -1).all()


def test_lists_that_the_caller_chose_stay_as_they_are(data, index):
    vectors, queries, _ = data
    told = index.explain(queries[0], 700, kept=vectors, probes=2, shortlist=700)
    assert told.lists_visited == 2
    told = index.explain(queries[0], 10, kept=vectors, target_recall=0.9)
    assert told.lists_visited <= 5


def test_a_collection_answers_large_k_and_distant_conditions(data, tmp_path, monkeypatch):
    vectors, queries, model = data
    monkeypatch.setattr("sghash.collection.lists.targets.FEW_ROWS", 100)
    cluster = np.repeat(np.arange(N_CLUSTERS), EACH)
    options = {"keep_vectors": "float16", "partitions": N_CLUSTERS}
    with Collection.create(tmp_path / "made", model, **options) as made:
        made.add(vectors, metadata={"cluster": cluster})
        made.compact()
        monkeypatch.setattr("sghash.collection.lists.stored._MANY_BYTES", 0)
        assert (made.search(queries, 3000, target_recall=0.9).ids >= 0).all()
        found = made.search(queries, 10, target_recall=0.9, where="cluster >= 30")
        truth = truth_of(vectors, queries, 10, cluster >= 30)
        assert found_share(found.ids, truth) > 0.8
        near = np.flatnonzero(cluster < 10)
        made.delete(near)
        found = made.search(queries, 10, target_recall=0.9)
        truth = truth_of(vectors, queries, 10, cluster >= 10)
        assert (found.ids >= 0).all() and found_share(found.ids, truth) > 0.8


def test_rows_that_are_nearer_come_before_those_that_tie():
    """The first list has many rows at one distance, the second few that are nearer."""
    codes = np.zeros((4000, 2), dtype=np.uint8)
    codes[:, 0] = 7  # three bits from the query
    vectors = np.zeros((4000, 2), dtype=np.float32)
    vectors[:, 0] = 1
    codes[3970:] = 0
    vectors[3970:] = 0, 1
    index = PartitionedIndex(2, n_lists=2)
    index.add(codes, vectors=vectors)
    query, asked = np.zeros((1, 2), dtype=np.uint8), np.asarray([[0, 1]], dtype=np.float32)
    found = index.search(query, 20, vectors=asked, kept=vectors, shortlist=40)
    assert (found.ids[0] == np.arange(3970, 3990)).all()


def test_an_outlier_of_few_rows_is_no_end(data):
    vectors, _, model = data
    far = np.full((3, WIDTH), 300, dtype=np.float32) + np.arange(3, dtype=np.float32)[:, None]
    rows = np.concatenate([vectors, far])
    made = PartitionedIndex.for_model(model, n_lists=N_CLUSTERS)
    made.add(model.encode(rows), vectors=rows)
    made.curve = Curve([Point(8, 0.5, 60, 0.96, 0.0, 1.0)], 10)
    for _ in range(2):
        found = made.search(far[:1], 10, kept=rows, target_recall=0.9)
        assert (found.ids >= 0).all() and set(found.ids[0][:3]) == {N, N + 1, N + 2}


@pytest.mark.parametrize("k", [10, 100])
@pytest.mark.parametrize("masked", [False, True])
def test_queries_beyond_all_numbers_end(data, index, k, masked):
    """Scores overflow: no list is nearer than another."""
    vectors, _, _ = data
    queries = np.full((3, WIDTH), 1e38, dtype=np.float32)
    queries[1] *= -1
    queries[2, ::2] *= -1
    allowed = np.arange(N) % 7 == 0 if masked else None
    faulthandler.dump_traceback_later(120, exit=True)  # a loop of the kernel hears nothing else
    try:
        index.search(queries, k, kept=vectors, target_recall=0.9, mask=allowed)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_lists_in_groups_are_visited_until_enough(share):
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((9000, 6)).astype(np.float32)
    queries = rng.standard_normal((20, 6)).astype(np.float32)
    model = SGH(32, random_state=0).fit(vectors)
    made = PartitionedIndex.for_model(model, n_lists=700)
    made.add(model.encode(vectors), vectors=vectors)
    assert len(made.partitions.group_centroids)
    made.curve = Curve([Point(30, 0.7, 200, 0.96, 0.0, 1.0)], 10)
    allowed = rng.random(9000) < share
    found = made.search(queries, 60, kept=vectors, target_recall=0.9, mask=allowed)
    assert (found.ids >= 0).all() and allowed[found.ids].all()
    assert found_share(found.ids, truth_of(vectors, queries, 60, allowed)) > 0.9
    told = made.explain(queries[0], 60, kept=vectors, target_recall=0.9, mask=allowed)
    assert 2 < told.lists_visited < 700


@pytest.mark.parametrize("piece", [1, 64, 1 << 20])
@pytest.mark.parametrize("spill", [0.0, 0.3])
def test_lists_are_checked_in_pieces(data, piece, spill, monkeypatch):
    vectors, _, model = data
    monkeypatch.setattr("sghash.index.lists.file._PIECE", piece)
    made = PartitionedIndex.for_model(model, n_lists=N_CLUSTERS, spill=spill)
    made.add(model.encode(vectors), vectors=vectors)
    held, tables = made.held, made.rules.own_tables()
    check_copies(held, tables)
    seen = np.zeros(N, dtype=np.uint8)
    assert count_ranks(held.ranks, held.starts, held.counts, seen)
    assert (seen >= 1).all() and (seen.max() == 2) == (spill > 0)
    assert not count_ranks(held.ranks, held.starts, held.counts, np.zeros(N - 1, np.uint8))
    twice = np.flatnonzero(np.bincount(held.ranks[held.used()[0]], minlength=N) == 2)
    row = int(twice[-1]) if spill else N // 2
    slot = int(held.slots_of_rows()[row])
    blocks, terms = held.blocks.copy(), held.terms.copy()
    blocks[slot >> 6, 0, slot & 63] ^= 255
    with pytest.raises(ValueError, match="two codes" if spill else "not those of its codes"):
        check_copies(replace(held, blocks=blocks), tables)
    terms[slot] += 1
    with pytest.raises(ValueError, match="not those of its codes"):
        check_copies(replace(held, terms=terms), tables)
