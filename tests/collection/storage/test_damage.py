"""Damaged files are told, refused disks are told, and what was there before stays there."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections import Counter

import numpy as np
import pytest

import sghash
from sghash import BadFile, Collection, SghashError, StorageError
from sghash.collection.storage import disk, writer


def everything(folder):
    """All that a user can get out of a collection, every checksum tested."""
    collection = Collection.open(folder)
    collection.verify()
    records = collection.get(collection.ids)
    return [
        records.ids.tolist(),
        records.keys,
        records.codes.tobytes(),
        records.reconstructions.tobytes(),
        records.vectors.tobytes(),
        sorted(records.metadata.items()),
        collection.stats()["columns"],
    ]


@pytest.fixture
def folder(tmp_path, model, vectors, monkeypatch):
    """Every kind of file: segments, deleted rows, a log with records, keys, metadata, vectors."""
    monkeypatch.setattr(writer, "LOG_RECORDS", 3)
    with Collection.create(
        tmp_path / "c", model, keep_vectors="float16", partitions=2
    ) as collection:
        for start in range(0, 24, 4):
            metadata = {"lang": ["de", "en", None, "ü"], "n": range(4), "x": [0.5, None, 1, 2]}
            keys = [f"key{i}" for i in range(start, start + 4)]
            collection.add(vectors[start : start + 4], keys, metadata)
        collection.delete([1, 5])
        collection.add(vectors[40:43], [100, 102, 107])
        collection.compact()
        collection.delete([2, 9])
        collection.add(vectors[50:52])
        collection.upsert(vectors[52:53], ["key20"])
        collection.delete([100])
        collection.add(vectors[60:62], ["u", "v"], {"flag": [True, False]})
    names = {path.name.split("-")[0] for path in (tmp_path / "c").iterdir()}
    assert names == {
        "manifest.json", "segment", "deleted", "lists", "log", "model", "writer.lock"
    }  # fmt: skip
    return tmp_path / "c"


def flip_bytes(folder, choose):
    """Change one byte at a time: count what was detected, what was harmless."""
    expected, counts = everything(folder), Counter()
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        original = path.read_bytes()
        for place in choose(len(original)):
            changed = bytearray(original)
            changed[place] ^= 1 << place % 8
            path.write_bytes(changed)
            kind = path.name.split("-")[0]
            try:
                same = everything(folder) == expected
            except SghashError:
                counts[kind, "detected"] += 1
            else:
                assert same, f"byte {place} of {path} was changed and nobody noticed"
                counts[kind, "harmless"] += 1
        path.write_bytes(original)
    assert everything(folder) == expected
    return counts


def test_a_flipped_byte_is_detected_or_harmless(folder, rng):
    counts = flip_bytes(folder, lambda size: rng.choice(size, min(size, 60), replace=False))
    print(dict(counts))
    detected = sum(n for (_, what), n in counts.items() if what == "detected")
    assert detected > 100


@pytest.mark.slow
def test_every_byte_of_every_file_flipped(folder):
    counts = flip_bytes(folder, range)
    print("bytes flipped:", dict(counts))
    for kind in ("manifest.json", "model.safetensors", "config.json"):
        assert counts[kind, "harmless"] == 0 < counts[kind, "detected"]


def test_a_shortened_or_missing_file_is_told(folder):
    for path in [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "writer.lock"]:
        original = path.read_bytes()
        for size in (0, 10, len(original) // 2, len(original) - 1):
            path.write_bytes(original[:size])
            with pytest.raises(BadFile):
                everything(folder)
        path.unlink()
        with pytest.raises(BadFile):
            everything(folder)
        path.write_bytes(original)
    everything(folder)


def test_a_later_format_is_refused(folder):
    segment = next(folder.glob("segment-*"))
    data = bytearray(segment.read_bytes())
    data[8] = 9
    segment.write_bytes(data)
    with pytest.raises(sghash.errors.NewerFormat, match="upgrade"):
        Collection.open(folder)


def test_a_second_writer_is_refused_and_readers_are_not(folder, vectors):
    first = Collection.open(folder, writable=True)
    with pytest.raises(StorageError, match="open for writing elsewhere"):
        Collection.open(folder, writable=True)
    reader = Collection.open(folder)
    first.add(vectors[:1])
    n = len(reader)
    assert reader.refresh() == n + 1
    first.close()
    Collection.open(folder, writable=True).close()


class Refusal:
    """From disk call number `n` on, fail `times` times with an error of the system."""

    def __init__(self, monkeypatch, names, code, n=1, times=1):
        self.left, self.times = n, times
        for name in names:
            if hasattr(os, name):
                monkeypatch.setattr(os, name, self._wrap(getattr(os, name), code))

    def _wrap(self, real, code):
        def call(*arguments, **options):
            self.left -= 1
            if -self.times < self.left <= 0:
                raise OSError(code, os.strerror(code))
            return real(*arguments, **options)

        return call


@pytest.mark.parametrize("change", ["add", "large add", "delete", "compact"])
@pytest.mark.parametrize("names", [("write",), ("fsync", "fdatasync"), ("replace",)])
def test_a_full_disk_is_told_and_nothing_is_lost(folder, vectors, change, names, monkeypatch):
    changes = {
        "add": lambda c: c.add(vectors[70:73]),
        "large add": lambda c: c.add(vectors),
        "delete": lambda c: c.delete([107]),
        "compact": lambda c: c.compact(),
    }
    monkeypatch.setattr(writer, "LOG_RECORDS", 1000)
    monkeypatch.setattr(writer, "LOG_BYTES", 8000)
    failed = 0
    for n in range(1, 30):
        copy = folder.parent / f"copy{n}"
        shutil.copytree(folder, copy)
        before = everything(copy)
        with Collection.open(copy, writable=True) as collection:
            with monkeypatch.context() as patch:
                Refusal(patch, names, errno.ENOSPC, n, times=3)
                try:
                    changes[change](collection)
                except StorageError as error:
                    told = str(error)
                else:
                    break
            failed += 1
            assert "disk is full" in told
            assert everything(copy) == before
            # The same writer goes on as soon as there is room again.
            changes[change](collection)
            assert collection.verify().n_rows == len(collection)
        assert (everything(copy) == before) == (change == "compact")
    if names != ("replace",) or change in ("large add", "compact"):
        assert failed


def test_a_read_only_folder_can_be_read(folder, monkeypatch):
    before = everything(folder)
    real_open = os.open

    def read_only(path, flags, *rest, **options):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return real_open(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", read_only)
    assert everything(folder) == before
    with pytest.raises(StorageError, match="read-only"):
        Collection.open(folder, writable=True)
    with pytest.raises(StorageError, match="read-only"):
        Collection.create(folder.parent / "new", Collection.open(folder).model)


def test_a_failed_flush_after_a_durable_add_is_no_error(folder, vectors, monkeypatch, caplog):
    """Saying that the add failed would make the caller add the same rows twice."""
    monkeypatch.setattr(writer, "LOG_RECORDS", 1)
    with Collection.open(folder, writable=True) as collection:
        n = len(collection)
        with monkeypatch.context() as patch:
            Refusal(patch, ("replace",), errno.ENOSPC)
            collection.add(vectors[:2])
        assert "stays long" in caplog.text
        assert collection.verify().n_rows == n + 2
        collection.add(vectors[2:4])
        assert collection.stats()["n_rows_in_log"] == 0
    assert Collection.open(folder).verify().n_rows == n + 4


def test_codes_survive_what_is_not_ours(folder):
    (folder / "notes.txt").write_text("mine")
    (folder / "segment-99999999").write_bytes(b"half a segment")
    (folder / "manifest.json.new").write_bytes(b"half a manifest")
    before = everything(folder)
    Collection.open(folder, writable=True).close()
    assert everything(folder) == before
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "segment-99999999").exists()
    assert np.all([p.name != "manifest.json.new" for p in folder.iterdir()])


def test_whatever_cannot_be_looked_at_is_told_in_a_sentence(folder, vectors):
    """Opening, searching and copying raise no error of the system as it is."""

    def work():
        with Collection.open(folder, writable=True) as collection:
            collection.search(vectors[:1])
            collection.backup(folder.with_name("copy"))

    def refuse(real):
        def call(*arguments, **options):
            counted.append(None)
            if len(counted) == n:
                raise OSError(errno.EIO, "the disk is gone")
            return real(*arguments, **options)

        return call

    for n in range(1, 1000):
        counted = []
        with pytest.MonkeyPatch.context() as patch:
            for name in ("stat", "listdir", "scandir"):
                patch.setattr(os, name, refuse(getattr(os, name)))
            with contextlib.suppress(SghashError):
                work()
        shutil.rmtree(folder.with_name("copy"), ignore_errors=True)
        if len(counted) < n:
            break
    assert n > 20


def test_memory_that_runs_out_after_a_durable_add_is_no_error(folder, vectors, monkeypatch, caplog):
    monkeypatch.setattr(writer, "LOG_RECORDS", 1)
    with Collection.open(folder, writable=True) as collection:
        n = len(collection)
        with monkeypatch.context() as patch:

            def without_memory(*arguments, **options):
                raise MemoryError

            patch.setattr(writer, "write_segment", without_memory)
            patch.setattr(writer, "create_log", without_memory)
            collection.add(vectors[:2])
            assert "stays long" in caplog.text and len(collection) == n + 2
        collection.add(vectors[2:4])
        assert collection.stats()["n_rows_in_log"] == 0
    assert Collection.open(folder).verify().n_rows == n + 4


def test_a_folder_that_is_not_synced_takes_no_writes(folder, vectors, monkeypatch):
    """A power cut might bring back the manifest that was given up, and lose what came later."""
    with Collection.open(folder, writable=True) as collection:
        before = everything(folder)
        synced = []
        with monkeypatch.context() as patch:
            patch.setattr(writer, "sync_folder", lambda path: None)

            def refuse(path):
                synced.append(path)
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

            patch.setattr(disk, "sync_folder", refuse)
            for change in (lambda: collection.compact(), lambda: collection.add(vectors[:2])):
                with pytest.raises(StorageError):
                    change()
            assert len(synced) >= 2 and everything(folder) == before
            collection.close()
            with pytest.raises(StorageError):  # another writer must not go on from there either
                Collection.open(folder, writable=True)
    with Collection.open(folder, writable=True) as collection:
        collection.add(vectors[:2])
    assert Collection.open(folder).verify().n_rows == len(before[0]) + 2


def test_a_log_that_could_not_be_ended_is_left_alone_for_a_while(folder, vectors, monkeypatch):
    monkeypatch.setattr(writer, "LOG_RECORDS", 128)
    with Collection.open(folder, writable=True) as collection:
        collection.compact()
        real, tried = writer.create_log, []

        def without_memory(*arguments):
            tried.append(collection.stats()["n_rows_in_log"])
            raise MemoryError

        monkeypatch.setattr(writer, "create_log", without_memory)
        for _ in range(131):
            collection.add(vectors[:1])
        assert len(tried) == 2  # at the 128th record, and two later
        monkeypatch.setattr(writer, "create_log", real)
        collection.compact()
        monkeypatch.setattr(writer, "LOG_RECORDS", 1)
        collection.add(vectors[:1])
        assert collection.stats()["n_rows_in_log"] == 0  # a new log knows nothing of the old one
