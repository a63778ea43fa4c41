"""Sources: joining, scaling, keys, and the hash that names content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from sghash.data import content_hash, open_vectors, parts_of
from sghash.data.readers.bigann import open_neighbors
from sghash.data.readers.hdf5 import read_metric
from sghash.data.readers.idx import read_labels
from sghash.data.sources import ArraySource, JoinedSource, ScaledSource
from sghash.errors import BadFile, InvalidDtype, InvalidInput


def test_hash_depends_on_shape_type_and_numbers() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    hashes = {
        content_hash(array),
        content_hash(array.reshape(4, 3)),
        content_hash(array.astype(np.float64)),
        content_hash(array + np.eye(3, 4, dtype=np.float32)),
        content_hash(array.view(np.int32)),
    }
    assert len(hashes) == 5
    # Neither byte order, memory order nor the size of blocks matters.
    assert content_hash(array.astype(">f4")) == content_hash(np.asfortranarray(array))
    assert content_hash(array) == content_hash(ArraySource(array))


def test_hash_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(400, dtype=np.int16).reshape(100, 4)
    whole = content_hash(array)
    monkeypatch.setattr("sghash.data.sources.BLOCK_BYTES", 50)
    assert content_hash(array) == whole


def test_scaled_rows_are_multiplied() -> None:
    whole = np.arange(6, dtype=np.int8).reshape(2, 3)
    scaled = ScaledSource(ArraySource(whole), 0.5)
    assert scaled.dtype == np.float32
    assert np.array_equal(np.asarray(scaled), whole * np.float32(0.5))


def test_parts_must_agree() -> None:
    with pytest.raises(InvalidInput, match="differ in width or type"):
        JoinedSource([ArraySource(np.ones((2, 3))), ArraySource(np.ones((2, 4)))])
    with pytest.raises(InvalidInput, match="nothing to join"):
        JoinedSource([])


def _write_arrow(path: Path, table: Any) -> None:
    import pyarrow.feather
    import pyarrow.parquet

    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, path)


def _write_table(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Tables of one width, whose columns each format calls by the names given."""
    import pyarrow as pa

    table = pa.table({name: list(rows) for name, rows in columns.items()})
    if path.suffix in (".parquet", ".feather"):
        _write_arrow(path, table)
    elif path.suffix == ".jsonl":
        lines = [json.dumps({n: np.asarray(v).tolist() for n, v in row.items()})
                 for row in table.to_pylist()]  # fmt: skip
        path.write_text("\n".join(lines))
    elif path.suffix == ".csv":
        cells = [
            ",".join(columns),
            *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
        ]
        path.write_text("\n".join(cells))
    else:
        np.savez(path, **columns)


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".jsonl", ".npz"])
def test_parts_that_choose_other_columns_are_refused(tmp_path: Path, ending: str) -> None:
    one, other = np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32)
    _write_table(tmp_path / f"a{ending}", {"vectors": one, "rows": one, "values": other})
    first = open_vectors(tmp_path / f"a{ending}").columns[0]
    _write_table(tmp_path / f"b{ending}", {"rows": one})
    with pytest.raises(InvalidInput, match=rf"b{ending} .* rows, .*a{ending} from {first}: name"):
        open_vectors(tmp_path)
    assert np.array_equal(np.asarray(open_vectors(tmp_path, key="rows")), np.ones((6, 4)))


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".csv"])
def test_parts_whose_columns_stand_in_another_order_are_refused(
    tmp_path: Path, ending: str
) -> None:
    columns = {name: np.full(3, i + 0.5, np.float32) for i, name in enumerate("xyz")}
    _write_table(tmp_path / f"a{ending}", columns)
    _write_table(tmp_path / f"b{ending}", dict(reversed(columns.items())))
    with pytest.raises(InvalidInput, match=rf"b{ending} .* z, y, x in another order, .* x, y, z"):
        open_vectors(tmp_path)
    assert open_vectors(tmp_path / f"b{ending}").columns == ("z", "y", "x")


@pytest.mark.parametrize(
    "ending", [".npy", ".npz", ".parquet", ".feather", ".fbin", ".hdf5", ".safetensors", ".csv"]
)
def test_parts_without_rows_are_skipped(tmp_path: Path, ending: str) -> None:
    """An engine writes a part for every worker, also for one that had nothing to write."""
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    for folder, parts in (("some", (rows[:0], rows, rows[:0])), ("none", (rows[:0], rows[:0]))):
        (tmp_path / folder).mkdir()
        for name, part in zip("abc", parts, strict=False):
            _write_rows(tmp_path / folder / f"{name}{ending}", part)
    assert np.array_equal(np.asarray(open_vectors(tmp_path / "some")), rows)
    assert [part.path.name for part in parts_of(tmp_path / "some")] == [f"b{ending}"]
    files = [tmp_path / "some" / f"{name}{ending}" for name in "ab"]
    assert np.array_equal(np.asarray(open_vectors(files)), rows)
    with pytest.raises(InvalidInput, match=rf"none of 2 files has a row, .*a{ending} is the first"):
        open_vectors(tmp_path / "none")
    with pytest.raises(BadFile):
        open_vectors(files[0])
    files[0].write_bytes(b"")  # which is not whole
    with pytest.raises(BadFile):
        open_vectors(tmp_path / "some")


def _write_rows(path: Path, rows: np.ndarray) -> None:
    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.suffix == ".fbin":
        path.write_bytes(np.array(rows.shape, np.uint32).tobytes() + rows.tobytes())
    elif path.suffix == ".hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["train"] = rows
    elif path.suffix == ".safetensors":
        save_file({"vectors": rows}, path)
    elif path.suffix == ".csv":
        _write_table(path, dict(zip("wxyz", rows.T, strict=True)))
    elif path.suffix == ".npz":
        np.savez(path, vectors=rows)
    else:
        import pyarrow as pa

        column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 4)
        _write_arrow(path, pa.table({"vectors": column}))


def test_parts_without_names_are_joined_as_they_stand(tmp_path: Path) -> None:
    """A table that was cut into pieces has its names in the first one only."""
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("3,4\n")
    assert np.asarray(open_vectors(tmp_path)).tolist() == [[1, 2], [3, 4]]


def test_arrays_that_are_no_tables() -> None:
    with pytest.raises(InvalidInput, match="two dimensions"):
        ArraySource(np.ones(3))
    with pytest.raises(InvalidDtype, match="real numbers"):
        ArraySource(np.ones((2, 2), dtype=complex))


def test_keys_choose_tables(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", left=np.zeros((2, 3)), right=np.ones((4, 3)))
    with pytest.raises(InvalidInput, match="left, right"):
        open_vectors(tmp_path / "v.npz")
    with pytest.raises(InvalidInput, match="no array 'base'"):
        open_vectors(tmp_path / "v.npz", key="base")
    assert open_vectors(tmp_path / "v.npz", key="right").shape == (4, 3)
    np.save(tmp_path / "v.npy", np.ones((2, 2)))
    with pytest.raises(InvalidInput, match="takes no key"):
        open_vectors(tmp_path / "v.npy", key="x")


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_members_stored_or_deflated(tmp_path: Path, compressed: bool) -> None:
    array = np.random.default_rng(0).standard_normal((500, 7))
    save = np.savez_compressed if compressed else np.savez
    save(tmp_path / "v.npz", other=np.arange(3), train=array)
    source = open_vectors(tmp_path / "v.npz")
    assert np.array_equal(source.read(100, 400), array[100:400])
    assert np.array_equal(source.read(10, 20), array[10:20])


@pytest.mark.parametrize(
    "array",
    [
        np.array([[object()]], dtype=object),
        np.array([["a", "b"]]),
        np.ones((2, 2), dtype=complex),
        np.ones((2, 2, 2)),
        np.float32(3.0),
        np.ones((2, 2), dtype=bool),
    ],
    ids=["object", "text", "complex", "3-D", "0-D", "bool"],
)
def test_npy_that_is_no_table_of_numbers(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "v.npy", array, allow_pickle=True)
    with pytest.raises(BadFile, match="byte"):
        open_vectors(tmp_path / "v.npy")


def test_big_endian_npy_becomes_native(tmp_path: Path) -> None:
    array = np.arange(6, dtype=">i4").reshape(2, 3)
    np.save(tmp_path / "v.npy", array)
    source = open_vectors(tmp_path / "v.npy")
    assert source.dtype == np.dtype(np.int32) and source.dtype.isnative
    assert np.array_equal(np.asarray(source), array)


def test_fvecs_rows_of_another_width_are_named(tmp_path: Path) -> None:
    rows = np.zeros((5, 4), dtype=np.int32)
    rows[:, 0] = 3
    rows[3, 0] = 2
    rows.tofile(tmp_path / "v.ivecs")
    with pytest.raises(BadFile, match="byte 48: expected width 3 before row 3, found 2"):
        np.asarray(open_vectors(tmp_path / "v.ivecs"))


def test_parquet_lists_must_be_whole_and_equal(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    lists = {
        "ragged": [[1.0, 2.0]] * 9 + [[1.0]] + [[1.0, 2.0, 3.0]],
        "null row": [[1.0, 2.0]] * 9 + [None],
        "null value": [[1.0, 2.0]] * 9 + [[1.0, None]],
    }
    for name, rows in lists.items():
        parquet.write_table(arrow.table({"v": rows}), tmp_path / f"{name}.parquet")
        with pytest.raises(BadFile, match=r"byte \d+: expected"):
            np.asarray(open_vectors(tmp_path / f"{name}.parquet"))
    table = arrow.table({"a": [[1.0]], "b": [[2.0]], "text": ["x"]})
    parquet.write_table(table, tmp_path / "two.parquet")
    with pytest.raises(InvalidInput, match="a, b"):
        open_vectors(tmp_path / "two.parquet")
    assert np.asarray(open_vectors(tmp_path / "two.parquet", key="b")).tolist() == [[2.0]]
    with pytest.raises(InvalidInput, match="no column 'text'"):
        open_vectors(tmp_path / "two.parquet", key="text")


def test_hdf5_datasets_links_and_fills(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["train"] = np.ones((4, 3))
    with h5py.File(tmp_path / "v.hdf5", "w") as file:
        file["train"], file["test"] = np.ones((4, 3), np.float32), np.zeros((2, 3))
        file["away"] = h5py.ExternalLink("/etc/passwd", "/x")
        file["group"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "/")
        file.create_dataset("vast", shape=(10**12, 10**6), dtype="f4", chunks=(1, 10))
        file.attrs["distance"] = "angular"
    assert open_vectors(tmp_path / "v.hdf5").shape == (4, 3)
    assert open_vectors(tmp_path / "v.hdf5", key="test").dtype == np.float64
    assert read_metric(tmp_path / "v.hdf5") == "cosine"
    for key in ("away", "/away", "group/train", "./group//train"):
        with pytest.raises(BadFile, match="a link"):
            open_vectors(tmp_path / "v.hdf5", key=key)
    with pytest.raises(BadFile, match="bytes of storage"):
        open_vectors(tmp_path / "v.hdf5", key="vast")
    with pytest.raises(InvalidInput, match=r"it has test \(2, 3\), train \(4, 3\), vast"):
        open_vectors(tmp_path / "v.hdf5", key="base")


def test_bigann_ground_truth(tmp_path: Path) -> None:
    ids = np.array([[3, 1], [0, 2]], dtype=np.uint32)
    distances = np.array([[0.5, 1.5], [0.0, 2.0]], dtype=np.float32)
    header = np.array([2, 2], dtype=np.uint32)
    (tmp_path / "gt").write_bytes(header.tobytes() + ids.tobytes() + distances.tobytes())
    assert np.asarray(open_neighbors(tmp_path / "gt", 2)).tolist() == ids.tolist()
    # As many bytes, but of other rows.
    header[:] = 1, 4
    (tmp_path / "gt").write_bytes(header.tobytes() + ids.tobytes() + distances.tobytes())
    with pytest.raises(BadFile, match="neighbours of 2 queries, found those of 1"):
        open_neighbors(tmp_path / "gt", 2)
    (tmp_path / "gt").write_bytes(header.tobytes() + ids.tobytes())
    with pytest.raises(BadFile, match="expected 40 bytes"):
        open_neighbors(tmp_path / "gt", 1)


def test_idx_labels(tmp_path: Path) -> None:
    path = tmp_path / "labels-ubyte"
    path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 4, 9, 8, 7, 6]))
    assert read_labels(path).tolist() == [9, 8, 7, 6]
    with pytest.raises(BadFile, match="at least two dimensions"):
        open_vectors(path)


def test_folders_of_several_formats_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    np.savez(tmp_path / "b.npz", x=np.ones((2, 2)))
    with pytest.raises(InvalidInput, match="of one format"):
        open_vectors(tmp_path)


def test_a_row_of_a_large_row_group_does_not_load_the_group(tmp_path: Path) -> None:
    """Many files of a folder may be half read at a time: each must hold little."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = np.random.default_rng(0).standard_normal((100_000, 64)).astype(np.float32)
    for name in "ab":
        column = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 64)
        table = pa.table({"vectors": column})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=10**6)
    del column, table
    source, before = open_vectors(tmp_path), pa.total_allocated_bytes()
    for first in (5, 100_005):
        assert np.array_equal(source.read(first, first + 9), rows[5:14])
    assert pa.total_allocated_bytes() - before < rows.nbytes / 2


def test_parquet_columns_whose_names_begin_alike(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table(
        {
            "emb": arrow.array([[1.0, 2.0], [3.0, 4.0]], arrow.list_(arrow.float32())),
            "emb.v2": arrow.array([[1.0, 2.0, 3.0]] * 2, arrow.list_(arrow.float32(), 3)),
            "about": [{"emb": 1, "more": [1, 2]}, {"emb": 2, "more": [3]}],
            "said": arrow.array([[("a", 1)], []], arrow.map_(arrow.string(), arrow.int64())),
            "kind": arrow.array(["x", "y"]).dictionary_encode(),
        }
    )
    arrow.parquet.write_table(table, tmp_path / "v.parquet")
    for key, width in (("emb", 2), ("emb.v2", 3)):
        assert open_vectors(tmp_path / "v.parquet", key=key).shape == (2, width)
