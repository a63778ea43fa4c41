"""Rows within a radius and pairs, through tables of keys or without: the same answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sghash
from sghash import Collection, InvalidInput
from sghash.bits import pack_bits
from sghash.collection import looking_up, ranges
from sghash.collection.looking_up import SCAN, TABLES, LookUp
from sghash.collection.storage import writer
from sghash.index import costs, multi

WIDTH = 24


@pytest.fixture(scope="module")
def model():
    rows = np.random.default_rng(0).standard_normal((300, WIDTH)).astype(np.float32)
    return sghash.ITQ(n_bits=WIDTH, random_state=0).fit(rows)


def codes_near(rng, n):
    """Codes around few centers: duplicates, ties, crowded keys."""
    centers = rng.random((3, WIDTH)) < 0.5
    return pack_bits(centers[rng.integers(3, size=n)] ^ (rng.random((n, WIDTH)) < 0.08))


def right_rows(codes, ids, queries, radius, allowed):
    apart = np.bitwise_count(queries[:, None] ^ codes[None]).sum(axis=2, dtype=np.int64)
    found = []
    for distances in apart:
        near = np.flatnonzero((distances <= radius) & allowed)
        near = near[np.lexsort((ids[near], distances[near]))]
        found.append(np.stack([ids[near], distances[near]], axis=1))
    return found


def right_pairs(codes, ids, radius):
    order = np.argsort(ids)
    codes, ids = codes[order], ids[order]
    apart = np.bitwise_count(codes[:, None] ^ codes[None]).sum(axis=2, dtype=np.int64)
    a, b = np.nonzero(np.triu(apart <= radius, 1))
    return np.stack([ids[a], ids[b], apart[a, b]], axis=1)


@settings(max_examples=15)
@given(data=st.data())
def test_tables_and_scans_give_the_answers_by_definition(model, tmp_path_factory, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    sizes = data.draw(st.lists(st.integers(1, 120), min_size=1, max_size=3))
    radius = data.draw(st.sampled_from([0, 1, 2, 4, 9, WIDTH, WIDTH + 5]))
    n = sum(sizes)
    codes, ids = codes_near(rng, n), rng.permutation(3 * n)[:n]
    folder = tmp_path_factory.mktemp("c") / "c"
    with Collection.create(folder, model) as collection, pytest.MonkeyPatch.context() as patch:
        # Each piece is a segment of its own.
        patch.setattr(writer, "LOG_BYTES", 1)
        for stop, size in zip(np.cumsum(sizes), sizes, strict=True):
            here = slice(stop - size, stop)
            collection.add_codes(codes[here], ids[here], fingerprint=collection.fingerprint)
        gone = rng.random(n) < data.draw(st.sampled_from([0.0, 0.3, 1.0]))
        collection.delete(ids[gone])
        queries = np.concatenate([codes[:2], codes_near(rng, 2)])
        allowed = ~gone & (rng.random(n) < data.draw(st.sampled_from([0.5, 1.0])))
        right = right_rows(codes, ids, queries, radius, allowed)
        pairs = right_pairs(codes[~gone], ids[~gone], radius)
        for few in (10**9, 1):
            patch.setattr(looking_up, "LEAST_ROWS", few)
            patch.setattr(multi, "LEAST_ROWS", few)
            patch.setattr(looking_up, "build_cost", lambda *_: 0.0)
            patch.setattr(multi, "measured", lambda *_: costs.Costs(1e9, 1e9, 1e9, 1e9))
            views = collection._moment.state.views
            for view in views:
                look_up = view.rows.look_up(WIDTH)
                look_up.index.costs = costs.Costs(1e9, 1e9, 1e9, 1e9)
                assert not look_up.index.is_built
            found = ranges.hamming_within(
                views, [_mask(view, ids, allowed) for view in views], queries, radius, threads=1
            )
            for i, wanted in enumerate(right):
                near = slice(found.neighbors.limits[i], found.neighbors.limits[i + 1])
                np.testing.assert_array_equal(found.neighbors.ids[near], wanted[:, 0])
                np.testing.assert_array_equal(found.neighbors.distances[near], wanted[:, 1])
            np.testing.assert_array_equal(collection.similarity_join(radius, threads=1), pairs)
            if views:
                assert {choice.way for choice in found.choices} == {SCAN if few > 1 else TABLES}


def _mask(view, ids, allowed):
    return np.isin(view.rows.ids_at(slice(None)), ids[allowed])


def test_tables_are_built_once_searches_have_paid_for_them(rng, monkeypatch):
    monkeypatch.setattr(looking_up, "LEAST_ROWS", 100)
    monkeypatch.setattr(multi, "LEAST_ROWS", 100)
    look_up = LookUp(codes_near(rng, 5000), WIDTH)
    tables, scan = look_up.index.expected(0)
    monkeypatch.setattr(looking_up, "build_cost", lambda *_: 2.5 * (scan - tables))
    monkeypatch.setattr(multi, "measured", lambda *_: costs.Costs())
    ways = []
    for _ in range(5):
        choice = look_up.choose(0, 1, 1 << 30)
        ways.append(choice.way)
        if choice.way == TABLES:
            look_up.index.build()
        look_up.note(choice, 1 << 30)
    assert ways == [SCAN, SCAN, TABLES, TABLES, TABLES]
    assert look_up.nbytes > 8 * 5000
    # A radius that reaches everything is scanned, tables or not.
    assert look_up.choose(WIDTH, 1, 1 << 30).way == SCAN


def test_tables_that_do_not_fit_are_not_built(rng, monkeypatch):
    monkeypatch.setattr(looking_up, "LEAST_ROWS", 100)
    monkeypatch.setattr(looking_up, "build_cost", lambda *_: 0.0)
    look_up = LookUp(codes_near(rng, 5000), WIDTH)
    for room in (-1, 0, 8 * 5000):
        assert look_up.choose(0, 1, room).way == SCAN
        assert look_up.choose_for_pairs(0, room).way == SCAN
        look_up.note(look_up.choose(0, 1, room), room)
    assert look_up.nbytes == 0
    assert look_up.choose(0, 1, 1 << 20).way == TABLES


def test_explain_says_the_way_within_a_radius(model, tmp_path, rng, monkeypatch):
    vectors = rng.standard_normal((400, WIDTH)).astype(np.float32)
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(vectors, metadata={"n": list(range(400))})
        told = collection.explain(vectors[:1], radius=2)
        assert [visit.way for visit in told.visits] == [SCAN]
        right = collection.range_search(vectors[:1], 2)
        np.testing.assert_array_equal(told.neighbors.ids, right.ids)
        assert "all codes" in str(told) and "expected of a scan" in str(told)
        some = collection.explain(vectors[0], radius=WIDTH, where="n < 10")
        assert some.neighbors.ids.max() < 10
        for module in (looking_up, multi):
            monkeypatch.setattr(module, "LEAST_ROWS", 1)
        monkeypatch.setattr(looking_up, "build_cost", lambda *_: 0.0)
        monkeypatch.setattr(multi, "measured", lambda *_: costs.Costs(1e9, 1e9, 1e9, 1e9))
        index = collection._moment.state.views[0].rows.look_up(WIDTH).index
        index.costs = costs.Costs(1e9, 1e9, 1e9, 1e9)
        assert TABLES in str(collection.explain(vectors[:1], radius=2))
        join = collection.explain(None, radius=2)
        assert join.visits[0].way == TABLES and len(join.neighbors.ids) == 0
        assert "expected of tables of keys" in str(join)
        for wrong in ({"radius": -1}, {"radius": 1.5}):
            with pytest.raises(InvalidInput):
                collection.explain(vectors[:1], **wrong)
