"""Sources: joining, scaling, keys, and the hash that names content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sghash.data import content_hash, open_vectors
from sghash.data.readers.bigann import read_neighbors
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
    with h5py.File(tmp_path / "v.hdf5", "w") as file:
        file["train"], file["test"] = np.ones((4, 3), np.float32), np.zeros((2, 3))
        file["away"] = h5py.ExternalLink("/etc/passwd", "/x")
        file.create_dataset("vast", shape=(10**12, 10**6), dtype="f4", chunks=(1, 10))
        file.attrs["distance"] = "angular"
    assert open_vectors(tmp_path / "v.hdf5").shape == (4, 3)
    assert open_vectors(tmp_path / "v.hdf5", key="test").dtype == np.float64
    assert read_metric(tmp_path / "v.hdf5") == "cosine"
    with pytest.raises(BadFile, match="a link"):
        open_vectors(tmp_path / "v.hdf5", key="away")
    with pytest.raises(BadFile, match="bytes of storage"):
        open_vectors(tmp_path / "v.hdf5", key="vast")
    with pytest.raises(InvalidInput, match=r"it has test \(2, 3\), train \(4, 3\), vast"):
        open_vectors(tmp_path / "v.hdf5", key="base")


def test_bigann_ground_truth(tmp_path: Path) -> None:
    ids = np.array([[3, 1], [0, 2]], dtype=np.uint32)
    distances = np.array([[0.5, 1.5], [0.0, 2.0]], dtype=np.float32)
    header = np.array([2, 2], dtype=np.uint32)
    (tmp_path / "gt").write_bytes(header.tobytes() + ids.tobytes() + distances.tobytes())
    neighbors = read_neighbors(tmp_path / "gt")
    assert neighbors.ids.tolist() == ids.tolist() and neighbors.ids.dtype == np.int64
    assert neighbors.distances.tolist() == distances.tolist()
    (tmp_path / "gt").write_bytes(header.tobytes() + ids.tobytes())
    with pytest.raises(BadFile, match="expected 40 bytes"):
        read_neighbors(tmp_path / "gt")


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
