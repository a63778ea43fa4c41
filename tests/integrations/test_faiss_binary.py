"""Our indexes behave as FAISS's binary ones do where these are put in the same place."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from sghash import BadFile, InvalidInput, merge_neighbors
from sghash.neighbors import Neighbors

faiss = pytest.importorskip("faiss")
NOTHING = np.iinfo(np.int32).max


def load():
    path = Path(__file__).parents[2] / "integrations" / "faiss_binary.py"
    spec = importlib.util.spec_from_file_location("faiss_binary", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ours = load()
#: The same cases on both: a case that FAISS fails is a wrong case.
SIDES = pytest.mark.parametrize("side", [ours, faiss], ids=["ours", "faiss"])


def codes_of(seed, n, d):
    return np.random.default_rng(seed).integers(0, 256, (n, d // 8), dtype=np.uint8)


def all_distances(base, queries):
    return np.bitwise_count(queries[:, None] ^ base[None]).sum(axis=2, dtype=np.int64)


def flat(side, base):
    index = side.IndexBinaryFlat(8 * base.shape[1])
    index.add(base)
    return index


def with_ids(side, base, ids):
    if side is ours:
        index = ours.IndexBinaryIDMap(8 * base.shape[1])
    else:
        index = faiss.IndexBinaryIDMap2(faiss.IndexBinaryFlat(8 * base.shape[1]))
    index.add_with_ids(base, ids)
    return index


@SIDES
@pytest.mark.parametrize(
    "d", [8, 64, 128, *(pytest.param(d, marks=pytest.mark.slow) for d in (24, 32, 136, 256, 1024))]
)
@pytest.mark.parametrize("k", [1, 7, 200])
def test_flat_search_is_brute_force(side, d, k):
    base, queries = codes_of(1, 300, d), codes_of(2, 11, d)
    distances, ids = flat(side, base).search(queries, k)
    right = all_distances(base, queries)
    np.testing.assert_array_equal(distances, np.sort(right, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(right, ids, axis=1), distances)
    assert all(len(set(row)) == k for row in ids)


@pytest.mark.parametrize("d", [8, 64])
def test_ties_go_by_id(d):
    base, queries = np.repeat(codes_of(1, 40, d), 5, axis=0), codes_of(2, 9, d)
    right = all_distances(base, queries)
    np.testing.assert_array_equal(
        flat(ours, base).search(queries, 60)[1], np.argsort(right, axis=1, kind="stable")[:, :60]
    )


@SIDES
def test_assign_is_search_without_distances(side):
    index, queries = flat(side, codes_of(1, 90, 32)), codes_of(2, 5, 32)
    np.testing.assert_array_equal(index.assign(queries, 4), index.search(queries, 4)[1])


@SIDES
def test_more_neighbours_than_rows_and_none_at_all(side):
    distances, ids = flat(side, codes_of(1, 3, 32)).search(codes_of(2, 4, 32), 6)
    assert (ids[:, 3:] == -1).all() and (distances[:, 3:] == NOTHING).all()
    assert (np.sort(ids[:, :3], axis=1) == np.arange(3)).all()
    distances, ids = side.IndexBinaryFlat(32).search(codes_of(2, 4, 32), 6)
    assert ids.shape == (4, 6) and (ids == -1).all() and (distances == NOTHING).all()


@SIDES
def test_no_queries_have_no_answers(side):
    index = flat(side, codes_of(1, 20, 32))
    distances, ids = index.search(np.empty((0, 4), dtype=np.uint8), 5)
    assert distances.shape == ids.shape == (0, 5)
    limits, distances, ids = index.range_search(np.empty((0, 4), dtype=np.uint8), 5)
    assert limits.tolist() == [0] and len(distances) == len(ids) == 0


@SIDES
def test_no_rows_may_be_added(side):
    index = flat(side, codes_of(1, 20, 32))
    index.add(np.empty((0, 4), dtype=np.uint8))
    assert index.ntotal == 20


@SIDES
@pytest.mark.parametrize("radius", [0, 1, 9, 12, 33])
def test_a_radius_is_exclusive(side, radius):
    base, queries = codes_of(1, 400, 32), codes_of(2, 13, 32)
    queries[0] = base[7]
    limits, distances, ids = flat(side, base).range_search(queries, radius)
    right = all_distances(base, queries)
    assert len(limits) == 14 and limits[0] == 0 and limits[-1] == len(ids) == len(distances)
    for i, row in enumerate(right):
        part = slice(int(limits[i]), int(limits[i + 1]))
        np.testing.assert_array_equal(np.sort(ids[part]), np.flatnonzero(row < radius))
        np.testing.assert_array_equal(row[ids[part]], distances[part])


@SIDES
def test_rows_come_back_as_they_were(side):
    base = codes_of(1, 60, 64)
    index = flat(side, base)
    assert (index.d, index.code_size, index.ntotal, index.is_trained) == (64, 8, 60, True)
    np.testing.assert_array_equal(index.reconstruct(41), base[41])
    np.testing.assert_array_equal(index.reconstruct_n(5, 20), base[5:25])
    np.testing.assert_array_equal(index.reconstruct_n(0, 60), base)


def test_a_row_that_is_not_there_is_refused():
    """FAISS 1.15 gives whatever lies in memory there."""
    index = flat(ours, codes_of(1, 5, 64))
    for key in (5, -1):
        with pytest.raises(InvalidInput):
            index.reconstruct(key)


@SIDES
def test_removed_rows_of_a_flat_index_leave_no_gap(side):
    base = codes_of(1, 50, 32)
    index = flat(side, base)
    assert index.remove_ids(np.array([3, 7, 49, 1000])) == 3
    left = np.delete(base, [3, 7, 49], axis=0)
    assert index.ntotal == 47
    np.testing.assert_array_equal(index.reconstruct_n(0, 47), left)
    distances, ids = index.search(left[20:21], 1)
    assert distances[0, 0] == 0 and (left[ids[0, 0]] == left[20]).all()
    index.add(base[:1])
    np.testing.assert_array_equal(index.reconstruct(47), base[0])


@SIDES
def test_given_ids_stay_when_others_go(side):
    base = codes_of(1, 80, 64)
    ids = np.random.default_rng(5).permutation(10**12 + np.arange(80) * 17)
    index = with_ids(side, base, ids)
    distances, found = index.search(base, 1)
    assert (distances == 0).all() and (found[:, 0] == ids).all()
    np.testing.assert_array_equal(index.reconstruct(int(ids[33])), base[33])
    assert index.remove_ids(np.array([ids[0], ids[33], 4])) == 2
    assert index.ntotal == 78
    with pytest.raises((InvalidInput, RuntimeError)):
        index.reconstruct(int(ids[33]))
    distances, found = index.search(base[[33, 34]], 1)
    assert distances[0, 0] > 0 and found[1, 0] == ids[34]


def test_an_index_of_given_ids_takes_no_rows_without():
    index = with_ids(ours, codes_of(1, 4, 32), np.arange(4))
    with pytest.raises(InvalidInput, match="add_with_ids"):
        index.add(codes_of(2, 1, 32))
    with pytest.raises(InvalidInput):  # FAISS would have the id twice
        index.add_with_ids(codes_of(2, 1, 32), np.array([2]))
    assert index.ntotal == 4


def test_merged_rows_stand_behind_ours():
    """FAISS 1.15 has the call, and says that it is not there yet for flat codes."""
    base, queries = codes_of(1, 90, 32), codes_of(2, 6, 32)
    whole, first, second = flat(ours, base), flat(ours, base[:50]), flat(ours, base[50:])
    first.merge_from(second)
    assert (first.ntotal, second.ntotal) == (90, 0)
    np.testing.assert_array_equal(first.reconstruct_n(0, 90), base)
    np.testing.assert_array_equal(first.search(queries, 9)[0], whole.search(queries, 9)[0])


def test_indexes_that_do_not_fit_are_not_merged():
    first, second = flat(ours, codes_of(1, 5, 32)), flat(ours, codes_of(1, 5, 64))
    with pytest.raises(InvalidInput, match="64 bits does not fit"):
        first.merge_from(second)
    assert (first.ntotal, second.ntotal) == (5, 5)


def test_an_index_is_not_merged_with_itself():
    index = flat(ours, codes_of(1, 5, 32))
    with pytest.raises(InvalidInput, match="itself"):
        index.merge_from(index)
    assert index.ntotal == 5


def test_merged_ids_are_shifted():
    base = codes_of(1, 20, 32)
    first, second = (
        with_ids(ours, base[half], np.arange(10)) for half in (slice(10), slice(10, 20))
    )
    with pytest.raises(InvalidInput):  # the same ids
        first.merge_from(second)
    assert (first.ntotal, second.ntotal) == (10, 10)
    first.merge_from(second, 10)
    assert (first.search(base, 1)[1][:, 0] == np.arange(20)).all() and second.ntotal == 0


@SIDES
def test_an_index_can_be_emptied(side):
    index = flat(side, codes_of(1, 20, 32))
    index.reset()
    assert index.ntotal == 0
    index.add(codes_of(3, 2, 32))
    assert index.search(codes_of(3, 2, 32), 1)[1].tolist() == [[0], [1]]


@SIDES
@pytest.mark.parametrize("gaps", [False, True])
def test_files(side, gaps, tmp_path):
    base, queries = codes_of(1, 70, 128), codes_of(2, 5, 128)
    index = with_ids(side, base, 10 + 3 * np.arange(70)) if gaps else flat(side, base)
    path = str(tmp_path / "index")
    side.write_index_binary(index, path)
    again = side.read_index_binary(path)
    assert (again.d, again.ntotal) == (128, 70)
    for before, after in zip(index.search(queries, 8), again.search(queries, 8), strict=True):
        np.testing.assert_array_equal(before, after)
    again.remove_ids(np.array([10]))
    assert (again.ntotal, index.ntotal) == (69, 70)


@SIDES
def test_a_file_that_was_cut_is_refused(side, tmp_path):
    path = tmp_path / "index"
    side.write_index_binary(flat(side, codes_of(1, 70, 128)), str(path))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises((BadFile, RuntimeError)):
        side.read_index_binary(str(path))


@SIDES
def test_codes_of_another_length_are_refused(side):
    index = flat(side, codes_of(1, 10, 32))
    for wrong in (codes_of(1, 2, 40), codes_of(1, 2, 24)):
        for call in (index.add, lambda x: index.search(x, 3), lambda x: index.range_search(x, 3)):
            with pytest.raises((InvalidInput, AssertionError)):
                call(wrong)
    assert index.ntotal == 10
    with pytest.raises((InvalidInput, RuntimeError)):
        side.IndexBinaryFlat(30)


@SIDES
def test_answers_of_parts_are_the_answer_of_the_whole(side):
    base, queries = codes_of(1, 200, 32), codes_of(2, 20, 32)
    right, _ = flat(side, base).search(queries, 10)
    if side is ours:
        parts = [flat(ours, base[i::4]).search(queries, 10) for i in range(4)]
        found = merge_neighbors([Neighbors(d, i * 4 + n) for n, (d, i) in enumerate(parts)], 10)
        distances, ids = found.distances, found.ids
        np.testing.assert_array_equal(ids, flat(ours, base).search(queries, 10)[1])
    else:
        shards = faiss.IndexBinaryShards(32)
        kept = [flat(faiss, base[i * 50 : (i + 1) * 50]) for i in range(4)]
        for part in kept:
            shards.add_shard(part)
        distances, _ = shards.search(queries, 10)
    np.testing.assert_array_equal(distances, right)


def lists(base, nlist):
    index = ours.IndexBinaryIVF(32, nlist)
    index.train(base)
    index.add(base)
    return index


@pytest.mark.parametrize("nprobe", [8, 2048])
def test_all_lists_are_the_flat_answer(nprobe):
    base, queries = codes_of(1, 500, 32), codes_of(2, 40, 32)
    index = lists(base, 8)
    index.nprobe = nprobe
    right, ids = flat(ours, base).search(queries, 10)
    np.testing.assert_array_equal(index.search(queries, 10)[0], right)
    np.testing.assert_array_equal(index.search(queries, 10)[1], ids)
    np.testing.assert_array_equal(index.reconstruct(123), base[123])


def test_some_lists_find_most_and_never_a_wrong_distance():
    base, queries = codes_of(1, 1500, 32), codes_of(2, 100, 32)
    index = lists(base, 8)
    right = all_distances(base, queries)
    shares = []
    for index.nprobe in (1, 4, 8):
        distances, ids = index.search(queries, 10)
        np.testing.assert_array_equal(np.take_along_axis(right, ids, axis=1), distances)
        shares.append((distances == np.sort(right, axis=1)[:, :10]).mean())
    assert shares == sorted(shares) and shares[1] > 0.75 and shares[2] == 1


def test_empty_lists():
    distances, ids = ours.IndexBinaryIVF(32, 8).search(codes_of(2, 3, 32), 5)
    assert (ids == -1).all() and (distances == NOTHING).all()
