"""What every index must do, done by databases: the contract of `tests/contracts`, on real engines.

Milvus orders ties as it likes; there every id must have the distance that stands beside it.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from sghash import HammingIndex
from sghash.bits import pack_bits
from sghash.errors import InvalidDtype, InvalidInput, StorageError

pytestmark = pytest.mark.adapters
FINGERPRINT = "ab" * 32
_numbers = itertools.count()


def make_duckdb(n_bits, folder):
    from sghash.adapters.databases.duckdb import DuckDBIndex

    return DuckDBIndex.create(":memory:", "codes", n_bits=n_bits, fingerprint=FINGERPRINT)


def make_sqlite(n_bits, folder):
    from sghash.adapters.databases.sqlite import SQLiteIndex

    return SQLiteIndex.create(":memory:", "codes", n_bits=n_bits, fingerprint=FINGERPRINT)


def make_postgresql(n_bits, server):
    from sghash.adapters.databases.postgresql import PostgresIndex

    name = f"codes_{next(_numbers)}"
    return PostgresIndex.create(server.address, name, n_bits=n_bits, fingerprint=FINGERPRINT)


def make_milvus(n_bits, path):
    from sghash.adapters.databases.milvus import MilvusIndex

    name = f"codes_{next(_numbers)}"
    return MilvusIndex.create(path, name, n_bits=n_bits, fingerprint=FINGERPRINT)


def make_faiss(n_bits, folder):
    from sghash.adapters.databases.faiss_file import FaissFileIndex

    path = folder / f"{next(_numbers)}.faiss"
    return FaissFileIndex.create(path, "codes", n_bits=n_bits, fingerprint=FINGERPRINT)


ENGINES = {"DuckDB": make_duckdb, "SQLite": make_sqlite, "PostgreSQL": make_postgresql,
           "Milvus": make_milvus, "FAISS": make_faiss}  # fmt: skip
#: Engines whose ties come in any order.
UNORDERED = {"Milvus"}
every_engine = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture
def places(request, engine):
    """Where an engine keeps its tables: a server, a file, a folder or nothing."""
    kinds = {"PostgreSQL": "server", "Milvus": "milvus_file", "FAISS": "tmp_path"}
    return request.getfixturevalue(kinds[engine]) if engine in kinds else None


def random_codes(rng, n, n_bits):
    return pack_bits(rng.random((n, n_bits)) < 0.5)


def check_search(engine, index, codes, ids, queries, k, mask=None):
    """The answer is that of a `HammingIndex` over the same rows."""
    twin = HammingIndex(index.n_bits)
    twin.add(codes, ids=ids)
    found, right = index.search(queries, k, mask=mask), twin.search(queries, k, mask=mask)
    assert found.distances.dtype == np.int32 and found.ids.dtype == np.int64
    np.testing.assert_array_equal(found.distances, right.distances)
    if engine not in UNORDERED:
        np.testing.assert_array_equal(found.ids, right.ids)
        return
    for query, own, distances in zip(queries, *reversed(found), strict=True):
        real = own[own >= 0]
        assert len(set(real)) == len(real)
        there = np.bitwise_count(twin.codes_of(real) ^ query).sum(axis=1)
        np.testing.assert_array_equal(there, distances[: len(real)])
        if mask is not None:
            assert set(real) <= set(twin.ids[mask])


@every_engine
@pytest.mark.parametrize("n_bits", [16, 64, 77, 256])
def test_search_is_exact(engine, n_bits, rng, places):
    index, codes = ENGINES[engine](n_bits, places), random_codes(rng, 500, n_bits)
    with index:
        for start in range(0, 500, 90):
            index.add(codes[start : start + 90])
        assert len(index) == 500 and index.n_bytes == codes.shape[1]
        for n_queries, k in ((12, 20), (1, 3), (5, 500)):
            queries = random_codes(rng, n_queries, n_bits)
            check_search(engine, index, codes, np.arange(500), queries, k)


@every_engine
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_rows_ids_masks_and_lengths(engine, data, places):
    n_bits, n = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 60))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    codes, ids = random_codes(rng, n, n_bits), rng.permutation(200)[:n]
    with ENGINES[engine](n_bits, places) as index:
        done = 0
        while done < n:
            some = slice(done, done + data.draw(st.integers(1, n)))
            np.testing.assert_array_equal(index.add(codes[some], ids=ids[some]), ids[some])
            done = some.stop
        gone = rng.random(n) < 0.2
        index.delete(ids[gone])
        codes, ids = codes[~gone], ids[~gone]
        assert len(index) == len(ids)
        np.testing.assert_array_equal(index.ids, np.sort(ids))
        np.testing.assert_array_equal(index.codes_of(ids), codes)
        mask = rng.random(len(ids)) < 0.6 if data.draw(st.booleans()) else None
        queries = random_codes(rng, data.draw(st.integers(1, 6)), n_bits)
        if len(ids):
            check_search(engine, index, codes, ids, queries, data.draw(st.integers(1, 70)), mask)


@every_engine
def test_deleting_shifts_no_id(engine, rng, places):
    with ENGINES[engine](32, places) as index:
        codes = random_codes(rng, 50, 32)
        index.add(codes)
        index.delete([3, 49, 10])
        left = np.setdiff1d(np.arange(50), [3, 49, 10])
        check_search(engine, index, codes[left], left, random_codes(rng, 5, 32), 47)
        index.add(codes[:2])
        assert index.ids[-2:].tolist() == [50, 51]  # numbers of deleted rows are not used again
        index.add(codes[3], ids=[3])
        np.testing.assert_array_equal(index.codes_of([3, 3])[1], codes[3])


@every_engine
def test_upsert_adds_and_replaces(engine, rng, places):
    with ENGINES[engine](20, places) as index:
        codes = random_codes(rng, 30, 20)
        index.add(codes[:10])
        index.upsert(codes[5:25], ids=np.arange(7, 27))
        right = np.concatenate([codes[:7], codes[5:25]])
        np.testing.assert_array_equal(index.ids, np.arange(27))
        np.testing.assert_array_equal(index.codes, right)
        assert len(index) == 27
        check_search(engine, index, right, np.arange(27), random_codes(rng, 4, 20), 27)
        for wrong, sentence in (([3, 3], "twice"), ([3], "one per row"), ([3, -1], "negative")):
            with pytest.raises(InvalidInput, match=sentence):
                index.upsert(codes[25:27], ids=wrong)
        np.testing.assert_array_equal(index.codes, right)
        index.upsert(codes[:0], ids=[])
        assert index.add(codes[:1]).tolist() == [27]


@every_engine
def test_an_empty_index_answers_with_padding(engine, rng, places):
    with ENGINES[engine](10, places) as index:
        assert index.search(random_codes(rng, 2, 10), k=3).ids.tolist() == [[-1] * 3] * 2
        assert len(index) == 0 and index.codes.shape == (0, 2) and index.ids.shape == (0,)
        assert index.add(np.empty((0, 2), np.uint8)).shape == (0,)
        index.delete([])


@every_engine
def test_distances_beyond_127_and_large_ids(engine, places):
    with ENGINES[engine](512, places) as index:
        index.add(np.full((1, 64), 255, np.uint8), ids=[2**62])
        index.add(np.zeros((1, 64), np.uint8))
        found = index.search(np.zeros((1, 64), np.uint8), k=2)
        assert found.distances.tolist() == [[0, 512]] and found.ids.tolist() == [[2**62 + 1, 2**62]]


@every_engine
def test_threads_may_share_an_index(engine, rng, places):
    codes = random_codes(rng, 400, 64)
    # Rows that threads add are far from every query: the right answers do not change meanwhile.
    codes[:, :4] = 0
    queries, far = codes[:20], np.full((3, 8), 255, np.uint8)
    twin = HammingIndex(64)
    twin.add(codes)
    right = twin.search(queries, 3)

    def work(number):
        added = []
        for turn in range(8):
            added.append(index.add(far))
            query = (5 * number + turn) % 20
            found = index.search(queries[query], 1)
            assert found.ids[0, 0] == query and found.distances[0, 0] == 0
            np.testing.assert_array_equal(index.search(queries, 3).distances, right.distances)
            np.testing.assert_array_equal(index.codes_of([query]), queries[[query]])
            np.testing.assert_array_equal(index.codes_of(added[-1]), far)
        return np.concatenate(added)

    with ENGINES[engine](64, places) as index:
        index.add(codes)
        with ThreadPoolExecutor(4) as pool:
            numbers = np.concatenate(list(pool.map(work, range(4))))
        assert sorted(numbers) == list(range(400, 400 + 96)) and len(index) == 496
        assert index.ids.tolist() == list(range(496))


by_sql = pytest.mark.parametrize("engine", ["DuckDB", "SQLite", "PostgreSQL"])


def ask(index, statement):
    """What a user does with the table."""
    if hasattr(index, "connection"):
        return index.connection.execute(statement).fetchall()
    return index._link.ask(statement)


@by_sql
def test_columns_that_users_add_stay(engine, rng, places):
    codes = random_codes(rng, 6, 70)
    with ENGINES[engine](70, places) as index:
        index.add(codes[:4])
        ask(index, f'ALTER TABLE "{index.table}" ADD COLUMN title VARCHAR(9)')
        ask(index, f"UPDATE \"{index.table}\" SET title = 'mine'")
        index.add(codes[4:5])
        index.upsert(codes[[5, 5, 5]], [0, 3, 9])
        index.upsert(codes[[5, 2]], [0, 2])
        found = ask(index, f'SELECT id, title FROM "{index.table}" ORDER BY id')
        titles = dict.fromkeys(range(4), "mine") | {4: None, 9: None}
        assert dict(map(tuple, found)) == titles
        np.testing.assert_array_equal(index.codes, codes[[5, 1, 2, 5, 4, 5]])
        assert index.add(codes[:1]).tolist() == [10]


@by_sql
def test_what_a_driver_raises_comes_as_a_sentence(engine, rng, places):
    codes = random_codes(rng, 3, 16)
    with ENGINES[engine](16, places) as index:
        index.add(codes)
        ask(index, f'DROP TABLE "{index.table}"')
        for call in (
            lambda: len(index),
            lambda: index.ids,
            lambda: index.codes_of([0]),
            lambda: index.search(codes),
            lambda: index.add(codes),
            lambda: index.add(codes, [5, 6, 7]),
            lambda: index.upsert(codes, [5, 6, 7]),
            lambda: index.delete([0]),
        ):
            with pytest.raises(StorageError, match=r"could not|nothing was changed") as caught:
                call()
            assert "another writer" not in str(caught.value) and index.table in str(caught.value)
    if engine != "PostgreSQL":  # which connects again
        with pytest.raises(StorageError, match="open the index again"):
            len(index)


@by_sql
def test_a_refusal_of_the_database_says_why(engine, rng, places):
    codes = random_codes(rng, 3, 16)
    with ENGINES[engine](16, places) as index:
        index.add(codes)
        before, column = index.codes, "w0" if engine == "DuckDB" else "code"
        ask(index, f'CREATE UNIQUE INDEX "one_{index.table}" ON "{index.table}" ({column})')
        with pytest.raises(StorageError, match=r"refused, and nothing was changed: .+") as caught:
            index.add(codes[[0, 0]])
        assert "another writer" not in str(caught.value)
        np.testing.assert_array_equal(index.codes, before)
        other = random_codes(np.random.default_rng(1), 1, 16)
        assert index.add(other).tolist() == [3]  # and it works on


@every_engine
def test_ids_come_without_their_codes(engine, rng, places, monkeypatch):
    with ENGINES[engine](16, places) as index:
        ids = index.add(random_codes(rng, 5, 16), ids=[9, 3, 2**40, 4, 0])
        monkeypatch.setattr(index, "_rows", None)
        found = index.ids
        assert found.tolist() == sorted(ids.tolist()) and found.dtype == np.int64
        assert index.search(np.zeros((1, 2), np.uint8), 5, mask=found == 3).ids[0, 0] == 3


CODE = np.zeros((1, 2), np.uint8)


@every_engine
def test_bad_input_changes_nothing(engine, places):
    cases = [
        (lambda i, q: i.add(np.zeros((1, 3), np.uint8)), InvalidInput, "3 bytes wide"),
        (lambda i, q: i.add(np.zeros((1, 2), np.float32)), InvalidDtype, "uint8"),
        (lambda i, q: i.add(np.array([[0, 1]], np.uint8)), InvalidInput, "padding"),
        (lambda i, q: i.add(np.zeros((2, 2), np.uint8), ids=[7, 7]), InvalidInput, "twice"),
        (lambda i, q: i.add(np.zeros((2, 2), np.uint8), ids=[7, 1]), InvalidInput, "already"),
        (lambda i, q: i.add(CODE, ids=[-1]), InvalidInput, "negative"),
        (lambda i, q: i.add(CODE, ids=[2**63 - 1]), InvalidInput, "at most"),
        (lambda i, q: i.add(CODE, ids=[True]), InvalidDtype, "truth values"),
        (lambda i, q: i.add(CODE, ids=[0.5]), InvalidDtype, "whole"),
        (lambda i, q: i.add(CODE, ids=[8, 9]), InvalidInput, "one per row"),
        (lambda i, q: i.search(q, k=0), InvalidInput, "at least 1"),
        (lambda i, q: i.search(q, k=2**63), InvalidInput, "k must be at most"),
        (lambda i, q: i.search(q, threads=0), InvalidInput, "threads"),
        (lambda i, q: i.search(q, mask=[True]), InvalidInput, "mask"),
        (lambda i, q: i.search(q, mask=[1] * 3), InvalidDtype, "boolean"),
        (lambda i, q: i.search(None), InvalidDtype, "must be"),
        (lambda i, q: i.search(np.zeros((1, 3), np.uint8)), InvalidInput, "model"),
        (lambda i, q: i.delete([0, 99]), InvalidInput, "99 is not in"),
        (lambda i, q: i.codes_of([0, 99]), InvalidInput, "99 is not in"),
    ]
    with ENGINES[engine](10, places) as index:
        index.add(pack_bits(np.eye(3, 10)))
        before = index.ids.tolist(), index.codes.tolist()
        for call, error, sentence in cases:
            with pytest.raises(error, match=sentence):
                call(index, np.zeros((2, 2), np.uint8))
            assert (index.ids.tolist(), index.codes.tolist()) == before
        assert index.add(CODE).tolist() == [3]  # and no number was lost


@every_engine
@pytest.mark.parametrize(
    "name",
    [
        'x"; DROP TABLE codes; --',
        "",
        "a b",
        "1a",
        "x" * 56,
        None,
        "sghash_indexes",
        "é",
        "Sghash_Rows",
    ],
)
def test_hostile_names_are_refused(engine, name, places):
    with ENGINES[engine](8, places) as index:
        kind, place = type(index), getattr(places, "address", places or ":memory:")
        for call in (kind.create, kind.open):
            options = {"n_bits": 8} if call == kind.create else {}
            with pytest.raises(InvalidInput, match="name must be"):
                call(place, name, fingerprint=FINGERPRINT, **options)
        with pytest.raises(InvalidInput, match=r"model\.fingerprint_"):
            kind.create(place, "other", n_bits=8, fingerprint="me")
