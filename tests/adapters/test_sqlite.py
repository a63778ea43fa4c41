from __future__ import annotations

import sys

import numpy as np
import pytest

from sghash.adapters.databases.sqlite import SQLiteIndex
from sghash.bits import pack_bits
from sghash.errors import InvalidInput, StorageError

pytestmark = pytest.mark.adapters
FINGERPRINT = "ab" * 32


def test_a_file_is_found_again_with_its_model_only(tmp_path, rng):
    path, codes = tmp_path / "codes.db", pack_bits(rng.random((40, 70)) < 0.5)
    with SQLiteIndex.create(path, "codes", n_bits=70, fingerprint=FINGERPRINT) as index:
        index.add(codes)
        assert "vec_distance_hamming" in index.explain()
    with SQLiteIndex.open(path, "codes", fingerprint=FINGERPRINT) as again:
        assert again.search(codes[:3], k=1).ids[:, 0].tolist() == [0, 1, 2]
    for call, sentence in (
        (lambda: SQLiteIndex.open(path, "codes", fingerprint="cd" * 32), "another model"),
        (lambda: SQLiteIndex.open(path, "other"), "no table of codes"),
        (lambda: SQLiteIndex.open(tmp_path / "none.db", "codes"), "no database"),
        (lambda: SQLiteIndex.create(path, "CODES", n_bits=8, fingerprint=FINGERPRINT), "already"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            call()
    assert not (tmp_path / "none.db").exists()


def test_asking_for_a_table_makes_no_file(tmp_path):
    assert not SQLiteIndex.has(tmp_path / "none.db", "codes")
    assert not (tmp_path / "none.db").exists()


def test_a_full_disk_and_a_transaction_of_the_user(tmp_path):
    codes = np.zeros((5000, 512), np.uint8)
    with SQLiteIndex.create(
        tmp_path / "codes.db", "codes", n_bits=4096, fingerprint=FINGERPRINT
    ) as index:
        index.connection.execute("PRAGMA max_page_count = 50")
        with pytest.raises(StorageError, match=r"nothing was changed: .*full"):
            index.add(codes)
        assert len(index) == 0 and index.add(codes[:2]).tolist() == [0, 1]
        index.connection.execute("BEGIN")
        with pytest.raises(StorageError, match="cannot write now"):
            index.add(codes[:1])
        assert index.connection.in_transaction
        index.connection.execute("ROLLBACK")
        index.connection.execute("DROP TABLE sghash_indexes")
        index.connection.execute("CREATE TABLE sghash_indexes (x INTEGER)")
    with pytest.raises(StorageError, match="could not read 'codes'"):
        SQLiteIndex.open(tmp_path / "codes.db", "codes")


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "text"
    path.write_text("this is no database, whatever its name may say" * 50)
    with pytest.raises(StorageError, match="no database of SQLite"):
        SQLiteIndex.open(path, "codes")


def test_a_busy_or_foreign_table_is_left_alone(tmp_path, rng):
    path, codes = tmp_path / "codes.db", pack_bits(rng.random((3, 16)) < 0.5)
    with SQLiteIndex.create(path, "codes", n_bits=16, fingerprint=FINGERPRINT) as index:
        # Two builds of SQLite in one process do not see each other's locks: take the same one.
        module = sys.modules[type(index.connection).__module__]
        other = module.connect(str(path), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        index.connection.execute("PRAGMA busy_timeout = 50")
        with pytest.raises(StorageError, match="cannot write now"):
            index.add(codes)
        other.execute("ROLLBACK")
        index.add(codes)
        other.execute("INSERT INTO codes VALUES (9, x'00')")
        for call in (lambda: index.search(codes[:1]), lambda: index.codes):
            with pytest.raises((StorageError, InvalidInput), match="codes"):
                call()
        other.execute("DROP TABLE codes")
        other.execute("CREATE TABLE codes (id INTEGER, code TEXT)")
        other.close()
    with pytest.raises(InvalidInput, match="code of 'codes' is TEXT, not BLOB"):
        SQLiteIndex.open(path, "codes")
