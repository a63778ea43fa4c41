"""A copy made beside a working writer is one moment, verified, and made once."""

from __future__ import annotations

import os
import shutil
import threading

import numpy as np
import pytest

from sghash import BadFile, Collection, InvalidInput, StorageError
from sghash.collection.storage import backup, writer


@pytest.fixture
def collection(tmp_path, model, vectors, monkeypatch):
    """Two segments, one with deleted rows, and rows in the log."""
    with Collection.create(tmp_path / "c", model, keep_vectors="float16") as collection:
        collection.add(vectors[:40], [f"key{i}" for i in range(40)], {"n": range(40)})
        collection.compact()
        monkeypatch.setattr(writer, "LOG_RECORDS", 1)
        collection.delete(["key3"])
        collection.add(vectors[40:50])
        monkeypatch.setattr(writer, "LOG_RECORDS", 1000)
        collection.delete(["key7"])
        collection.add(vectors[50:53], ["u", "v", "w"], {"t": ["x", None, "ü"]})
        yield collection


def everything(collection):
    records = collection.get(collection.ids)
    arrays = records.ids, records.codes, records.vectors
    return [array.tobytes() for array in arrays], records.keys, sorted(records.metadata.items())


def test_a_copy_holds_what_the_collection_held(collection, tmp_path, vectors):
    seen = []
    summary = collection.backup(tmp_path / "b", callback=lambda *done: seen.append(done))
    assert summary.n_rows == len(collection) == seen[-1][0] == seen[-1][1]
    expected = everything(collection)
    collection.add(vectors[60:61])
    with Collection.open(tmp_path / "b", writable=True) as copy:
        assert everything(copy) == expected
        assert copy.add(vectors[61:62]).tolist() == [53]
        assert copy.verify().n_rows == summary.n_rows + 1


def test_a_copy_is_brought_up_to_date_without_copying_again(collection, tmp_path, vectors):
    collection.backup(tmp_path / "b")
    there = {p.name: p.stat().st_ino for p in (tmp_path / "b").glob("segment-*")}
    collection.delete([20])
    collection.add(vectors[60:64])
    collection.backup(tmp_path / "b")
    assert everything(Collection.open(tmp_path / "b")) == everything(collection)
    now = {p.name: p.stat().st_ino for p in (tmp_path / "b").glob("segment-*")}
    assert len(there.items() & now.items()) == 2
    collection.compact()
    collection.backup(tmp_path / "b")
    assert everything(Collection.open(tmp_path / "b")) == everything(collection)
    assert len(list((tmp_path / "b").glob("segment-*"))) == 1


def test_an_interrupted_copy_is_gone_on_with(collection, tmp_path, monkeypatch):
    real, copied = backup.write_new, []

    def write_new(path, pieces):
        copied.append(path.name)
        real(path, pieces)
        if len(copied) == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(backup, "write_new", write_new)
        with pytest.raises(KeyboardInterrupt):
            collection.backup(tmp_path / "b")
        with pytest.raises(BadFile, match="not a collection"):
            Collection.open(tmp_path / "b")
        collection.backup(tmp_path / "b")
    assert len(copied) == 2  # one of the two segments was there already
    assert everything(Collection.open(tmp_path / "b")) == everything(collection)


def test_half_a_segment_is_copied_again(collection, tmp_path):
    collection.backup(tmp_path / "b")
    (tmp_path / "b" / "manifest.json").unlink()
    for segment in (tmp_path / "b").glob("segment-*"):
        os.truncate(segment, segment.stat().st_size // 2)
    collection.backup(tmp_path / "b")
    assert everything(Collection.open(tmp_path / "b")) == everything(collection)


def test_copies_beside_a_busy_writer_are_moments(tmp_path, model, vectors, monkeypatch):
    """Each batch of five is there whole or not at all, in order, while segments come and go."""
    monkeypatch.setattr(writer, "LOG_RECORDS", 3)
    monkeypatch.setattr(writer, "MAX_SEGMENTS", 3)
    monkeypatch.setattr(writer, "MERGE_SEGMENTS", 2)
    collection = Collection.create(tmp_path / "c", model)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            ids = collection.add(vectors[:5])
            collection.delete(ids[:1])

    thread = threading.Thread(target=work)
    thread.start()
    reader, newest = Collection.open(tmp_path / "c"), []
    try:
        for i in range(8):
            reader.refresh()
            # Each copy is always of the same one: a reader may be a moment ahead of a writer
            # whose own call has not returned yet.
            opened = reader if i % 2 else collection
            opened.backup(tmp_path / f"b{i % 4}")
            ids = Collection.open(tmp_path / f"b{i % 4}").ids
            newest.append(int(ids.max(initial=-1)))
            batches = np.bincount(ids // 5)
            assert set(batches[:-1]) <= {4} and set(batches[-1:]) <= {4, 5}
    finally:
        stop.set()
        thread.join()
        collection.close()
    # The number of rows may fall by the one that is deleted, the newest id may not.
    for own in (newest[::2], newest[1::2]):  # of the writer, and of the reader
        assert own == sorted(own)
    assert newest[-1] > newest[0]


def test_nothing_foreign_is_overwritten(collection, tmp_path, model, vectors):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(StorageError, match="not empty"):
        collection.backup(tmp_path / "notes")
    assert os.listdir(tmp_path / "notes") == ["mine.txt"]
    Collection.create(tmp_path / "other", model).close()
    with pytest.raises(StorageError, match="another collection"):
        collection.backup(tmp_path / "other")
    for path in (tmp_path / "c", tmp_path / "c" / "inside", tmp_path):
        with pytest.raises(InvalidInput, match="overlaps"):
            collection.backup(path)
    collection.backup(tmp_path / "b")
    with Collection.open(tmp_path / "b", writable=True) as copy:
        with pytest.raises(StorageError, match="open for writing elsewhere"):
            collection.backup(tmp_path / "b")
        copy.add(vectors[:1])
    with pytest.raises(StorageError, match="no mere copy"):
        collection.backup(tmp_path / "b")
    assert (tmp_path / "notes" / "mine.txt").read_text() == "mine"


def test_a_copy_outlives_the_files_it_is_made_from(collection, tmp_path, vectors):
    """A reader copies its own moment, though a compaction has replaced the files since."""
    reader = Collection.open(tmp_path / "c")
    expected, n = everything(reader), len(reader)
    collection.compact()
    collection.delete(collection.ids[:20])
    assert reader.backup(tmp_path / "b").n_rows == n
    assert everything(Collection.open(tmp_path / "b")) == expected


def test_a_version_1_collection_is_brought_up_to_date_by_copying(tmp_path):
    from tests.collection.test_golden_collection import GOLDEN

    shutil.copytree(GOLDEN / "collection-v1", tmp_path / "c")
    old = Collection.open(tmp_path / "c")
    old.backup(tmp_path / "b")
    copy = Collection.open(tmp_path / "b")
    assert everything(copy) == everything(old)
    assert copy.stats()["format_version"] == 2


def test_rows_that_a_copy_got_of_its_own_are_not_overwritten(collection, tmp_path, vectors):
    """Neither in the copy nor in the original, though their logs are empty and they are older."""
    collection.backup(tmp_path / "b")
    with Collection.open(tmp_path / "b", writable=True) as copy:
        copy.add(vectors[60:65])
        copy.compact()
        n = len(copy)
        for _ in range(3):
            collection.compact()
        collection.close()
    with pytest.raises(StorageError, match="no mere copy"):
        collection.backup(tmp_path / "b")
    assert len(Collection.open(tmp_path / "b")) == n
    with Collection.open(tmp_path / "b", writable=True) as copy:
        for _ in range(9):
            copy.compact()
        with pytest.raises(StorageError, match="no mere copy"):
            copy.backup(tmp_path / "c")
    assert len(Collection.open(tmp_path / "c")) == len(collection)


def test_a_copy_does_not_go_back_to_an_earlier_moment(collection, tmp_path, vectors):
    reader = Collection.open(tmp_path / "c")
    collection.add(vectors[60:65])
    n = collection.backup(tmp_path / "b").n_rows
    with pytest.raises(StorageError, match="later moment"):
        reader.backup(tmp_path / "b")
    reader.refresh()
    assert reader.backup(tmp_path / "b").n_rows == n


def test_a_collection_that_lost_its_manifest_is_not_taken_for_half_a_copy(
    collection, tmp_path, model, vectors
):
    with Collection.create(tmp_path / "lost", model) as lost:
        lost.add(vectors[:5])
    (tmp_path / "lost" / "manifest.json").unlink()
    before = sorted(os.listdir(tmp_path / "lost"))
    with pytest.raises(StorageError, match="not empty"):
        collection.backup(tmp_path / "lost")
    assert sorted(os.listdir(tmp_path / "lost")) == before


def test_an_interrupted_update_leaves_the_copy_before_whole(collection, tmp_path, monkeypatch):
    """Also where a later sghash would write the same model in other bytes."""
    collection.backup(tmp_path / "b")
    expected = everything(Collection.open(tmp_path / "b"))
    collection.delete([20])

    def refuse(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sghash.__version__", "99")
        patch.setattr(backup, "write_manifest", refuse)
        with pytest.raises(KeyboardInterrupt):
            collection.backup(tmp_path / "b")
    copy = Collection.open(tmp_path / "b")
    copy.verify()
    assert everything(copy) == expected


def test_every_new_folder_above_a_copy_is_synced(collection, tmp_path, monkeypatch):
    """A power cut would take the name of one that was not, and the copy with it."""
    synced, real = [], backup.sync_folder
    monkeypatch.setattr(backup, "sync_folder", lambda path: synced.append(path) or real(path))
    (tmp_path / "copies").mkdir()
    target = tmp_path / "copies" / "2026" / "05"
    collection.backup(target)
    assert {tmp_path / "copies", tmp_path / "copies" / "2026", target} <= set(synced)
