"""One contract for every file format: what a reader returns, and how it refuses damaged files."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from sghash.blocks import VectorSource
from sghash.data import READERS, content_hash, format_of, open_vectors
from sghash.data.sources import RowSource
from sghash.errors import BadFile, InvalidInput, MissingData, SghashError

DTYPES = {
    ".fvecs": np.float32,
    ".bvecs": np.uint8,
    ".ivecs": np.int32,
    ".fbin": np.float32,
    ".f16bin": np.float16,
    ".u8bin": np.uint8,
    ".i8bin": np.int8,
    ".ibin": np.int32,
    "-ubyte": np.uint8,
    "-ubyte.gz": np.uint8,
}
# Headers hold their lengths here: (offset of the first, bytes each, how many, byte order).
LENGTHS = {
    ".fvecs": (0, 4, 1, "little"),
    ".bvecs": (0, 4, 1, "little"),
    ".ivecs": (0, 4, 1, "little"),
    ".fbin": (0, 4, 2, "little"),
    ".f16bin": (0, 4, 2, "little"),
    ".u8bin": (0, 4, 2, "little"),
    ".i8bin": (0, 4, 2, "little"),
    ".ibin": (0, 4, 2, "little"),
    ".idx": (4, 4, 3, "big"),
    "-ubyte": (4, 4, 3, "big"),
}
# They say of themselves neither how long they are nor where they end.
TEXTS = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")
MOST_BYTES = 48 << 20

MISLABELLED = [
    (ending, other)
    for ending in sorted(READERS)
    for other in (".npy", ".npz", ".fvecs", ".u8bin", ".parquet", ".hdf5")
    if READERS[ending] != READERS[other]
]

every_format = pytest.mark.parametrize("ending", sorted(READERS))
every_binary = pytest.mark.parametrize("ending", sorted(set(READERS) - set(TEXTS)))


def example_array(ending: str, n: int = 37, width: int = 12) -> np.ndarray:
    rng = np.random.default_rng(7)
    dtype = np.dtype(DTYPES.get(ending, np.float32))
    if dtype.kind == "f":
        return rng.standard_normal((n, width)).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, (n, width), dtype=dtype, endpoint=True)


def write_foreign(path: Path, array: np.ndarray) -> None:
    """Write `array` as other programs do, without our own writers."""
    ending = format_of(path)
    n, width = array.shape
    if ending == ".npy":
        np.save(path, array)
    elif ending == ".npz":
        np.savez_compressed(path, vectors=array, labels=np.arange(n))
    elif ending in (".fvecs", ".bvecs", ".ivecs"):
        path.write_bytes(b"".join(struct.pack("<i", width) + row.tobytes() for row in array))
    elif ending.endswith("bin"):
        path.write_bytes(struct.pack("<II", n, width) + array.tobytes())
    elif ending in (".hdf5", ".h5"):
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["train"], file["test"] = array, array[:3]
            file.attrs["distance"] = "angular"
    elif ending == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = arrow.table({"id": np.arange(n), "emb": arrow.array(list(array))})
        parquet.write_table(table, path, row_group_size=10)
    elif ending in (".feather", ".arrow", ".ipc"):
        arrow = pytest.importorskip("pyarrow")
        table = arrow.table({"id": np.arange(n), "emb": arrow.array(list(array))})
        if ending == ".feather":
            pytest.importorskip("pyarrow.feather").write_feather(table, str(path), chunksize=10)
        else:
            ipc = pytest.importorskip("pyarrow.ipc")
            make = ipc.new_stream if ending == ".ipc" else ipc.new_file
            with make(str(path), table.schema) as writer:
                writer.write_table(table, max_chunksize=10)
    elif ending == ".safetensors":
        from safetensors.numpy import save_file

        save_file({"vectors": array, "labels": np.arange(n)}, path)
    elif ending in TEXTS:
        rows = [list(map(float, row)) for row in array]
        if ending in (".jsonl", ".ndjson"):
            lines = [json.dumps({"id": i, "embedding": row}) for i, row in enumerate(rows)]
        else:
            between = {".csv": ",", ".tsv": "\t", ".txt": " "}[ending]
            lines = [between.join(map(repr, row)) for row in rows]
        if ending == ".csv":
            lines = [",".join(f"d{i}" for i in range(width)), *lines]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        code = 0x08 if array.dtype == np.uint8 else 0x0D
        # Three dimensions, as images have.
        head = bytes([0, 0, code, 3]) + struct.pack(">III", n, 3, width // 3)
        content = head + array.astype(array.dtype.newbyteorder(">")).tobytes()
        path.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)


def file_of(folder: Path, ending: str, **size: int) -> tuple[Path, np.ndarray]:
    path = folder / f"some{ending}"
    array = example_array(ending, **size)
    write_foreign(path, array)
    return path, array


def read_all(path: Path) -> np.ndarray:
    """Open and read everything in blocks, with a ceiling on what may be allocated."""
    tracemalloc.start()
    try:
        source = open_vectors(path)
        return np.concatenate(list(source.batches(16)))
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MOST_BYTES, f"{path} made the reader allocate {peak} bytes"


def assert_refused(path: Path) -> None:
    with pytest.raises(BadFile) as caught:
        read_all(path)
    sentence = str(caught.value)
    place = ", line " if path.suffix in TEXTS else ", byte "
    assert str(path) in sentence and place in sentence and "expected " in sentence, sentence


@every_format
def test_rows_are_those_in_the_file(tmp_path: Path, ending: str) -> None:
    path, array = file_of(tmp_path, ending)
    source = open_vectors(path)
    assert isinstance(source, RowSource) and isinstance(source, VectorSource)
    assert source.shape == array.shape and source.dtype == array.dtype and len(source) == 37
    # In order, backwards, overlapping, and nothing at all.
    for start, stop in [(0, 37), (0, 5), (5, 30), (29, 37), (3, 4), (12, 12), (36, 37), (0, 1)]:
        block = source.read(start, stop)
        assert block.dtype == array.dtype and block.shape == (stop - start, 12)
        assert np.array_equal(block, array[start:stop])
    assert np.array_equal(np.asarray(source), array)
    assert np.asarray(source, dtype=np.float64).dtype == np.float64
    assert content_hash(source) == content_hash(array)


@every_format
def test_batches_and_shards_cover_every_row_once(tmp_path: Path, ending: str) -> None:
    path, array = file_of(tmp_path, ending)
    source = open_vectors(path)
    batches = list(source.batches(10))
    assert [len(batch) for batch in batches] == [10, 10, 10, 7]
    assert np.array_equal(np.concatenate(batches), array)
    for of in (1, 2, 5, 40):
        parts = [source.shard(rank, of) for rank in range(of)]
        sizes = [part.shape[0] for part in parts]
        assert sum(sizes) == 37 and max(sizes) - min(sizes) <= 1
        assert np.array_equal(np.concatenate([np.asarray(part) for part in parts]), array)
    shard = open_vectors(path, start=10, stop=30).shard(1, 2)
    assert np.array_equal(np.asarray(shard), array[20:30])


@every_format
def test_a_source_travels_to_another_process(tmp_path: Path, ending: str) -> None:
    path, array = file_of(tmp_path, ending)
    source = open_vectors(path)
    source.read(0, 20)
    twin = pickle.loads(pickle.dumps(source))
    assert np.array_equal(np.asarray(twin), array)
    assert np.array_equal(source.read(20, 37), array[20:])


@every_format
def test_parts_are_joined_in_order(tmp_path: Path, ending: str) -> None:
    path, array = file_of(tmp_path, ending)
    second = tmp_path / f"twin{ending}"
    second.write_bytes(path.read_bytes())
    both = np.concatenate([array, array])
    for source in (open_vectors(tmp_path), open_vectors([path, second])):
        assert np.array_equal(np.asarray(source), both)
        assert np.array_equal(source.read(30, 50), both[30:50])


@every_format
def test_ranges_outside_are_refused(tmp_path: Path, ending: str) -> None:
    source = open_vectors(file_of(tmp_path, ending)[0])
    for start, stop in [(-1, 3), (0, 38), (5, 4), (38, 38)]:
        with pytest.raises(InvalidInput, match="has 37"):
            source.read(start, stop)
    for rank, of in [(2, 2), (-1, 3), (0, 0)]:
        with pytest.raises(InvalidInput, match="does not exist"):
            source.shard(rank, of)
    with pytest.raises(InvalidInput):
        open_vectors(tmp_path / f"some{ending}", start=3, stop=99)


@every_format
def test_missing_and_unknown_names(tmp_path: Path, ending: str) -> None:
    with pytest.raises(MissingData, match="there is no file"):
        open_vectors(tmp_path / f"nothing{ending}")
    with pytest.raises(InvalidInput, match="known ending"):
        open_vectors(tmp_path / "vectors.doc")


@every_format
def test_an_empty_file_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"empty{ending}"
    path.write_bytes(b"")
    assert_refused(path)


@every_binary
@pytest.mark.parametrize("kept", [0.02, 0.2, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path: Path, ending: str, kept: float) -> None:
    path, _ = file_of(tmp_path, ending)
    content = path.read_bytes()
    path.write_bytes(content[: max(1, int(len(content) * kept))])
    assert_refused(path)


# The other formats allow bytes after their end.
@pytest.mark.parametrize("ending", sorted(set(READERS) - {".npz", ".hdf5", ".h5", ".ipc", *TEXTS}))
def test_a_file_with_more_than_it_announces_is_refused(tmp_path: Path, ending: str) -> None:
    path, _ = file_of(tmp_path, ending)
    with open(path, "ab") as stream:
        stream.write(gzip.compress(b"123") if ending.endswith(".gz") else b"123")
    assert_refused(path)


@pytest.mark.parametrize(("ending", "other"), MISLABELLED)
def test_a_mislabelled_file_is_refused(tmp_path: Path, ending: str, other: str) -> None:
    wrong, _ = file_of(tmp_path, other)
    path = tmp_path / f"named{ending}"
    path.write_bytes(wrong.read_bytes())
    assert_refused(path)
    if other not in (".fvecs", ".u8bin"):
        with pytest.raises(BadFile, match=f"begins like {other}"):
            open_vectors(path)


@pytest.mark.parametrize("ending", sorted(LENGTHS))
@pytest.mark.parametrize("value", [0, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
def test_impossible_lengths_are_refused(tmp_path: Path, ending: str, value: int) -> None:
    first, width, count, order = LENGTHS[ending]
    for place in range(count):
        path, _ = file_of(tmp_path, ending)
        content = bytearray(path.read_bytes())
        at = first + place * width
        content[at : at + width] = value.to_bytes(4, order)
        path.write_bytes(content)
        assert_refused(path)


@pytest.mark.parametrize(
    "shape", ["(-1, 12)", "(37, -12)", "(10**12, 12)", "(37, 2**70)", "(0, 12)"]
)
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_impossible_shapes_in_numpy_headers_are_refused(
    tmp_path: Path, ending: str, shape: str
) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {eval(shape)}, }}\n".encode()
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(37 * 12 * 4)
    path = tmp_path / f"some{ending}"
    if ending == ".npy":
        path.write_bytes(content)
    else:
        import zipfile

        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("vectors.npy", content)
    assert_refused(path)


@every_binary
def test_a_file_that_shrinks_while_open_is_refused(tmp_path: Path, ending: str) -> None:
    path, _ = file_of(tmp_path, ending, n=3000)
    source = open_vectors(path)
    source.read(0, 10)
    os.truncate(path, path.stat().st_size // 3)
    with pytest.raises(BadFile, match="byte"):
        source.read(0, 3000)


@every_format
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
@given(data=st.data())
@example(data=None)
def test_damage_anywhere_never_crashes(tmp_path: Path, ending: str, data: st.DataObject) -> None:
    """Bytes changed, cut out or inserted: an error of ours, or a table that could be that file."""
    path, _ = file_of(tmp_path, ending)
    content = bytearray(path.read_bytes())
    if data is not None:
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, max(len(content) - 1, 0)))
            piece = data.draw(st.binary(min_size=0, max_size=8))
            cut = data.draw(st.sampled_from([0, 1, len(piece), 64]))
            content[at : at + cut] = piece
    path.write_bytes(content)
    sentence, rows = str(path), np.zeros((1, 1))
    try:
        rows = read_all(path)
    except SghashError as error:
        sentence = str(error)
    assert str(path) in sentence
    assert rows.ndim == 2 and rows.dtype.kind in "fiu"
