"""Files as other people's programs write them: text, columns, groups, capitals, pipes, gaps."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from sghash.data import open_vectors
from sghash.data.choosing import Column, choose
from sghash.errors import BadFile, InvalidInput, MissingExtra

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
h5py = pytest.importorskip("h5py")


@pytest.fixture
def table():
    return np.random.default_rng(5).normal(size=(23, 12)).astype(np.float32)


def same(path, array, **options):
    source = open_vectors(path, **options)
    assert source.shape == array.shape
    np.testing.assert_array_equal(source.read(3, 9), array[3:9])
    np.testing.assert_array_equal(np.asarray(source), array)
    return True


@pytest.mark.parametrize("between", [",", ";"])
@pytest.mark.parametrize("header", [None, "plain", "numbered"])
def test_csv_with_and_without_a_header(tmp_path, table, header, between):
    lines = [between.join(map(str, row)) for row in table.tolist()]
    names = {"plain": list("abcdefghijkl"), "numbered": [f"d{i}" for i in range(12)]}
    if header:
        lines = [between.join(names[header]), *lines]
    (tmp_path / "v.CSV").write_text("\ufeff" + "\r\n".join(lines) + "\r\n\r\n", encoding="utf-8")
    assert same(tmp_path / "v.CSV", table)


def test_csv_with_other_columns(tmp_path, table):
    path = tmp_path / "v.csv"
    # In the order of the alphabet, as some programs write them: d0, d1, d10, d11, d2, ...
    order = sorted(range(12), key=str)
    lines = [",".join(["id", "text", *(f"d{i}" for i in order)])]
    for i, row in enumerate(table[:, order].tolist()):
        lines.append(f'{i},"text, {i}",' + ",".join(map(str, row)))
    path.write_text("\n".join(lines))
    assert same(path, table)
    assert same(path, table, key="d*")
    assert same(path, table[:, [3]], key="d3")
    with pytest.raises(InvalidInput, match=r"no column 'x\*'.*it has id \(float\), text \(other\)"):
        open_vectors(path, key="x*")
    path.write_text("id,a,b\n1,2,3\n")
    with pytest.raises(InvalidInput, match="give the column of lists as key, or a pattern"):
        open_vectors(path)


def test_csv_with_a_list_in_a_cell(tmp_path, table):
    path = tmp_path / "v.csv"
    lines = [f'{i},"{json.dumps(row)}"' for i, row in enumerate(table.tolist())]
    path.write_text("\n".join(["id,embedding", *lines]))
    assert same(path, table)
    assert same(path, table, key="embedding")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2\n3\n", "line 2: 1 cells, 2 before"),
        ("a,b\n1,2\n3,x\n", "line 3: expected numbers"),
        ("a,b\n", "line 1: expected one vector per line, found empty lines only"),
        ("a,a\n1,2\n", "a name for each column"),
        ('a,b\n1,"2\n', "expected cells"),
        ("", "an empty file"),
    ],
)
def test_wrong_csv_is_refused_with_its_line(tmp_path, text, said):
    (tmp_path / "v.csv").write_text(text)
    with pytest.raises(BadFile, match=said):
        open_vectors(tmp_path / "v.csv")


def test_json_lines(tmp_path, table):
    lists = [json.dumps(row) for row in table.tolist()]
    (tmp_path / "lists.jsonl").write_text("\n".join(lists))
    assert same(tmp_path / "lists.jsonl", table)
    records = [
        json.dumps({"id": i, "text": "ü", "embedding": row, "other": [1, 2]})
        for i, row in enumerate(table.tolist())
    ]
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(records), encoding="utf-8")
    assert same(path, table) and same(path, table, key="embedding")
    assert open_vectors(path, key="other").shape == (23, 2)
    with pytest.raises(InvalidInput, match=r"no column 'vec'.*embedding \(list\)"):
        open_vectors(path, key="vec")
    path.write_text('{"a": [1, 2], "b": [3, 4]}\n')
    with pytest.raises(InvalidInput, match="no single column of lists of numbers, it has a, b"):
        open_vectors(path)
    path.write_text('{"a": [1, 2]}\n{"b": [3, 4]}\n')
    with pytest.raises(BadFile, match="line 2: expected numbers in a"):
        open_vectors(path)


@pytest.mark.parametrize("save", [np.save, np.savez, np.savez_compressed])
def test_fortran_order(tmp_path, table, save):
    path = tmp_path / ("v.npy" if save is np.save else "v.npz")
    save(path, np.asfortranarray(table))
    assert same(path, table)


def test_one_vector_in_a_file_is_one_row(tmp_path, table):
    np.save(tmp_path / "one.npy", table[0])
    source = open_vectors(tmp_path / "one.npy")
    np.testing.assert_array_equal(np.asarray(source), table[:1])


def write_columns(path, columns):
    made = arrow.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(made, path, row_group_size=10)
    else:
        pytest.importorskip("pyarrow.feather").write_feather(made, str(path), chunksize=10)


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_one_column_per_dimension(tmp_path, table, ending):
    path = tmp_path / f"v{ending}"
    per_dimension = {str(i): table[:, i] for i in sorted(range(12), key=str)}
    write_columns(path, per_dimension)
    assert same(path, table)
    write_columns(path, {"id": np.arange(23), "text": ["x"] * 23, **per_dimension})
    assert same(path, table)
    named = {f"axis {name}": values for name, values in zip("xyz", table.T, strict=False)}
    write_columns(path, {"price": table[:, 5], "id": np.arange(23), **named})
    assert same(path, table[:, :3], key="axis *")
    with pytest.raises(InvalidInput, match="columns that are no coordinates"):
        open_vectors(path)


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_several_columns_of_lists(tmp_path, table, ending):
    path = tmp_path / f"v{ending}"
    lists, short = list(table), list(table[:, :2])
    write_columns(path, {"title": short, "embedding": lists, "other": short})
    assert same(path, table) and same(path, table[:, :2], key="other")
    write_columns(path, {"title": short, "body": lists})
    with pytest.raises(InvalidInput, match="it has title, body: give one as key"):
        open_vectors(path)
    assert same(path, table, key="body")


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
@pytest.mark.parametrize("row", [1, 17])
def test_a_null_is_reported_with_its_row(tmp_path, table, ending, row):
    path = tmp_path / f"v{ending}"
    lists = table.tolist()
    for columns in (
        {"v": [None if i == row else vector for i, vector in enumerate(lists)]},
        {"v": [[None, *vector[1:]] if i == row else vector for i, vector in enumerate(lists)]},
        {f"d{k}": [None if (i, k) == (row, 2) else lists[i][k] for i in range(23)]
         for k in range(12)},
    ):  # fmt: skip
        write_columns(path, columns)
        with pytest.raises(BadFile, match=rf"no missing values in row {row} of .*found a null"):
            np.asarray(open_vectors(path))


def test_safetensors(tmp_path, table):
    numpy = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "v.safetensors"
    numpy.save_file({"embeddings": table, "other": table[:, :2].copy(), "n": np.arange(3)}, path)
    assert same(path, table) and same(path, table[:, :2], key="other")
    with pytest.raises(InvalidInput, match="no tensor 'x', it has embeddings, n, other"):
        open_vectors(path, key="x")
    with pytest.raises(BadFile, match="two dimensions in 'n'"):
        open_vectors(path, key="n")
    halves = (table.view(np.uint32) >> 16).astype(np.uint16)
    head = {"v": {"dtype": "BF16", "shape": [23, 12], "data_offsets": [0, halves.nbytes]}}
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + halves.tobytes())
    assert same(path, (halves.astype(np.uint32) << 16).view(np.float32))


@pytest.mark.parametrize("ending", [".npy", ".fvecs", ".fbin", ".parquet", ".npz", ".tsv"])
def test_endings_in_capitals(tmp_path, table, ending):
    path = tmp_path / f"v{ending.upper()}"
    if ending == ".npy":
        with open(path, "wb") as stream:
            np.save(stream, table)
    elif ending == ".npz":
        with open(path, "wb") as stream:
            np.savez(stream, table)
    elif ending == ".tsv":
        path.write_text("\n".join("\t".join(map(str, row)) for row in table.tolist()))
    elif ending == ".parquet":
        parquet.write_table(arrow.table({"v": list(table)}), path)
    else:
        from sghash import convert

        convert(table, tmp_path / f"v{ending}")
        os.rename(tmp_path / f"v{ending}", path)
    assert same(path, table)


def test_groups_of_hdf5_say_what_is_in_them(tmp_path, table):
    path = tmp_path / "v.h5"
    with h5py.File(path, "w") as file:
        file["deep/inside/vectors"] = table
        file["deep/labels"] = np.arange(23)
    assert same(path, table) and same(path, table, key="deep/inside/vectors")
    with pytest.raises(InvalidInput, match=r"'deep' is a group.*deep/inside/vectors \(23, 12\)"):
        open_vectors(path, key="deep")
    with h5py.File(path, "a") as file:
        file["second"] = table
    with pytest.raises(InvalidInput, match=r"no dataset 'train'.*deep/labels \(23,\), second"):
        open_vectors(path)


def test_a_folder_may_hold_texts_beside_its_parts(tmp_path, table):
    np.save(tmp_path / "a.npy", table)
    (tmp_path / "notes.txt").write_text("not a vector")
    (tmp_path / "labels.csv").write_text("a\nb\n")
    assert same(tmp_path, table)


@pytest.mark.parametrize("ending", [".npy", ".csv", ".parquet", ".h5", ".safetensors"])
def test_a_pipe_is_refused_at_once(tmp_path, ending):
    os.mkfifo(tmp_path / f"p{ending}")
    with pytest.raises(BadFile, match="is a pipe"):
        open_vectors(tmp_path / f"p{ending}")


def test_columns_are_chosen_by_kind_and_name():
    def chosen(*columns, key=None):
        return choose("f", [Column(*column) for column in columns], key)

    assert chosen(("x", "float"), ("y", "float")) == (("x", "y"), False)
    assert chosen(("x", "int"), ("y", "int")) == (("x", "y"), False)
    assert chosen(("2", "float"), ("10", "float"), ("1", "float")).names == ("1", "2", "10")
    assert chosen(("v", "list"), ("x", "float")) == (("v",), True)
    for columns in ([("x", "float"), ("y", "int")], [("id", "int"), ("y", "int")], []):
        with pytest.raises(InvalidInput, match="no coordinates"):
            chosen(*columns)


def test_a_missing_package_is_named_with_a_command(tmp_path, monkeypatch):
    (tmp_path / "v.feather").write_bytes(b"ARROW1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[parquet\]'"):
        open_vectors(tmp_path / "v.feather")
