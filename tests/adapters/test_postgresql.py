"""PostgreSQL 18 with pgvector, started by the tests."""

from __future__ import annotations

import threading
import traceback
from pathlib import Path

import numpy as np
import pytest
from servers import running_server

from sghash import HammingIndex, PartitionedIndex, ground_truth
from sghash.adapters.databases import asking, link
from sghash.adapters.databases.postgresql import PostgresIndex
from sghash.adapters.databases.statements import Shape, search_statement
from sghash.bits import pack_bits
from sghash.errors import InvalidInput, MissingExtra, StorageError

pytestmark = pytest.mark.adapters
FINGERPRINT = "ab" * 32


def random_codes(rng, n, n_bits):
    return pack_bits(rng.random((n, n_bits)) < 0.5)


def run(server, *statements):
    import psycopg

    with psycopg.connect(server.address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def create(server, table, n_bits=32, **options):
    return PostgresIndex.create(
        server.address, table, n_bits=n_bits, fingerprint=FINGERPRINT, **options
    )


@pytest.mark.parametrize("by_vectors", [False, True])
def test_lists_visit_what_a_partitioned_index_visits(by_vectors, server, table, rng):
    ours = PartitionedIndex(4, n_bits=32, n_lists=20)
    codes, vectors = random_codes(rng, 900, 32), rng.standard_normal((900, 6)).astype(np.float32)
    places = {"vectors": vectors} if by_vectors else {}
    ours.add(codes, **places)
    with create(server, table, partitions=ours.partitions) as made:
        made.add(codes, **places)
        made.cluster()
    queries = random_codes(rng, 10, 32)
    asked = {"vectors": rng.standard_normal((10, 6)).astype(np.float32)} if by_vectors else {}
    with PostgresIndex.open(server.address, table, fingerprint=FINGERPRINT) as index:
        for probes in (1, 3, 20) if by_vectors else (1, 20):
            found = index.search(queries, 7, probes=probes, **asked)
            right = ours.search(queries, 7, probes=probes, **asked)
            np.testing.assert_array_equal(found.ids, right.ids)
            np.testing.assert_array_equal(found.distances, right.distances)
        assert "list_id = ANY($2::integer[])" in index.explain(7, probes=3)
        np.testing.assert_array_equal(index.search(queries, 7).ids, ours.search(queries, 7).ids)
        wrong = {} if by_vectors else {"vectors": vectors[:10]}
        with pytest.raises(InvalidInput, match="the lists are those of"):
            index.search(queries, probes=2, **wrong)
        with pytest.raises(InvalidInput, match="the lists are those of"):
            index.add(codes[:10], **wrong)
        assert len(index) == 900


def test_without_lists_or_extension_the_remedy_is_said(server, table, rng):
    with create(server, table) as index:
        for call, error, sentence in (
            (lambda: index.search(np.zeros((1, 4), np.uint8), probes=2), InvalidInput, "no lists"),
            (index.cluster, InvalidInput, "no lists"),
            (index.create_graph, MissingExtra, "CREATE EXTENSION vector"),
            (
                lambda: index.search(np.zeros((1, 4), np.uint8), graph=True),
                InvalidInput,
                "no graph over its codes: make it with create_graph",
            ),
        ):
            with pytest.raises(error, match=sentence):
                call()
    with pytest.raises(InvalidInput, match="PartitionedIndex"):
        create(server, "never", partitions=3)
    with pytest.raises(InvalidInput, match="no table of codes"):
        PostgresIndex.open(server.address, "never")


def test_the_graph_of_pgvector(server, table, rng):
    codes, queries = random_codes(rng, 3000, 32), random_codes(rng, 20, 32)
    twin = HammingIndex(32)
    twin.add(codes)
    run(server, "CREATE EXTENSION vector")
    try:
        with create(server, table) as index:
            index.add(codes)
            index.create_graph()
            found = index.search(queries, 10, graph=True, ef_search=200)
            right = twin.search(queries, 10)
            assert np.mean(found.distances <= right.distances[:, -1:]) > 0.95
            there = np.bitwise_count(codes[found.ids] ^ queries[:, None]).sum(axis=2)
            np.testing.assert_array_equal(there, found.distances)
            order = np.lexsort((found.ids, found.distances), axis=1)
            assert (order == np.arange(10)).all()
            statement = index.explain(10, graph=True)
            assert "<~>" in statement and "%s" not in statement
            index._link.ask("SET enable_seqscan = off")
            bits = "0" * 32
            plan = index._link.ask(
                "EXPLAIN " + search_statement(Shape(table, 32, graph=True), 10), [bits]
            )
            assert f"{table}_graph" in str(plan)  # the statement does use the graph
            with pytest.raises(InvalidInput, match="give one of them"):
                index.search(queries, graph=True, probes=2)
    finally:
        run(server, "DROP EXTENSION vector CASCADE")


@pytest.fixture
def pgvector(server):
    run(server, "CREATE EXTENSION vector")
    yield server
    run(server, "DROP EXTENSION vector CASCADE")


@pytest.mark.parametrize("version", [(0, 8, 0), (0, 7, 4)])
def test_the_graph_gives_as_many_answers_as_there_are(version, pgvector, table, rng, monkeypatch):
    """With pgvector 0.7 as well: the real one, with what it is told apart by."""
    there = asking.Graph(version, True)
    codes, queries = random_codes(rng, 3000, 64), random_codes(rng, 3, 64)
    vectors = rng.standard_normal((3000, 4)).astype(np.float32)
    with create(pgvector, table, n_bits=64, keep_vectors=4) as index:
        index.add(codes, vectors=vectors)
        index.create_graph()
        run(pgvector, f'ANALYZE "{table}"')
        monkeypatch.setattr(asking, "graph_of", lambda *_: there)
        index._link.ask("SET enable_seqscan = off")
        found = index.search(queries, 200, graph=True)
        assert (found.ids >= 0).all()
        mask = np.zeros(3000, bool)
        mask[::50] = True
        for k, real in ((20, 20), (100, 60)):
            found = index.search(queries, k, graph=True, mask=mask)
            assert ((found.ids >= 0).sum(axis=1) == real).all()
            assert mask[found.ids[:, :real]].all()
        more = index.search(queries, 10, graph=True, rerank=1600, vectors=vectors[:3])
        assert (more.ids >= 0).all()
        assert (index.search(queries, 3100, graph=True).ids >= 0).sum() == 9000
        with pytest.raises(InvalidInput, match="ef_search must be at most 1000"):
            index.search(queries, graph=True, ef_search=1001)


def test_a_mask_widens_the_lists_that_are_visited(server, table, rng):
    ours = PartitionedIndex(4, n_bits=32, n_lists=20)
    codes, queries = random_codes(rng, 900, 32), random_codes(rng, 10, 32)
    vectors, asked = (rng.standard_normal((n, 6)).astype(np.float32) for n in (900, 10))
    ours.add(codes, vectors=vectors)
    twin = HammingIndex(32)
    twin.add(codes)
    with create(server, table, partitions=ours.partitions) as index:
        index.add(codes, vectors=vectors)
        for share, probes in ((0.5, 2), (0.3, 1), (0.05, 1), (0.01, 1)):
            mask = rng.random(900) < share
            k = min(5, int(mask.sum()))
            found = index.search(queries, k, probes=probes, vectors=asked, mask=mask)
            right = ours.search(queries, k, probes=probes, vectors=asked, mask=mask)
            exact = twin.search(queries, k, mask=mask)
            whole = (right.ids >= 0).all(axis=1)
            np.testing.assert_array_equal(found.ids[whole], right.ids[whole])
            np.testing.assert_array_equal(found.ids[~whole], exact.ids[~whole])
        nobody = index.search(queries, 3, probes=1, vectors=asked, mask=np.zeros(900, bool))
        assert (nobody.ids == -1).all()


def test_a_graph_is_made_or_refused(pgvector, table, rng):
    codes = random_codes(rng, 50, 32)
    with create(pgvector, table) as index:
        index.add(codes)
        with pytest.raises(InvalidInput, match="has no graph over its codes"):
            index.search(codes[:1], graph=True)
        with create(pgvector, f"{table}_graph"):
            pass  # which has the name that the graph would have
        with pytest.raises(InvalidInput, match="already, which is no graph over"):
            index.create_graph()
        run(pgvector, f'DROP TABLE "{table}_graph"')
        for _ in range(2):
            index.create_graph()
        assert index.search(codes[:1], 1, graph=True).ids.tolist() == [[0]]


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("way", ["scan", "lists", "graph"])
def test_kept_vectors_order_a_shortlist_in_the_same_statement(way, metric, server, table, rng):
    codes, queries = random_codes(rng, 600, 32), random_codes(rng, 5, 32)
    vectors, asked = (rng.standard_normal((n, 7)).astype(np.float32) for n in (600, 5))
    ours = PartitionedIndex(4, n_bits=32, n_lists=10)
    ours.add(codes)
    run(server, "CREATE EXTENSION vector")
    try:
        options = {"keep_vectors": 7, "metric": metric, "partitions": ours.partitions}
        with create(server, table, **options) as made:
            made.add(codes[:500], vectors=vectors[:500])
            made.upsert(codes[400:], np.arange(400, 600), vectors=vectors[400:])
            made.create_graph()
        more = {"lists": {"probes": 10}, "graph": {"graph": True}}.get(way, {})
        with PostgresIndex.open(server.address, table) as index:
            assert index.kept == (7, metric)
            found = index.search(queries, 5, vectors=asked, rerank=600, **more)
            right = ground_truth(
                vectors.astype(np.float16).astype(np.float32), asked, 5, metric=metric
            )
            if way == "graph":  # which may miss some
                assert np.mean(np.isin(found.ids, right.ids)) > 0.9
            else:
                np.testing.assert_array_equal(found.ids, right.ids)
                np.testing.assert_allclose(found.distances, right.distances, rtol=1e-2, atol=1e-2)
            short = index.search(queries, 5, vectors=asked, rerank=20, **more)
            near = HammingIndex(32)
            near.add(codes)
            if way == "scan":
                shortlist = near.search(queries, 20).ids
                assert all(set(a) <= set(b) for a, b in zip(short.ids, shortlist, strict=True))
            assert short.distances.dtype == np.float32
            statement = index.explain(5, rerank=20, **more)
            assert "::halfvec" in statement and statement.count("SELECT") < 6
            for call, sentence in (
                (lambda: index.search(queries, rerank=20), "give them with the codes"),
                (lambda: index.search(queries, vectors=asked[:, :3], rerank=9), "needs"),
                (lambda: index.add(codes[:1]), "give them with the codes"),
                (lambda: index.add(codes[:1], vectors=np.full((1, 7), 1e6)), "beyond 65504"),
                (lambda: index.search(queries, rerank=0), "rerank"),
            ):
                with pytest.raises(InvalidInput, match=sentence):
                    call()
            assert len(index) == 600
    finally:
        run(server, "DROP EXTENSION vector CASCADE")


def test_a_vector_of_zeros_is_at_a_right_angle_to_all(pgvector, table, rng):
    codes, vectors = random_codes(rng, 30, 32), rng.standard_normal((30, 5)).astype(np.float32)
    vectors[7] = 0
    asked = np.vstack([vectors[:1], np.zeros((1, 5), np.float32)])
    with create(pgvector, table, keep_vectors=5, metric="cosine") as index:
        index.add(codes, vectors=vectors)
        found = index.search(codes[:2], 30, vectors=asked, rerank=30)
    right = ground_truth(vectors.astype(np.float16).astype(np.float32), asked, 30, metric="cosine")
    np.testing.assert_array_equal(found.ids, right.ids)
    np.testing.assert_allclose(found.distances, right.distances, rtol=1e-2, atol=1e-2)


def test_a_table_of_notes_that_is_not_ours(server):
    run(server, "CREATE SCHEMA own", "CREATE TABLE own.sghash_indexes (x integer)",
        "CREATE TABLE own.codes (id bigint)")  # fmt: skip
    address = f"{server.address} options='-c search_path=own'"
    with pytest.raises(StorageError, match="could not answer"):
        PostgresIndex.open(address, "codes")
    with pytest.raises(StorageError, match="nothing was changed"):
        PostgresIndex.create(address, "other", n_bits=8, fingerprint=FINGERPRINT)


def test_vectors_need_the_extension_and_a_table_that_keeps_them(server, table, rng):
    with pytest.raises(MissingExtra, match="no pgvector"):
        create(server, table, keep_vectors=8)
    codes = random_codes(rng, 2, 32)
    with create(server, table) as index:  # the failed one has left nothing behind
        for call, sentence in (
            (lambda: index.search(codes, vectors=np.ones((2, 3))), "no use for vectors"),
            (lambda: index.search(codes, vectors=np.ones((2, 3)), rerank=5), "keeps no vectors"),
            (lambda: index.add(codes, vectors=np.ones((2, 3))), "no use for vectors"),
            (lambda: index.upsert(codes, [1, 1]), "twice"),
        ):
            with pytest.raises(InvalidInput, match=sentence):
                call()
        assert len(index) == 0
    with pytest.raises(InvalidInput, match="metric"):
        create(server, "never", keep_vectors=3, metric="jaccard")


def test_an_old_server_is_refused(server, table, monkeypatch):
    """The real server, as if bit_count had come with a version that it does not have yet."""
    monkeypatch.setattr(link, "OLDEST", 990000)
    with pytest.raises(InvalidInput, match="is PostgreSQL 18, which cannot count bits: use 99"):
        create(server, table)
    monkeypatch.undo()
    assert not PostgresIndex.has(server.address, table)


def test_a_stock_server_of_debian(rng):
    """PostgreSQL 15 without extensions, where Debian's package is installed."""
    folder = Path("/usr/lib/postgresql/15/bin")
    if not folder.is_dir():
        pytest.skip("Debian's package postgresql-15 is not installed")
    codes = random_codes(rng, 400, 64)
    ours = PartitionedIndex(8, n_bits=64, n_lists=8)
    ours.add(codes)
    with (
        running_server(folder) as old,
        create(old, "stock", n_bits=64, partitions=ours.partitions) as index,
    ):
        index.add(codes)
        index.cluster()
        for probes in (None, 8):
            found = index.search(codes[:9], 5, probes=probes)
            np.testing.assert_array_equal(found.ids, ours.search(codes[:9], 5).ids)
        with pytest.raises(MissingExtra, match="no pgvector"):
            index.create_graph()


def test_tables_of_others_are_left_alone(server, table, rng):
    run(server, f'CREATE TABLE "{table}" (id bigint, code text)')
    with pytest.raises(InvalidInput, match="already"):
        create(server, table)
    with pytest.raises(InvalidInput, match="no table of codes"):
        PostgresIndex.open(server.address, table)
    run(server, f'DROP TABLE "{table}"')
    create(server, table).close()
    with pytest.raises(InvalidInput, match="another model"):
        PostgresIndex.open(server.address, table, fingerprint="cd" * 32)
    run(server, f'ALTER TABLE "{table}" ALTER code TYPE bit(16)')
    with pytest.raises(InvalidInput, match=r"code of '.*' is bit\(16\), not bit\(32\)"):
        PostgresIndex.open(server.address, table)


def test_a_failed_change_changes_nothing(server, table, rng):
    with create(server, table) as index:
        index.add(random_codes(rng, 5, 32))
        run(server, f'ALTER TABLE "{table}" ADD CHECK (id < 7)')
        with pytest.raises(StorageError, match="nothing was changed"):
            index.add(random_codes(rng, 5, 32))
        assert len(index) == 5 and index.add(random_codes(rng, 1, 32)).tolist() == [5]


def test_a_statement_that_takes_too_long_is_said(server, table, rng):
    with create(server, table) as index:
        index.add(random_codes(rng, 1000, 32))
        index._link.ask("SET statement_timeout = '1ms'")
        with pytest.raises(StorageError, match="timeout"):
            index._link.read("SELECT pg_sleep(1)")
        index._link.ask("SET statement_timeout = 0")
        assert len(index) == 1000


def test_a_server_that_was_away_is_found_again(server, table, rng):
    codes = random_codes(rng, 50, 32)
    with create(server, table) as index:
        index.add(codes)
        server.stop()
        with pytest.raises(StorageError, match="cannot be reached"):
            index.search(codes[:1])
        server.start()
        assert index.search(codes[:3], 1).distances.max() == 0
        server.stop("fast")
        server.start()
        with pytest.raises(StorageError, match="whole or not at all"):
            index.add(codes[:1])
        assert len(index) == 50 and index.add(codes[:1]).tolist() == [50]


def test_writers_wait_for_each_other(server, table, rng):
    create(server, table).close()
    codes, given = random_codes(rng, 20, 32), []

    def work():
        with PostgresIndex.open(server.address, table) as index:
            given.extend(index.add(codes) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = np.sort(np.concatenate(given))
    np.testing.assert_array_equal(numbers, np.arange(800))


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:sEcReT@127.0.0.1:1/none?connect_timeout=2",
        "postgresql://me:sEcReT%zz@127.0.0.1:1/none",
        "host=127.0.0.1 port=1 password=sEcReT connect_timeout=2",
        "host password='sEcReT",
        "postgresql://me:pa@sEcReT@127.0.0.1/none",
        "postgresql://me:pa@sEcReT@127.0.0.1:1/none?connect_timeout=2",
        "postgres://me:1/2@sEcReT@127.0.0.1/none",
        "postgresql://me:1/sEcReT@127.0.0.1/none",
        "postgresql://me:a%40sEcReT@127.0.0.1:1/none?connect_timeout=2",
        "postgresql://me@127.0.0.1:1/none?sslpassword=sEcReT&connect_timeout=2",
    ],
)
def test_a_password_is_told_to_nobody(address):
    with pytest.raises((StorageError, InvalidInput)) as caught:
        PostgresIndex.open(address, "codes")
    shown = "".join(traceback.format_exception(caught.value, chain=True))
    assert "sEcReT" not in str(caught.value)
    assert "sEcReT" not in shown.replace(address, "")
    behind = caught.value.__context__ or caught.value.__cause__
    assert "sEcReT" not in repr(behind)


def test_an_address_that_ends_too_early_names_the_remedy():
    for address in ("postgresql://me:pa@ss@host/x", "postgresql://me:pa/ss@host/x"):
        with pytest.raises(InvalidInput, match="write @ as %40"):
            PostgresIndex.open(address, "codes")


@pytest.mark.parametrize("address", ["postgresql://me:sEcReT@h/x", "host=h password=sEcReT"])
def test_an_address_in_the_place_of_a_name_is_not_repeated(address):
    for call in (PostgresIndex.open, PostgresIndex.has):
        with pytest.raises(InvalidInput, match="looks like an address") as caught:
            call("codes", address)
        assert "sEcReT" not in str(caught.value)
