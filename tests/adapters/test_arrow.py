"""Codes in Parquet and Arrow files, and a Polars expression over them."""

from __future__ import annotations

import numpy as np
import pytest

from sghash import HammingIndex
from sghash.adapters.databases.polars import hamming_distance, nearest
from sghash.adapters.exports.arrow import (
    describe_codes,
    from_arrow,
    read_codes,
    to_arrow,
    write_codes,
)
from sghash.bits import pack_bits
from sghash.errors import BadFile, InvalidInput, NewerFormat

FINGERPRINT = "ab" * 32


def random_codes(rng, n, n_bits):
    return pack_bits(rng.random((n, n_bits)) < 0.5)


@pytest.mark.parametrize("layout", ["words", "bytes"])
@pytest.mark.parametrize("name", ["codes.parquet", "codes.arrow"])
@pytest.mark.parametrize(("n", "n_bits"), [(30, 5), (30, 64), (1, 100), (0, 100)])
def test_there_and_back(layout, name, n, n_bits, tmp_path, rng):
    codes, ids = random_codes(rng, n, n_bits).reshape(n, -(-n_bits // 8)), rng.permutation(99)[:n]
    path = tmp_path / name
    write_codes(path, codes, n_bits=n_bits, fingerprint=FINGERPRINT, ids=ids, layout=layout)
    again = read_codes(path)
    np.testing.assert_array_equal(again.codes, codes)
    np.testing.assert_array_equal(again.ids, ids)
    assert again.about == describe_codes(path) == (n_bits, FINGERPRINT, layout)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_files_of_others_are_refused(tmp_path, rng):
    import pyarrow.parquet

    table = to_arrow(random_codes(rng, 4, 12), n_bits=12, fingerprint=FINGERPRINT)
    with pytest.raises(BadFile, match="does not say whose"):
        from_arrow(table.replace_schema_metadata(None))
    newer = table.schema.metadata | {b"sghash.format": b"2"}
    with pytest.raises(NewerFormat, match="upgrade"):
        from_arrow(table.replace_schema_metadata(newer))
    with pytest.raises(BadFile, match="'w0' is missing"):
        from_arrow(table.drop_columns("w0"))
    with pytest.raises(BadFile, match="'w0' is int64, expected uint64"):
        from_arrow(table.set_column(1, "w0", table["id"]))
    longer = pyarrow.array(np.full(4, 1, np.uint64))
    with pytest.raises(InvalidInput, match="longer codes"):
        from_arrow(table.set_column(1, "w0", longer))
    path = tmp_path / "other.parquet"
    for said in (None, {b"\xff\xfe": b"\xff"}, {b"sghash.format": b"\xff"}):
        foreign = pyarrow.table({"id": [1]}).replace_schema_metadata(said)
        pyarrow.parquet.write_table(foreign, path)
        with pytest.raises(BadFile, match="does not say whose"):
            read_codes(path)


def test_an_id_twice_is_refused(tmp_path, rng):
    codes = random_codes(rng, 3, 12)
    for call in (
        lambda: to_arrow(codes, n_bits=12, fingerprint=FINGERPRINT, ids=[7, 1, 7]),
        lambda: write_codes(
            tmp_path / "x.parquet", codes, n_bits=12, fingerprint=FINGERPRINT, ids=[7, 1, 7]
        ),
    ):
        with pytest.raises(InvalidInput, match="id 7 is given twice"):
            call()
    assert not list(tmp_path.iterdir())


def test_more_files_of_others_are_refused(tmp_path, rng):
    path = tmp_path / "other.parquet"
    with pytest.raises(InvalidInput, match="there is no file"):
        read_codes(tmp_path / "none.parquet")
    with pytest.raises(InvalidInput, match=r"model\.fingerprint_"):
        write_codes(path, np.zeros((1, 2), np.uint8), n_bits=12, fingerprint="mine")


@pytest.mark.parametrize("n_bits", [8, 64, 100, 256])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_polars_expression_gives_the_same_answer(n_bits, lazy, rng):
    polars = pytest.importorskip("polars")
    codes, queries = random_codes(rng, 300, n_bits), random_codes(rng, 4, n_bits)
    index = HammingIndex(n_bits)
    ids = index.add(codes, ids=rng.permutation(1000)[:300])
    frame = polars.from_arrow(to_arrow(codes, n_bits=n_bits, fingerprint=FINGERPRINT, ids=ids))
    right = index.search(queries, 12)
    for row, query in enumerate(queries):
        found = nearest(frame.lazy() if lazy else frame, query, n_bits, 12)
        found = found.collect() if lazy else found
        assert found["id"].to_list() == right.ids[row].tolist()
        assert found["distance"].to_list() == right.distances[row].tolist()
    with pytest.raises(InvalidInput, match="one query"):
        hamming_distance(queries, n_bits)


@pytest.mark.parametrize("claimed", [1004, 3_001_003, 40_001_003])
@pytest.mark.parametrize("layout", ["words", "bytes"])
def test_a_length_that_is_only_claimed_is_refused(layout, claimed, tmp_path, rng):
    path = tmp_path / "codes.arrow"
    codes = random_codes(rng, 1003, 64)
    write_codes(path, codes, n_bits=64, fingerprint=FINGERPRINT, layout=layout)
    whole = path.read_bytes()
    path.write_bytes(whole.replace((1003).to_bytes(8, "little"), claimed.to_bytes(8, "little")))
    with pytest.raises(BadFile):
        read_codes(path)
