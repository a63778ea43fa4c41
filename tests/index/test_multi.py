"""Codes looked up by parts of their bits: the same answers as by definition, whichever the way."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sghash import HammingIndex
from sghash.bits import pack_bits
from sghash.errors import InvalidDtype, InvalidInput
from sghash.index import MultiIndex, load_index, multi
from sghash.index.costs import Costs, build_cost
from sghash.index.multi import joined
from sghash.kernels import reference
from sghash.kernels.multi.layout import build_tables, default_parts, share_out, table_bytes


def clustered(rng, n, n_bits, n_centers=4, share=0.1):
    """Codes around few centers, so that there are duplicates, ties and crowded keys."""
    centers = rng.random((n_centers, n_bits)) < 0.5
    return pack_bits(centers[rng.integers(n_centers, size=n)] ^ (rng.random((n, n_bits)) < share))


def same_nearest(index, queries, k, mask=None, threads=1):
    found = index.search(queries, k, mask=mask, threads=threads, way="tables")
    right = reference.hamming_neighbors(index.codes, queries, k, n_bits=index.n_bits, mask=mask)
    ids = np.where(right.ids < 0, -1, index.ids[right.ids]) if len(index) else right.ids
    np.testing.assert_array_equal(found.distances, right.distances)
    np.testing.assert_array_equal(found.ids, ids)
    assert found.distances.dtype == np.int32 and found.ids.dtype == np.int64


def same_within(index, queries, radius, mask=None, way="tables"):
    found = index.range_search(queries, radius, mask=mask, threads=1, way=way)
    n_bits = index.n_bits
    right = reference.hamming_range(index.codes, queries, radius, n_bits=n_bits, mask=mask)
    np.testing.assert_array_equal(found.limits, right.limits)
    np.testing.assert_array_equal(found.distances, right.distances)
    np.testing.assert_array_equal(found.ids, index.ids[right.ids])


def all_pairs(index, radius):
    """Pairs by definition: every code beside every later one."""
    codes, ids = index.codes, index.ids
    distances = np.bitwise_count(codes[:, None] ^ codes[None]).sum(axis=2)
    a, b = np.nonzero(np.triu(distances <= radius, 1))
    return np.stack([ids[a], ids[b], distances[a, b]], axis=1)


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data())
def test_any_rows_changes_masks_and_radii(data):
    n_bits, n = data.draw(st.integers(8, 256)), data.draw(st.integers(1, 300))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    # Keys of up to 9 bits: to look all of them up is what the largest radius asks for.
    parts = data.draw(st.integers(1, min(n_bits, 12)))
    index = MultiIndex(n_bits, n_parts=parts)
    codes = clustered(rng, n, n_bits, share=data.draw(st.sampled_from([0.0, 0.05, 0.3])))
    ids = rng.permutation(3 * n)[:n]
    half = n // 2
    index.add(codes[:half], ids=ids[:half])
    same_nearest(index, codes[:2], 3)  # the tables are those of this moment
    rest = np.sort(ids[half:]) + data.draw(st.sampled_from([0, 3 * n]))  # among the others, behind
    index.add(codes[half:], ids=rest)
    gone = rng.random(len(index)) < data.draw(st.sampled_from([0.0, 0.1]))
    index.delete(index.ids[gone])
    mask = rng.random(len(index)) < 0.5 if data.draw(st.booleans()) else None
    queries = np.concatenate([codes[:2], clustered(rng, 2, n_bits)])
    radius = data.draw(st.sampled_from([0, 1, 2, 5, n_bits // 4, n_bits, n_bits + 1]))
    if len(index):
        same_nearest(index, queries, data.draw(st.sampled_from([1, 10, n, n + 3])), mask)
        same_within(index, queries, radius, mask)
        np.testing.assert_array_equal(
            index.similarity_join(min(radius, 20), threads=1, way="tables"),
            all_pairs(index, min(radius, 20)),
        )


@pytest.mark.parametrize(
    "n_bits", [32, 64, 77, *(pytest.param(n, marks=pytest.mark.slow) for n in (16, 128, 200))]
)
def test_the_three_ways_agree(n_bits, rng):
    index, queries = MultiIndex(n_bits), clustered(rng, 20, n_bits)
    index.add(clustered(rng, 3000, n_bits))
    for k in (1, 10):
        found = [index.search(queries, k, way=way) for way in multi.WAYS]
        for other in found[1:]:
            np.testing.assert_array_equal(found[0].ids, other.ids)
            np.testing.assert_array_equal(found[0].distances, other.distances)
    for radius in (0, 3, 6):
        for way in multi.WAYS:
            same_within(index, queries, radius, way=way)
        pairs = [index.similarity_join(radius, way=way) for way in multi.WAYS]
        np.testing.assert_array_equal(pairs[0], pairs[1])
        np.testing.assert_array_equal(pairs[0], pairs[2])


def test_queries_too_dear_for_tables_are_scanned(rng, monkeypatch):
    """Some of the queries of a call give up, the others do not; all are answered."""
    monkeypatch.setattr(multi, "LEAST_ROWS", 1)
    monkeypatch.setattr(multi, "LEAST_NEAREST", 1)
    index = MultiIndex(64, n_parts=3)
    near, far = clustered(rng, 4000, 64, share=0.01), pack_bits(rng.random((30, 64)) < 0.5)
    index.add(near)
    index.build()
    index.costs = Costs(60.0, 60.0, 60.0, 60.0)
    queries = np.concatenate([near[:5], far, near[5:9]])
    for budget, ways in ((0.5, {"tables", "tables, then scan"}), (1e9, {"tables"}), (0, None)):
        monkeypatch.setattr(multi, "_BUDGET", budget)
        right = index.search(queries, 10, way="scan")
        found = index.search(queries, 10)
        np.testing.assert_array_equal(found.ids, right.ids)
        np.testing.assert_array_equal(found.distances, right.distances)
        for radius in (0, 4, 9):
            same_within(index, queries, radius, way="auto")
        if ways is not None:
            assert {index.explain(query, 10).way for query in queries} == ways


def test_many_queries_too_dear_for_tables_are_scanned_together(rng, monkeypatch):
    monkeypatch.setattr(multi, "LEAST_ROWS", 1)
    monkeypatch.setattr(multi, "LEAST_NEAREST", 1)
    index = MultiIndex(64, n_parts=3)
    index.add(clustered(rng, 4000, 64, share=0.01))
    index.build()
    for queries in (pack_bits(rng.random((70, 64)) < 0.5), index.codes[:70]):
        right = index.search(queries, 10, way="scan")
        for price in (1e-3, 0.1, 1e6):  # nobody may look, some, everybody
            index.costs = Costs(nearest_among=price)
            found = index.search(queries, 10)
            np.testing.assert_array_equal(found.ids, right.ids)
            np.testing.assert_array_equal(found.distances, right.distances)


def test_tables_of_a_very_large_k_are_looked_up_too(rng, monkeypatch):
    monkeypatch.setattr(multi, "LEAST_NEAREST", 1)
    index = MultiIndex(16)
    index.add(clustered(rng, 6000, 16))
    query = index.codes[:1]
    assert index.explain(query, 5000).way == "scan"
    told = index.explain(query, 5000, way="tables")
    assert told.way == "tables" and told.keys > 0
    same_nearest(index, query, 5000)


def test_costs_are_measured_when_tables_are_built(rng):
    index = MultiIndex(64)
    index.add(clustered(rng, 5000, 64))
    assert not index.is_built and index.costs == Costs()
    index.build()
    assert index.is_built and index.costs != Costs()
    by_radius = index.costs.by_radius
    assert len(by_radius) <= 65 and list(by_radius) == sorted(by_radius)
    assert index.expected(65)[0] == np.inf and index.expected(0)[0] == by_radius[0] > 0
    for n, n_bits in ((1, 8), (5000, 64), (100, 300)):
        built = build_tables(clustered(rng, n, n_bits), n_bits, default_parts(n, n_bits))
        assert built.nbytes <= table_bytes(n, n_bits) < 1.5 * built.nbytes + 4000
    assert build_cost(10**6, 64, None) > 100 * build_cost(10**4, 64, None) / 4


def test_duplicates_only(rng):
    index = MultiIndex(40, n_parts=3)
    index.add(np.repeat(clustered(rng, 1, 40), 700, axis=0))
    same_nearest(index, index.codes[:1], 30)
    same_nearest(index, index.codes[:1] ^ np.uint8(255), 800)
    same_within(index, index.codes[:1], 0)
    pairs = index.similarity_join(0, way="tables")
    assert len(pairs) == 700 * 699 // 2 > 1 << 16  # more than a buffer holds
    np.testing.assert_array_equal(pairs, all_pairs(index, 0))


def test_rows_that_come_and_go_leave_the_tables_until_they_are_many(rng):
    index = MultiIndex(32, n_parts=2)
    index.add(clustered(rng, 20_000, 32))
    index.build()
    tables = index._held.tables
    index.add(clustered(rng, 4000, 32))
    index.delete(np.arange(0, 6000, 2))
    index.add(clustered(rng, 50, 32))
    index.delete([20_007, 24_001])
    queries = clustered(rng, 5, 32)
    same_nearest(index, queries, 20)
    assert index._held.tables is tables
    same_nearest(index, queries, 20, mask=rng.random(len(index)) < 0.01)
    same_within(index, queries, 2)
    index.delete(index.ids[:4000])
    same_nearest(index, queries, 20)
    assert index._held.tables is not tables
    tables = index._held.tables
    index.add(clustered(rng, 5000, 32))
    same_nearest(index, queries, 20)
    assert index._held.tables is not tables


def test_a_row_among_the_others_needs_new_tables(rng):
    index = MultiIndex(24)
    index.add(clustered(rng, 300, 24), ids=np.arange(300) * 2)
    index.build()
    index.add(index.codes[:1], ids=[301])
    same_nearest(index, index.codes[:3], 12)


@pytest.mark.parametrize("mmap", [False, True])
def test_files_hold_codes_and_options(mmap, tmp_path, rng):
    index = MultiIndex(77, n_parts=4)
    index.add(clustered(rng, 500, 77), ids=rng.permutation(900)[:500])
    index.build()
    index.save(tmp_path / "index")
    assert (tmp_path / "index").stat().st_size < 500 * (10 + 8) + 2000
    again = load_index(tmp_path / "index", mmap=mmap)
    assert isinstance(again, MultiIndex) and again.n_parts == 4
    same_nearest(again, index.codes[:4], 9)
    same_within(again, index.codes[:4], 7)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda i: pickle.loads(pickle.dumps(i))])
def test_copies_build_tables_of_their_own(clone, rng):
    index = MultiIndex(32)
    index.add(clustered(rng, 400, 32))
    index.build()
    other = clone(index)
    assert other.nbytes < index.nbytes
    index.delete(np.arange(100))
    same_nearest(other, other.codes[:3], 5)
    same_nearest(index, other.codes[:3], 5)


def test_searches_beside_changes_see_one_moment(rng):
    index, codes = MultiIndex(32), clustered(rng, 6000, 32)
    index.add(codes[:2000])

    def look(number):
        found = index.search(codes[number : number + 1], 5, threads=1, way="tables")
        return found.distances[0, 0] == 0 and (found.ids >= 0).all()

    def change(number):
        index.add(codes[2000 + 40 * number : 2040 + 40 * number])
        index.delete(index.ids[-20:])

    with ThreadPoolExecutor(3) as pool:
        changes = [pool.submit(change, number) for number in range(60)]
        assert all(pool.map(look, range(200)))
        for done in changes:
            done.result()
    same_nearest(index, codes[:5], 10)


def test_explain_says_the_way_and_what_was_visited(rng):
    index = MultiIndex(64)
    index.add(clustered(rng, 2000, 64))
    query = index.codes[7]
    assert index.explain(query).way == "scan"  # so few rows have no tables
    lookup = index.explain(query, 5, way="tables")
    assert lookup.way == "tables" and lookup.neighbors.ids.shape == (1, 5)
    assert 0 < lookup.compared <= lookup.entries and lookup.n_rows == 2000
    for word in ("way: tables", "keys looked up", "rows met", "a scan is expected"):
        assert word in str(lookup)
    within = index.explain(query, radius=2, way="tables")
    right = index.range_search(query, 2)
    np.testing.assert_array_equal(within.neighbors.ids, right.ids)


@pytest.mark.parametrize("way", multi.WAYS)
def test_joined_codes(way, rng):
    codes = clustered(rng, 300, 16)
    index = HammingIndex(16)
    index.add(codes)
    np.testing.assert_array_equal(joined(codes, 2, way=way), all_pairs(index, 2))
    assert joined(codes[:0], 2, way=way).shape == (0, 3)
    assert joined(codes[:1], 2, way=way).shape == (0, 3)


def test_parts_share_out_all_bits_and_keep_those_alike_apart(rng):
    bits = np.repeat(rng.random((2000, 16)) < 0.5, 2, axis=1)  # bits 2i and 2i + 1 are the same
    parts = share_out(pack_bits(bits), 32, 2)
    assert sorted(np.concatenate(parts).tolist()) == list(range(32))
    for part in parts:
        assert len(set((part // 2).tolist())) == 16
    assert [default_parts(n, 64) for n in (10**6, 10**7, 10**8)] == [3, 3, 2]


def test_keys_are_no_longer_than_rows_can_fill(rng):
    tables = build_tables(clustered(rng, 100, 64), 64, 2)
    assert tables.key_bits.tolist() == [7, 7]
    assert tables.starts.nbytes == 2 * 4 * 129


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda i: MultiIndex(8, n_parts=9), InvalidInput, "a part needs a bit"),
        (lambda i: MultiIndex(8, n_parts=0), InvalidInput, "n_parts"),
        (lambda i: MultiIndex(8, n_parts=1.5), InvalidDtype, "n_parts"),
        (lambda i: i.search(i.codes, way="fast"), InvalidInput, "way"),
        (lambda i: i.range_search(i.codes, -1), InvalidInput, "negative"),
        (lambda i: i.range_search(i.codes, 1.5), InvalidDtype, "radius"),
        (lambda i: i.range_search(i.codes, 1, mask=[True]), InvalidInput, "mask"),
        (lambda i: i.similarity_join(-1), InvalidInput, "negative"),
        (lambda i: i.similarity_join(1, way="x"), InvalidInput, "way"),
        (lambda i: i.similarity_join(1, threads=0), InvalidInput, "threads"),
        (lambda i: i.explain(i.codes), InvalidInput, "one query"),
        (lambda i: joined(np.zeros((3, 2)), 1), InvalidDtype, "packed uint8"),
        (lambda i: joined(np.zeros((3, 2), np.uint8), 1, n_bits=20), InvalidInput, "20-bit"),
    ],
)
def test_bad_input_gets_a_sentence(call, error, sentence):
    index = MultiIndex(10)
    index.add(pack_bits(np.eye(3, 10)))
    with pytest.raises(error, match=sentence):
        call(index)
