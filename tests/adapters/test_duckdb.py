from __future__ import annotations

import threading

import numpy as np
import pytest

from sghash.adapters.databases.duckdb import DuckDBIndex
from sghash.adapters.exports.arrow import write_codes
from sghash.bits import pack_bits
from sghash.errors import BadFile, InvalidInput, StorageError

pytestmark = pytest.mark.adapters
FINGERPRINT = "ab" * 32


def codes_of(rng, n, n_bits):
    return pack_bits(rng.random((n, n_bits)) < 0.5)


def test_a_file_is_found_again_with_its_model_only(tmp_path, rng):
    path, codes = tmp_path / "codes.db", codes_of(rng, 40, 70)
    with DuckDBIndex.create(path, "codes", n_bits=70, fingerprint=FINGERPRINT) as index:
        index.add(codes, ids=np.arange(40) * 2)
    with DuckDBIndex.open(path, "codes", fingerprint=FINGERPRINT) as again:
        np.testing.assert_array_equal(again.codes, codes)
        assert again.n_bits == 70 and again.add(codes[:1]).tolist() == [79]
    for call, sentence in (
        (lambda: DuckDBIndex.open(path, "codes", fingerprint="cd" * 32), "another model"),
        (lambda: DuckDBIndex.open(path, "other"), "no table of codes"),
        (lambda: DuckDBIndex.open(tmp_path / "none.db", "codes"), "no database"),
        (lambda: DuckDBIndex.open(7, "codes"), "path or a connection"),
        (lambda: DuckDBIndex.create(path, "CODES", n_bits=8, fingerprint=FINGERPRINT), "already"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            call()
    assert not (tmp_path / "none.db").exists()
    with DuckDBIndex.open(path, "codes") as again:
        assert len(again) == 41


def test_a_table_that_is_not_ours_is_left_alone(rng):
    import duckdb

    with duckdb.connect(":memory:") as connection:
        connection.execute("CREATE TABLE codes (id BIGINT, w0 VARCHAR)")
        with pytest.raises(InvalidInput, match="no table of codes"):
            DuckDBIndex.open(connection, "codes")
        DuckDBIndex.create(connection, "mine", n_bits=8, fingerprint=FINGERPRINT)
        connection.execute("ALTER TABLE mine ALTER w0 TYPE VARCHAR")
        with pytest.raises(InvalidInput, match="w0 of 'mine' is VARCHAR, not UBIGINT"):
            DuckDBIndex.open(connection, "mine")
        assert connection.execute("SELECT count(*) FROM codes").fetchone() == (0,)


def test_a_transaction_of_the_user_is_left_alone(rng):
    import duckdb

    with duckdb.connect(":memory:") as connection:
        index = DuckDBIndex.create(connection, "codes", n_bits=16, fingerprint=FINGERPRINT)
        connection.execute("CREATE TABLE mine (x INTEGER)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO mine VALUES (1)")
        with pytest.raises(InvalidInput, match="in a transaction already"):
            index.add(codes_of(rng, 1, 16))
        connection.execute("COMMIT")
        assert connection.execute("SELECT count(*) FROM mine").fetchone() == (1,)
        assert len(index) == 0


def test_a_table_of_notes_that_is_not_ours(rng):
    import duckdb

    with duckdb.connect(":memory:") as connection:
        connection.execute("CREATE TABLE sghash_indexes (x INTEGER)")
        connection.execute("CREATE TABLE codes (id BIGINT)")
        with pytest.raises(StorageError, match="could not read 'codes'"):
            DuckDBIndex.open(connection, "codes")
        with pytest.raises(StorageError, match="nothing was changed"):
            DuckDBIndex.create(connection, "other", n_bits=8, fingerprint=FINGERPRINT)
        assert not DuckDBIndex.has(connection, "other")


def test_two_writers_lose_nothing(tmp_path, rng):
    import duckdb

    with duckdb.connect(tmp_path / "two.db") as one, one.cursor() as other:
        first = DuckDBIndex.create(one, "codes", n_bits=16, fingerprint=FINGERPRINT)
        second = DuckDBIndex.open(other, "codes")
        first.add(codes_of(rng, 3, 16))
        assert second.add(codes_of(rng, 2, 16)).tolist() == [3, 4]
        rows = codes_of(rng, 5, 16)
        added: list = []

        def work(index):
            while len(added) < 40:
                try:
                    added.append(index.add(rows))
                except StorageError:
                    continue  # the other was first: try again

        threads = [threading.Thread(target=work, args=(index,)) for index in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        numbers = np.concatenate(added)
        assert len(np.unique(numbers)) == len(numbers) and len(first) == 5 + len(numbers)


@pytest.mark.parametrize("second", ["add", "delete", "upsert"])
@pytest.mark.parametrize("first_is_done", [False, True])
def test_of_two_writers_at_once_the_second_is_refused(first_is_done, second, tmp_path, rng):
    """The class says why: a row of notes that both write, the first of them as it is."""
    import duckdb

    rows = codes_of(rng, 3, 16)
    with duckdb.connect(tmp_path / "two.db") as one, one.cursor() as other:
        index = DuckDBIndex.create(one, "codes", n_bits=16, fingerprint=FINGERPRINT)
        late = DuckDBIndex.open(other, "codes")
        index.add(rows)
        changes = {"add": lambda: late.add(rows), "delete": lambda: late.delete([0]),
                   "upsert": lambda: late.upsert(rows[:1], [1])}  # fmt: skip
        if first_is_done:
            # A connection sees the table as it was when its transaction looked first.
            begin = late._next_id

            def begin_late():
                other.execute("SELECT next_id FROM sghash_indexes").fetchall()
                index.delete([2])  # which leaves the next id as it is
                return begin()

            late._next_id = begin_late
            with pytest.raises(StorageError, match="another writer"):
                changes[second]()
            late._next_id = begin
            left = [0, 1]
        else:
            one.execute("BEGIN TRANSACTION")
            index._next_id()
            with pytest.raises(StorageError, match="another writer"):
                changes[second]()
            one.execute("COMMIT")
            left = [0, 1, 2]
        assert index.ids.tolist() == left == late.ids.tolist()
        np.testing.assert_array_equal(late.codes, rows[left])
        changes[second]()  # tried again


def test_parquet_is_searched_where_it_lies(tmp_path, rng):
    path, codes = tmp_path / "it's codes.parquet", codes_of(rng, 200, 100)
    write_codes(path, codes, n_bits=100, fingerprint=FINGERPRINT, ids=np.arange(200) + 5)
    with DuckDBIndex.over_parquet(path, fingerprint=FINGERPRINT) as index:
        assert len(index) == 200
        found = index.search(codes[:5], k=4)
        assert found.ids[:, 0].tolist() == [5, 6, 7, 8, 9]
        assert "read_parquet" in index.explain() and "bit_count(xor(w0, ?))" in index.explain()
        with pytest.raises(InvalidInput, match="for reading"):
            index.add(codes[:1])
    with pytest.raises(InvalidInput, match="another model"):
        DuckDBIndex.over_parquet(path, fingerprint="cd" * 32)
    write_codes(path, codes, n_bits=100, fingerprint=FINGERPRINT, layout="bytes")
    with pytest.raises(InvalidInput, match='layout="words"'):
        DuckDBIndex.over_parquet(path)
    for name, sentence in (
        ("codes[1].parquet", "takes .* for patterns"),
        ("codes?.parquet", "takes .* for patterns"),
        ("codes.arrow", r"with the ending \.parquet"),
        ("codes.FEATHER", r"with the ending \.parquet"),
    ):
        write_codes(tmp_path / name, codes, n_bits=100, fingerprint=FINGERPRINT)
        with pytest.raises(InvalidInput, match=sentence):
            DuckDBIndex.over_parquet(tmp_path / name)
    path.write_bytes(b"no parquet")
    with pytest.raises(BadFile, match="cannot be read"):
        DuckDBIndex.over_parquet(path)
