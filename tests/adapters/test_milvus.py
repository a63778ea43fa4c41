from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from sghash.adapters.databases.milvus import MilvusIndex
from sghash.bits import pack_bits
from sghash.errors import InvalidInput, StorageError

pytestmark = pytest.mark.adapters
FINGERPRINT = "ab" * 32


def codes_of(rng, n, n_bits):
    return pack_bits(rng.random((n, n_bits)) < 0.5)


def create(path, table, n_bits=16):
    return MilvusIndex.create(path, table, n_bits=n_bits, fingerprint=FINGERPRINT)


def test_asking_for_a_table_makes_no_file(tmp_path):
    assert not MilvusIndex.has(tmp_path / "none.db", "codes")
    assert not (tmp_path / "none.db").exists()


def test_names_that_differ_where_one_has_an_underscore(milvus_file, table, rng):
    name, codes = f"a_{table}", codes_of(rng, 10, 16)
    like = name.replace("_", "x")
    with create(milvus_file, like) as other, create(milvus_file, name) as index:
        other.add(codes)
        other.delete(np.arange(10))
        assert index.add(codes[:2]).tolist() == [0, 1]
        index.add(codes[:1])
        assert other.add(codes[:1]).tolist() == [10]  # numbers are not used again


def test_a_file_is_found_again_with_its_model_only(tmp_path, rng):
    path, codes = tmp_path / "own.db", codes_of(rng, 40, 70)
    with create(path, "codes", 70) as index:
        index.add(codes)
        assert "HAMMING" in index.explain(3)
    with MilvusIndex.open(path, "codes", fingerprint=FINGERPRINT) as again:
        np.testing.assert_array_equal(again.codes, codes)
        assert again.search(codes[:3], k=1).ids[:, 0].tolist() == [0, 1, 2]
        for call, sentence in (
            (lambda: MilvusIndex.open(path, "codes", fingerprint="cd" * 32), "another model"),
            (lambda: MilvusIndex.open(path, "other"), "no table of codes"),
            (lambda: MilvusIndex.open(tmp_path / "none.db", "codes"), "no database"),
            (lambda: MilvusIndex.open(tmp_path / "none", "codes"), r"named \*.db"),
            (lambda: create(path, "codes"), "already"),
        ):
            with pytest.raises(InvalidInput, match=sentence):
                call()
        # Another process is told that the file is in use; nothing waits, nothing is changed.
        program = f"from sghash.adapters.databases.milvus import MilvusIndex as M; M.open({str(path)!r}, 'codes')"  # noqa: E501
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        assert done.returncode and "is open elsewhere" in done.stderr
    assert not (tmp_path / "none.db").exists()


def test_a_collection_of_others_is_left_alone(milvus_file, table):
    from pymilvus import DataType

    with create(milvus_file, table) as index:
        schema = index.client.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("code", DataType.BINARY_VECTOR, dim=8)
        index.client.create_collection(f"{table}_theirs", schema=schema)
        with pytest.raises(InvalidInput, match="no table of codes"):
            MilvusIndex.open(milvus_file, f"{table}_theirs")
        index.client.drop_collection(table)
        index.client.create_collection(table, schema=schema)  # in the place of ours
        with pytest.raises(InvalidInput, match="field code of"):
            MilvusIndex.open(milvus_file, table)
        with pytest.raises(StorageError, match="Milvus Lite could not"):
            index.search(np.zeros((1, 2), np.uint8))


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "text.db"
    path.write_text("this is no database" * 100)
    with pytest.raises(StorageError, match="no file of Milvus"):
        MilvusIndex.open(path, "codes")


def test_more_rows_than_milvus_gives_at_once(milvus_file, table, rng, monkeypatch):
    from sghash.adapters.databases import milvus

    codes = codes_of(rng, 700, 16)
    monkeypatch.setattr(milvus, "_MOST_ROWS", 100)
    monkeypatch.setattr(milvus, "_SENT_ROWS", 150)
    with create(milvus_file, table) as index:
        order = rng.permutation(700)  # pages are told apart by ids, whatever came first
        for start in range(0, 700, 130):
            some = order[start : start + 130]
            index.add(codes[some], ids=some)
        np.testing.assert_array_equal(index.codes, codes)
        np.testing.assert_array_equal(index.codes_of(np.arange(650)[::-1]), codes[:650][::-1])
        index.delete(np.arange(0, 700, 2))
        assert len(index) == 350
        with pytest.raises(InvalidInput, match="give a smaller k"):
            index.search(codes[:1], k=101)
        monkeypatch.setattr(milvus, "_MOST_ANSWERS", 30)
        found = index.search(codes[1:100:2], k=10)
        assert (found.distances[:, 0] == 0).all() and found.ids.shape == (50, 10)
