"""Keys and metadata that come with jobs, out of columns of Parquet files."""

from __future__ import annotations

import datetime
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sghash import Collection, InvalidInput
from sghash.collection import encode_part
from sghash.errors import BadFile

N = 60
KINDS = {"year": "int", "price": "float", "fresh": "bool", "word": "text", "day": "text"}


def table_of(vectors, first=0, **changes):
    n = len(vectors)
    rows = range(first, first + n)
    columns = {
        "vectors": pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1]),
        "name": [f"k{row}" for row in rows],
        "year": pa.array([None if row % 7 == 0 else 2000 + row for row in rows], pa.int32()),
        "price": pa.array([row / 4 for row in rows], pa.float32()),
        "fresh": [row % 3 == 0 for row in rows],
        "word": pa.array([None if row % 5 == 0 else "ä" * (row % 4) for row in rows], pa.string()),
        "day": pa.array([datetime.date(2024, 1, 1 + row % 28) for row in rows]),
    }
    return pa.table(columns | changes)


def write(folder, name, table, groups=11):
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / name, row_group_size=groups)


@pytest.fixture
def files(tmp_path, vectors):
    folder = tmp_path / "files"
    write(folder, "a.parquet", table_of(vectors[:35]))
    write(folder, "b.parquet", table_of(vectors[35:N], 35))
    return folder


WANTED = {"keys": "name", "metadata": list(KINDS)}


def commit(collection, files, job="j", **options):
    tasks = collection.prepare(files, job=job, **options)
    return collection.commit([encode_part(task.to_json()) for task in tasks], job=job)


@pytest.mark.parametrize("keep", [None, "int8"])
def test_they_are_what_add_makes_of_them(tmp_path, model, vectors, files, keep):
    with Collection.create(tmp_path / "c", model, keep_vectors=keep) as one:
        one.add(vectors[90:92], ["p", "q"], {"year": [1, 2]})
        assert commit(one, files, rows_per_part=8, **WANTED) == N
        assert commit(one, files, rows_per_part=8, **WANTED) == N == len(one) - 2
    table = table_of(vectors[:N])
    with Collection.create(tmp_path / "o", model, keep_vectors=keep) as two:
        two.add(vectors[90:92], ["p", "q"], {"year": [1, 2]})
        columns = {name: table[name].to_pylist() for name in KINDS}
        two.add(vectors[:N], table["name"].to_pylist(), columns)
        expected = two.get(two.ids)
    for compacted in (False, True):
        with Collection.open(tmp_path / "c", writable=True) as one:
            if compacted:
                one.compact()
            found = one.get(one.ids)
            assert found.metadata == expected.metadata and found.keys == expected.keys
            assert np.array_equal(found.codes, expected.codes)
            assert one.get(["k41"]).ids.tolist() == [43] and one.verify().n_rows == N + 2
            where = one.search(vectors[:3], 5, where="year > 2040 and fresh")
            assert {2000 + i - 2 for i in where.ids.ravel()} <= set(range(2042, 2060, 3))
            assert dict(one.moment.state.kinds) == KINDS


def test_an_empty_column_has_the_kind_of_its_file(tmp_path, model, vectors):
    nothing = pa.array([None] * 20, pa.float64())
    write(tmp_path / "f", "a.parquet", table_of(vectors[:20], price=nothing))
    with Collection.create(tmp_path / "c", model) as one:
        commit(one, tmp_path / "f", metadata=["price"], rows_per_part=9)
        assert dict(one.moment.state.kinds) == {"price": "float"}


def test_whole_numbers_enter_a_column_of_numbers(tmp_path, model, vectors, files):
    with Collection.create(tmp_path / "c", model) as one:
        one.add(vectors[:1], metadata={"year": [0.5]})
        commit(one, files, metadata=["year"])
        assert one.get([2]).metadata == {"year": [2001.0]}
        write(tmp_path / "t", "a.parquet", table_of(vectors[:5], year=list("abcde")))
        with pytest.raises(InvalidInput, match="holds float values in the collection, text"):
            one.prepare(tmp_path / "t", job="k", metadata=["year"])


def test_floats_enter_a_column_of_whole_numbers_if_they_are_whole(tmp_path, model, vectors, files):
    years = [None, *map(float, range(2001, 2035))]
    write(files, "a.parquet", table_of(vectors[:35], year=pa.array(years, pa.float64())))
    write(files, "b.parquet", table_of(vectors[35:N], 35, year=pa.array([1.5] * 25, pa.float64())))
    with Collection.create(tmp_path / "c", model) as one:
        one.add(vectors[90:91], None, {"year": [1]})
        commit(one, files / "a.parquet", metadata=["year"])
        assert one.get(one.ids).metadata["year"] == [1, None, *range(2001, 2035)]
        with pytest.raises(InvalidInput, match="year"):
            commit(one, files / "b.parquet", job="k", metadata=["year"])


def test_keys_that_are_there_twice_are_refused(tmp_path, model, vectors, files):
    with Collection.create(tmp_path / "c", model) as one:
        one.add(vectors[90:93], ["k58", "other", "k3"])
        one.delete(["k3"])  # one that is gone is no hindrance
        with pytest.raises(InvalidInput, match="'k58' is in the collection already"):
            commit(one, files, keys="name")
        assert len(one) == 2
        one.delete(["k58"])
        commit(one, files, keys="name")
        with pytest.raises(InvalidInput, match="is in the collection already"):
            commit(one, files, job="again", keys="name")
        assert len(one) == N + 1
    write(tmp_path / "two", "a.parquet", table_of(vectors[:5]))
    write(tmp_path / "two", "b.parquet", table_of(vectors[5:9], 4))
    with Collection.create(tmp_path / "d", model) as one:
        with pytest.raises(InvalidInput, match=r"key 'k4' is in the parts 0 and 1 of the job 'j'"):
            commit(one, tmp_path / "two", keys="name")
        assert len(one) == 0
    for names, words in (
        (["a", "b", "a"], "key 'a' is given twice"),
        (["a", None, "c"], "row 1 has no key"),
        (["a", "", "c"], "empty string"),
    ):
        write(tmp_path / "bad", "a.parquet", table_of(vectors[:3], name=names))
        with (
            Collection.create(tmp_path / words[-4:], model) as one,
            pytest.raises(InvalidInput, match=rf"a\.parquet, rows 0 to 2: .*{words}"),
        ):
            commit(one, tmp_path / "bad", keys="name")


def test_columns_that_cannot_be_are_refused_before_anything_is_written(
    tmp_path, model, vectors, files
):
    np.save(tmp_path / "rows.npy", vectors[:4])
    write(tmp_path / "odd", "a.parquet", table_of(vectors[:9]))
    write(tmp_path / "odd", "b.parquet", table_of(vectors[:9], year=[1.5] * 9))
    write(tmp_path / "odd", "c.parquet", table_of(vectors[:9]).drop_columns(["year"]))
    write(tmp_path / "blob", "a.parquet", table_of(vectors[:2], word=[b"a", b"b"]))
    odd = tmp_path / "odd"
    with Collection.create(tmp_path / "c", model) as one:
        for source, options, words in (
            (tmp_path / "rows.npy", {"keys": "name"}, "rows.npy is no Parquet file"),
            (files, {"metadata": ["years"]}, r"a.parquet has no column 'years'.*'year'"),
            (files, {"metadata": "year"}, "list of names"),
            (files, {"keys": 3}, "name of a column"),
            (files, {"keys": "year"}, "'year' holds int values: keys are text"),
            (odd, {"metadata": ["year"]}, r"b.parquet holds float .*a.parquet int: .*one schema"),
            ([odd / "a.parquet", odd / "c.parquet"], {"metadata": ["year"]}, "c.parquet has no"),
            (tmp_path / "blob", {"metadata": ["word"]}, "holds binary"),
        ):
            with pytest.raises(InvalidInput, match=words):
                one.prepare(source, job="j", **options)
    assert not (tmp_path / "c" / "staged").exists()


def test_another_choice_of_columns_is_another_job(tmp_path, model, vectors, files):
    with Collection.create(tmp_path / "c", model) as one:
        some = [encode_part(task) for task in one.prepare(files, job="j", keys="name")]
        rest = [encode_part(task) for task in one.prepare(files, job="j")]
        with pytest.raises(InvalidInput, match="two preparations"):
            one.commit([some[0], rest[1]], job="j")
        one.commit(some, job="j")
        with pytest.raises(InvalidInput, match="prepared otherwise"):
            commit(one, files)


def test_rows_that_came_in_between_are_seen(tmp_path, model, vectors, files):
    with Collection.create(tmp_path / "c", model) as one:
        staged = [encode_part(task) for task in one.prepare(files, job="j", metadata=["year"])]
        one.add(vectors[:1], metadata={"year": ["text"]})
        with pytest.raises(InvalidInput, match="given to other rows"):
            one.commit(staged, job="j")
        assert len(one) == 1


def test_damage_of_columns_is_named(tmp_path, model, files):
    with Collection.create(tmp_path / "c", model) as one:
        (task, *_) = one.prepare(files, job="j", keys="name")
        path = files / "a.parquet"
        data = bytearray(path.read_bytes())
        places = [i for i in range(len(data)) if data[i : i + 2] == b"k1"]
        data[places[0] - 30 : places[0]] = bytes(30)
        path.write_bytes(data)
        os.utime(path, ns=(task.file_time, task.file_time))  # as a bad disk would leave it
        with pytest.raises((BadFile, InvalidInput), match=r"a\.parquet"):
            encode_part(task)
