"""The catalog: every entry is complete, files are found and checked, real sets open as promised."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest

from sghash.data import CATALOG, DataSet, load_dataset, loading as loading_module
from sghash.data.catalog import Entry, Variant
from sghash.data.download import RemoteFile
from sghash.data.loading import BUILT_IN, LOADERS
from sghash.data.readers.images import JpegRows, read_cifar_archive
from sghash.data.readers.word2vec import read_words
from sghash.data.sources import ArraySource
from sghash.errors import BadFile, InvalidInput, MissingData


@pytest.fixture(autouse=True)
def no_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty data folder and an empty cache, unless a test says otherwise."""
    monkeypatch.setenv("SGHASH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SGHASH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_every_entry_says_what_it_is(name: str) -> None:
    entry = CATALOG[name]
    assert entry.about and entry.licence and entry.variants
    assert entry.base[1] == entry.queries[1]
    for variant in entry.variants:
        assert variant.loader in LOADERS
        for file in variant.files:
            assert file.size or file.sha256 or file.md5, "nothing to check the file by"
            assert file.url is None or file.url.startswith(("http://", "https://"))
            assert file.sha256 is None or len(bytes.fromhex(file.sha256)) == 32
            assert file.md5 is None or len(bytes.fromhex(file.md5)) == 16


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_what_is_missing_is_one_sentence_with_the_remedy(name: str) -> None:
    with pytest.raises(MissingData, match="SGHASH_DATA") as caught:
        load_dataset(name, fetch=False)
    names = [variant.files[0].name for variant in CATALOG[name].variants]
    assert any(wanted in str(caught.value) for wanted in names)


def test_files_of_one_address_name_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGHASH_DATA", str(tmp_path))
    monkeypatch.setenv("SGHASH_CACHE", str(tmp_path))
    with pytest.raises(MissingData, match=r"ubyte\.gz from https") as caught:
        load_dataset("mnist", fetch=False)
    assert str(caught.value).count("https") == 1


def test_offline_says_where_to_put_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = RemoteFile("x.npz", "http://127.0.0.1:9/x.npz", 10)
    entry = Entry("a set", "l2", (2, 2), (1, 2), "none", "", (Variant("npz", (file,)),))
    monkeypatch.setitem(CATALOG, "here", entry)
    monkeypatch.setattr("sghash.data.download._WAITS", ())
    with pytest.raises(MissingData, match=r"put x.npz from http://127.0.0.1:9/x.npz into"):
        load_dataset("here")


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="clusters, deep-image"):
        load_dataset("nothing")


def entry_of(path: Path, monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    content = path.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    file = RemoteFile(path.name, size=len(content), sha256=sha256)._replace(**changes)
    entry = Entry("a set", "ip", (4, 2), (2, 2), "none", "", (Variant("npz", (file,)),))
    monkeypatch.setitem(CATALOG, "here", entry)


def test_labels_texts_and_scale(no_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = np.arange(8, dtype=np.int8).reshape(4, 2)
    np.savez(
        no_folders / "x.npz",
        base=base,
        query=base[:2],
        scale=np.float32(0.5),
        base_labels=np.arange(4),
        base_texts="a\nb\nc\nd",
        query_words="e\nf",
    )
    entry_of(no_folders / "x.npz", monkeypatch)
    found = load_dataset("here")
    assert isinstance(found, DataSet) and found.metric == "ip" and found.name == "here"
    assert np.array_equal(np.asarray(found.base), base * np.float32(0.5))
    assert found.base_labels is not None and found.base_labels.tolist() == [0, 1, 2, 3]
    assert found.base_texts == ["a", "b", "c", "d"] and found.query_texts == ["e", "f"]
    assert found.query_labels is None
    loaded = found.in_memory()
    assert loaded.checksum == found.checksum
    assert isinstance(loaded.base, ArraySource)


def test_wrong_files_are_refused(no_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = no_folders / "x.npz"
    np.savez(path, base=np.ones((5, 2)), query=np.ones((2, 2)))
    entry_of(path, monkeypatch)
    with pytest.raises(BadFile, match=r"shape \(5, 2\), expected \(4, 2\)"):
        load_dataset("here")
    entry_of(path, monkeypatch, sha256="0" * 64)
    with pytest.raises(BadFile, match="sha256"):
        load_dataset("here")
    # A file of another size is another file: it counts as not here.
    entry_of(path, monkeypatch, size=7)
    with pytest.raises(MissingData, match=r"x\.npz"):
        load_dataset("here")
    assert path.exists()


def test_a_folder_of_the_sets_name_comes_first(
    no_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(no_folders / "x.npz", base=np.ones((4, 2)), query=np.ones((2, 2)))
    (no_folders / "here").mkdir()
    np.savez(no_folders / "here" / "x.npz", base=np.zeros((4, 2)), query=np.ones((2, 2)))
    entry_of(no_folders / "here" / "x.npz", monkeypatch)
    assert np.asarray(load_dataset("here").base).sum() == 0


def test_rows_labels_and_widths_must_agree() -> None:
    base, queries = ArraySource(np.ones((3, 2))), ArraySource(np.ones((2, 2)))
    with pytest.raises(BadFile, match="2 labels for 3 rows of the base"):
        DataSet("x", base, queries, base_labels=np.arange(2))
    with pytest.raises(BadFile, match="3 texts for 2 rows of the query"):
        DataSet("x", base, queries, query_texts=["a", "b", "c"])
    with pytest.raises(BadFile, match="2 wide"):
        DataSet("x", base, ArraySource(np.ones((2, 3))))
    with pytest.raises(InvalidInput, match="metric"):
        DataSet("x", base, queries, metric="cos")


def test_checksum_depends_on_base_queries_and_metric() -> None:
    one, two = ArraySource(np.ones((3, 2))), ArraySource(np.zeros((2, 2)))
    sums = {DataSet("x", a, b, m).checksum for a, b, m in [(one, two, "l2"), (two, one, "l2")]}
    sums |= {DataSet("x", one, two, "ip").checksum, DataSet("y", one, two).checksum}
    assert len(sums) == 3


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_sets_never_change(name: str) -> None:
    first, second = load_dataset(name), load_dataset(name)
    assert first.checksum == second.checksum
    rows = {row.tobytes() for row in np.asarray(first.base)}
    if name != "digits":
        assert not any(row.tobytes() in rows for row in np.asarray(first.queries))
    assert np.isfinite(np.asarray(first.base)).all()


def test_synthetic_sets_follow_their_seed() -> None:
    from sghash.data.builtin import clusters, gaussian

    for make in (clusters, gaussian):
        small = make(n_vectors=50, width=5, n_queries=7, random_state=1)
        assert small.base.shape == (50, 5) and small.queries.shape == (7, 5)
        assert small.checksum != make(n_vectors=50, width=5, n_queries=7, random_state=2).checksum
        with pytest.raises(InvalidInput, match="at least 1"):
            make(n_vectors=0)


def test_mnist_from_the_publishers_files(no_folders: Path) -> None:
    """Files as published, in miniature, through the loader."""
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4), dtype=np.uint8)
    labels = np.arange(6, dtype=np.uint8)
    files = {
        "a-ubyte.gz": bytes([0, 0, 8, 3]) + struct.pack(">III", 6, 4, 4) + images.tobytes(),
        "b-ubyte.gz": bytes([0, 0, 8, 1]) + struct.pack(">I", 6) + labels.tobytes(),
    }
    for name, content in files.items():
        (no_folders / name).write_bytes(gzip.compress(content))
    paths = [no_folders / name for name in files] * 2
    parts = LOADERS["idx"](CATALOG["mnist"], paths)
    assert np.array_equal(np.asarray(parts["base"]), images.reshape(6, 16))
    assert parts["query_labels"].tolist() == labels.tolist()


def test_ann_benchmarks_files(no_folders: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = no_folders / "x.hdf5"
    with h5py.File(path, "w") as file:
        file["train"], file["test"] = np.ones((4, 2), "f4"), np.zeros((2, 2), "f4")
        file["neighbors"] = np.array([[1, 0], [2, 3]], "i4")
        file.attrs["distance"] = "euclidean"
    parts = LOADERS["hdf5"](CATALOG["sift1m"], [path])
    assert parts["base"].shape == (4, 2) and np.asarray(parts["neighbors"])[1, 1] == 3
    with pytest.raises(BadFile, match="metric 'l2', expected 'cosine'"):
        LOADERS["hdf5"](CATALOG["glove-25-angular"], [path])


def test_slices_are_taken_from_the_whole_file(
    no_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def u8bin(name: str, array: np.ndarray) -> Path:
        header = np.array(array.shape, "<u4").tobytes()
        (no_folders / name).write_bytes(header + array.tobytes())
        return no_folders / name

    base = u8bin("base.1B.u8bin", np.arange(60, dtype=np.uint8).reshape(20, 3))
    queries = u8bin("query.u8bin", np.ones((4, 3), np.uint8))
    truth = no_folders / "truth"
    truth.write_bytes(np.array([4, 100], "<u4").tobytes() + bytes(4 * 100 * 8))
    entry = CATALOG["sift10m"]._replace(base=(5, 3))
    parts = LOADERS["bigann"](entry, [base, queries, truth])
    assert np.asarray(parts["base"]).tolist() == np.arange(15).reshape(5, 3).tolist()
    assert parts["neighbors"].shape == (4, 100)


def test_word2vec_words_and_vectors(tmp_path: Path) -> None:
    vectors = np.arange(12, dtype="<f4").reshape(4, 3)
    words = ["the", "of", "São_Paulo", "x"]
    rows = [f"{w} ".encode() + v.tobytes() + b"\n" for w, v in zip(words, vectors, strict=True)]
    content = b"4 3\n" + b"".join(rows)
    (tmp_path / "w.bin").write_bytes(content)
    (tmp_path / "w.bin.gz").write_bytes(gzip.compress(content))
    for name in ("w.bin", "w.bin.gz"):
        found, numbers = read_words(tmp_path / name, 3)
        assert found == words[:3] and np.array_equal(numbers, vectors[:3])
    for damaged, n in [(content[:30], 4), (content, 5), (b"", 1), (b"4 x\n", 1), (content[:-9], 4)]:
        (tmp_path / "w.bin").write_bytes(damaged)
        with pytest.raises(BadFile, match="byte"):
            read_words(tmp_path / "w.bin", n)
    (tmp_path / "w.bin.gz").write_bytes(gzip.compress(content)[:-12])
    with pytest.raises(BadFile, match="damage"):
        read_words(tmp_path / "w.bin.gz", 4)


def test_cifar_archive(tmp_path: Path) -> None:
    path = tmp_path / "cifar.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for number, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
            records = np.full((10_000, 3073), number, dtype=np.uint8)
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            info.size = records.nbytes
            archive.addfile(info, io.BytesIO(records.tobytes()))
    parts = read_cifar_archive(path)
    assert parts["base"].shape == (50_000, 3072) and parts["queries"].shape == (10_000, 3072)
    assert parts["base_labels"][[0, 10_000, 49_999]].tolist() == [0, 1, 4]
    assert parts["query_labels"][0] == 5
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(BadFile, match="byte"):
        read_cifar_archive(path)
    for name, size in [("cifar-10-batches-bin/test_batch.bin", 5), ("other", 5)]:
        with tarfile.open(path, "w:gz") as archive:
            info = tarfile.TarInfo(name)
            info.size = size
            archive.addfile(info, io.BytesIO(bytes(size)))
        with pytest.raises(BadFile, match=r"expected (30730000 bytes|the file)"):
            read_cifar_archive(path)


def test_packed_jpeg_files(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    shades = [10, 120, 250]
    files = []
    for shade in shades:
        stream = io.BytesIO()
        image.new("RGB", (32, 32), (shade, shade, shade)).save(stream, "JPEG")
        files.append(stream.getvalue())
    offsets = np.cumsum([0, *map(len, files)])
    content = np.frombuffer(b"".join(files), np.uint8)
    np.savez(tmp_path / "j.npz", jpeg=content, offsets=offsets)
    rows = JpegRows(tmp_path / "j.npz")
    assert rows.shape == (3, 3072)
    assert np.abs(np.asarray(rows).mean(axis=1) - shades).max() < 2
    broken = content.copy()
    broken[offsets[1] : offsets[1] + 40] = 0
    np.savez(tmp_path / "j.npz", jpeg=broken, offsets=offsets)
    with pytest.raises(BadFile, match=f"byte {offsets[1]}"):
        JpegRows(tmp_path / "j.npz").read(0, 3)
    np.savez(tmp_path / "j.npz", jpeg=content, offsets=offsets[::-1])
    with pytest.raises(BadFile, match="ascending"):
        JpegRows(tmp_path / "j.npz")


def test_loaders_are_all_used() -> None:
    used = {variant.loader for entry in CATALOG.values() for variant in entry.variants}
    assert used == set(loading_module.LOADERS)
