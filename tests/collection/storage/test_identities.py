"""Files and folders are known by what they are, not by what they are called."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import zlib

import numpy as np
import pytest

from sghash import BadFile, Collection, StorageError
from sghash.collection.storage import writer
from sghash.errors import NewerFormat


def make(path, model, vectors, **options):
    with Collection.create(path, model, **options) as collection:
        collection.add(vectors)
        collection.compact()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer, "LOG_RECORDS", 1)
            collection.delete([1])
        collection.add(vectors[:2])
    return path


def rewrite_manifest(folder, change):
    """Change a manifest and make its checksum right again."""
    path = folder / "manifest.json"
    body = json.loads(path.read_bytes().partition(b"\n")[0])
    change(body)
    line = json.dumps(body, sort_keys=True).encode()
    path.write_bytes(line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n")


def test_a_writer_stays_with_its_folder(tmp_path, model, vectors, monkeypatch):
    """A relative path means what it meant when the collection was made."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "b")
    make("c", model, vectors[:50])
    monkeypatch.chdir(tmp_path / "a")
    with Collection.create("c", model) as collection:
        reader = Collection.open("c")
        collection.add(vectors[:5])
        monkeypatch.chdir(tmp_path / "b")
        collection.add(vectors[5:6])
        collection.compact()
        assert reader.refresh() == 6
    assert Collection.open(tmp_path / "a" / "c").verify().n_rows == 6
    assert Collection.open(tmp_path / "b" / "c").verify().n_rows == 51


def test_a_folder_swapped_under_a_writer_is_left_alone(tmp_path, model, vectors):
    make(tmp_path / "other", model, vectors[:50])
    for change in ("add", "compact", "delete", "reencode", "close"):
        path = tmp_path / change
        collection = Collection.create(path, model, keep_vectors="float32")
        collection.add(vectors[:5])
        path.rename(tmp_path / f"{change}-moved")
        shutil.copytree(tmp_path / "other", path)
        before = {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}
        if change != "close":
            calls = {"add": vectors[:2], "delete": [1], "reencode": model}
            arguments = [calls[change]] if change in calls else []
            with pytest.raises(StorageError, match="no longer the folder"):
                getattr(collection, change)(*arguments)
        collection.close()
        assert {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()} == before
        assert Collection.open(tmp_path / f"{change}-moved").verify().n_rows == 5


def test_a_log_replaced_under_a_writer_is_noticed(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(vectors[:3])
        log = next((tmp_path / "c").glob("log-*"))
        copy = log.read_bytes()
        log.unlink()
        log.write_bytes(copy)
        with pytest.raises(StorageError, match="moved or replaced"):
            collection.add(vectors[3:5])
        # It has gone back to what the disk holds by now, and goes on there.
        collection.add(vectors[3:5])
    assert Collection.open(tmp_path / "c").verify().n_rows == 5


def test_refresh_after_the_folder_was_replaced(tmp_path, model, vectors):
    """Another collection with files of the same names: its own rows, not the mapped ones."""
    path = make(tmp_path / "c", model, vectors[:50])
    make(tmp_path / "new", model, vectors[100:170])
    reader = Collection.open(path)
    path.rename(tmp_path / "old")
    (tmp_path / "new").rename(path)
    assert reader.refresh() == 71
    np.testing.assert_array_equal(reader.get([5, 60]).codes, model.encode(vectors[[105, 160]]))


@pytest.mark.parametrize("kind", ["segment", "deleted", "log"])
def test_a_file_of_another_collection_is_not_taken(tmp_path, model, vectors, kind):
    paths = [make(tmp_path / name, model, vectors[i : i + 40]) for i, name in enumerate("ab")]
    with Collection.open(paths[0], writable=True) as first:
        first.add(vectors[:1])
    with Collection.open(paths[1], writable=True) as second:
        second.add(vectors[1:2])
    for path in paths:
        assert sorted(p.name for p in path.iterdir()) == sorted(p.name for p in paths[0].iterdir())
    names = [path.name for path in paths[0].glob(f"{kind}-*")]
    for name in names:
        shutil.copy(paths[1] / name, paths[0] / name)
        with pytest.raises(BadFile, match=r"called the same|another segment"):
            Collection.open(paths[0])
    assert names


def test_an_older_log_put_back_is_not_taken(tmp_path, model, vectors):
    path = tmp_path / "c"
    with Collection.create(path, model) as collection:
        collection.add(vectors[:3])
    log = next(path.glob("log-*"))
    older = log.read_bytes()
    with Collection.open(path, writable=True) as collection:
        collection.add(vectors[3:6])
    log.write_bytes(older)
    for writable in (False, True):
        with pytest.raises(BadFile, match="older copy"):
            Collection.open(path, writable=writable)


def test_files_outside_the_folder_are_never_named(tmp_path, model, vectors):
    victim = make(tmp_path / "victim", model, vectors[:10])
    path = make(tmp_path / "c", model, vectors[:10])
    log = next(victim.glob("log-*"))
    before = log.read_bytes()
    changes = [
        lambda body: body.update(log=f"../victim/{log.name}"),
        lambda body: body["segments"][0].update(file="../victim/segment-00000001"),
        lambda body: body["segments"][0].update(deleted="/etc/passwd"),
        lambda body: body.update(model="../victim/" + body["model"]),
        lambda body: body["model_files"].update({"../../x": "0" * 64}),
    ]
    manifest = (path / "manifest.json").read_bytes()
    for change in changes:
        rewrite_manifest(path, change)
        with pytest.raises(BadFile):
            Collection.open(path, writable=True)
        (path / "manifest.json").write_bytes(manifest)
    assert log.read_bytes() == before


def rewrite_header(path, change):
    """Change the header of a segment, and make its checksum right again."""
    data = path.read_bytes()
    length = struct.unpack_from("<I", data, 12)[0]
    header = json.loads(data[20 : 20 + length])
    change(header)
    text = json.dumps(header).encode().ljust(length)
    assert len(text) == length
    path.write_bytes(data[:12] + struct.pack("<II", length, zlib.crc32(text)) + text
                     + data[20 + length :])  # fmt: skip


@pytest.mark.parametrize(
    ("section", "shape"),
    [("codes", [3, 13]), ("codes", [1, 39]), ("codes", [39]), ("vectors", [1, 156]),
     ("vectors", [156, 1])],
)  # fmt: skip
def test_shapes_are_compared_before_a_kernel_sees_them(tmp_path, model, vectors, section, shape):
    path = tmp_path / "c"
    with Collection.create(path, model, keep_vectors="float32") as collection:
        collection.add(vectors[:13])
        collection.compact()
    segment = next(path.glob("segment-*"))

    def change(header):
        for row in header["sections"]:
            if row[0] == section:
                row[2] = shape

    rewrite_header(segment, change)
    with pytest.raises(BadFile, match="called the same"):
        Collection.open(path)
    # Not even where the manifest knows no checksum of the file.
    rewrite_manifest(path, lambda body: body["segments"][0].update(checksum=None))
    with pytest.raises(BadFile, match="damaged"):
        Collection.open(path)


def test_an_unknown_kind_of_segment_is_refused_in_a_sentence(tmp_path, model, vectors):
    path = make(tmp_path / "c", model, vectors[:10])
    rewrite_manifest(path, lambda body: body["segments"][0].update(kind="trees"))
    with pytest.raises(NewerFormat, match=r"'trees'.*upgrade"):
        Collection.open(path)


def test_zeroed_headers_are_told(tmp_path, model, vectors):
    path = make(tmp_path / "c", model, vectors[:10])
    for file in path.iterdir():
        if file.is_file() and file.stat().st_size:
            data = file.read_bytes()
            for start in (0, 8, 12):
                file.write_bytes(data[:start] + bytes(64) + data[start + 64 :])
                with pytest.raises(BadFile):
                    Collection.open(path).verify()
            file.write_bytes(data)


def test_names_that_only_look_like_ours_are_kept(tmp_path, model, vectors):
    path = make(tmp_path / "c", model, vectors[:10])
    mine = ["log-2024-notes.txt", "manifest.json.bak", "segment-of-mine", "deleted-1"]
    for name in mine:
        (path / name).write_text("mine")
    (path / "model-v1").mkdir()
    (path / "model-v1" / "x").write_text("mine")
    with Collection.open(path, writable=True) as collection:
        collection.compact()
    assert all((path / name).read_text() == "mine" for name in [*mine, "model-v1/x"])


def test_compaction_does_not_launder_a_flipped_bit(tmp_path, model, vectors, monkeypatch):
    path = tmp_path / "c"
    with Collection.create(path, model, keep_vectors="float32") as collection:
        collection.add(vectors[:40])
        collection.compact()
    segment = next(path.glob("segment-*"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 4
    segment.write_bytes(data)
    with Collection.open(path, writable=True) as collection:
        for change in (collection.compact, lambda: collection.reencode(model),
                       lambda: collection.backup(tmp_path / "b")):  # fmt: skip
            with pytest.raises(BadFile, match="fails its checksum"):
                change()
        monkeypatch.setattr(writer, "MAX_SEGMENTS", 0)
        monkeypatch.setattr(writer, "LOG_RECORDS", 1)
        ids = collection.add(vectors[40:41])  # durable; only the merge is put off
        assert ids.tolist() == [40]
    with pytest.raises(BadFile, match="fails its checksum"):
        Collection.open(path).verify()


def test_in_memory_nothing_that_happens_to_the_files_matters(tmp_path, model, vectors):
    path = make(tmp_path / "c", model, vectors[:50])
    opened = Collection.open(path, in_memory=True)
    expected = opened.search(vectors[:3], 5)
    for file in path.glob("*-*"):
        if file.is_file():
            os.truncate(file, 100)
    found = opened.search(vectors[:3], 5)
    np.testing.assert_array_equal(found.ids, expected.ids)


@pytest.mark.parametrize("writable", [False, True])
def test_in_memory_the_model_is_read_too(tmp_path, model, vectors, writable):
    path = make(tmp_path / "c", model, vectors[:50])
    opened = Collection.open(path, in_memory=True, writable=writable)
    path.rename(tmp_path / "elsewhere")
    found = opened.search(vectors[:3], 5)
    expected = Collection.open(tmp_path / "elsewhere").search(vectors[:3], 5)
    np.testing.assert_array_equal(found.ids, expected.ids)


def test_in_memory_opening_tests_every_checksum(tmp_path, model, vectors):
    path = make(tmp_path / "c", model, vectors[:50])
    segment = next(path.glob("segment-*"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    Collection.open(path)
    with pytest.raises(BadFile, match="checksum"):
        Collection.open(path, in_memory=True)


@pytest.mark.parametrize("name", ["generation", "next_file"])
def test_a_count_with_no_room_left_is_refused_before_anything_is_written(
    tmp_path, model, vectors, name
):
    path = make(tmp_path / "c", model, vectors[:5])
    rewrite_manifest(path, lambda body: body.update({name: 2**63 - 1}))
    with pytest.raises(BadFile, match=f"its {name} is not valid"):
        Collection.open(path)
