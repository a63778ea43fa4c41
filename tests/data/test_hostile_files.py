"""Files made to mislead a reader: one sentence, and no memory for what they only claim."""

from __future__ import annotations

import gzip
import io
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sghash.data import convert, open_vectors
from sghash.data.readers import hdf5, npy, npz, parquet, stream
from sghash.data.readers.images import JpegRows
from sghash.errors import BadFile, InvalidDtype

# What `np.load` answers to these is TokenError, SyntaxError, MemoryError or worse.
HEADERS = [
    "{'descr': '<i8', 'fortran_order': False, 'shape': (3",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (3L,), }'''",
    "(" * 5000,
    "{'descr': '<i8', 'fortran_order': False, 'shape': (1" + "0" * 5000 + ",), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000000,), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (-3,), }",
    "{'descr': '<U900000000', 'fortran_order': False, 'shape': (), }",
    "{'descr': '(2', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '<i8', 'fortran_order': 3, 'shape': (1, 3), }",
    "[]",
]


def npy_file(header: str, content: bytes = bytes(24)) -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_headers_of_npy_and_npz(tmp_path: Path, header: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy_file(header))
    with pytest.raises(BadFile, match="expected"):
        npy.read_array(path)
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("labels.npy", npy_file(header))
    with pytest.raises(BadFile, match="expected"):
        npz.read_array(tmp_path / "x.npz", "labels")


def test_whole_arrays_are_read(tmp_path: Path) -> None:
    for array in (np.arange(6).reshape(2, 3), np.float32(2.5), np.array([True, False])):
        np.save(tmp_path / "x.npy", array)
        assert np.array_equal(npy.read_array(tmp_path / "x.npy"), array)
        np.savez_compressed(tmp_path / "x.npz", labels=array, text="a\nbé")
        assert np.array_equal(npz.read_array(tmp_path / "x.npz", "labels"), array)
        assert str(npz.read_array(tmp_path / "x.npz", "text")) == "a\nbé"


def test_arrays_in_archives_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, labels=np.zeros(1000), one=np.float32(3), text=np.array("abc"))
    assert npz.read_number(path, "one") == 3
    for key in ("labels", "text"):
        with pytest.raises(BadFile, match="one number"):
            npz.read_number(path, key)
    monkeypatch.setattr(npz, "MAX_ARRAY_BYTES", 5000)
    with pytest.raises(BadFile, match="at most 5000 bytes"):
        npz.read_array(path, "labels")


def test_numbers_that_are_no_characters(tmp_path: Path) -> None:
    header = "{'descr': '<U1', 'fortran_order': False, 'shape': (), }"
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("text.npy", npy_file(header, b"\xff" * 4))
    with pytest.raises(BadFile, match="no characters"):
        npz.read_array(tmp_path / "x.npz", "text")


def test_a_row_of_gigabytes_in_a_small_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_ROW_BYTES", 100)
    head = bytes([0, 0, 8, 2]) + struct.pack(">II", 2, 101)
    (tmp_path / "x.idx.gz").write_bytes(gzip.compress(head + bytes(202)))
    with pytest.raises(BadFile, match="rows of at most 100 bytes"):
        open_vectors(tmp_path / "x.idx.gz")
    pytest.importorskip("pyarrow")
    convert(np.zeros((3, 12), np.float32), tmp_path / "x.parquet")
    monkeypatch.setattr(parquet, "MAX_WIDTH", 11)
    with pytest.raises(BadFile, match="at most 11 numbers"):
        open_vectors(tmp_path / "x.parquet")


def test_chunks_and_names_of_hdf5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file.create_dataset("train", data=np.zeros((40, 3)), chunks=(20, 3), compression="gzip")
        file.attrs["distance"] = np.bytes_(b"\xff\xfe")
    assert open_vectors(tmp_path / "x.hdf5").shape == (40, 3)
    with pytest.raises(BadFile, match="damage"):
        hdf5.read_metric(tmp_path / "x.hdf5")
    monkeypatch.setattr(hdf5, "MAX_CHUNK_BYTES", 400)
    with pytest.raises(BadFile, match="chunks of at most 400 bytes"):
        open_vectors(tmp_path / "x.hdf5")


@pytest.mark.parametrize(
    ("content", "offsets"),
    [
        (np.zeros((2, 2), np.uint8), [0, 1]),
        (np.uint8(3), [0, 1]),
        (np.zeros(9, np.uint8), ["a", "b"]),
        (np.zeros(9, np.uint8), [[0, 1], [2, 3]]),
        (np.zeros(9, np.uint8), [0.0, 1.0]),
        (np.zeros(9, np.uint8), [-1, 3]),
        (np.zeros(9, np.uint8), [0, 10]),
        (np.zeros(9, np.uint8), [0]),
    ],
    ids=range(8),
)
def test_pictures_that_are_none(tmp_path: Path, content: Any, offsets: Any) -> None:
    np.savez(tmp_path / "x.npz", jpeg=content, offsets=np.asarray(offsets))
    with pytest.raises(BadFile, match="ascending offsets"):
        JpegRows(tmp_path / "x.npz")


def test_a_picture_too_large_to_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pillow = pytest.importorskip("PIL.Image")
    stored = io.BytesIO()
    pillow.new("RGB", (64, 64)).save(stored, "JPEG")
    content = np.frombuffer(stored.getvalue(), np.uint8)
    np.savez(tmp_path / "x.npz", jpeg=content, offsets=np.array([0, len(content)]))
    monkeypatch.setattr(pillow, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(BadFile, match="a JPEG file for row 0"):
        JpegRows(tmp_path / "x.npz").read(0, 1)


@pytest.mark.parametrize("dtype", ["(2", ">>i4", "f4:", "a5", "4é", "4]"])
def test_types_that_are_none(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(InvalidDtype):
        convert(np.zeros((2, 2)), tmp_path / "x.npy", dtype=dtype)


def test_a_pipe_is_no_file_of_vectors(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.npy")
    with pytest.raises(BadFile, match="is a pipe and cannot be read as a file"):
        open_vectors(tmp_path / "x.npy")
