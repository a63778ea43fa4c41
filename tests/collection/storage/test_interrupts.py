"""Changes that are interrupted, once or twice in a row, leave a writer that knows its disk."""

from __future__ import annotations

import errno
import os
import sys

import numpy as np
import pytest

from sghash import Collection, StorageError
from sghash.collection.storage import disk, loading, writer


@pytest.fixture
def collection(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(vectors[:3])
        yield collection


def interrupt(monkeypatch, where, name, *, after=True):
    """Raise Ctrl-C once, right after (or instead of) the next call of a function."""
    real, calls = getattr(where, name), []

    def call(*arguments, **options):
        calls.append(None)
        if len(calls) > 1:
            return real(*arguments, **options)
        if after:
            real(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(where, name, call)


def check_going_on(collection, vectors, path):
    """The next rows get numbers of their own, and everything is whole."""
    first = collection.add(vectors[10:12])
    second = collection.add(vectors[12:14])
    ids = collection.ids.tolist()
    assert len(ids) == len(set(ids)) and {*first.tolist(), *second.tolist()} <= set(ids)
    assert collection.verify().n_rows == len(collection) == len(Collection.open(path))
    found = collection.get(second)
    np.testing.assert_array_equal(found.codes, collection.model.encode(vectors[12:14]))


def test_an_add_interrupted_twice_gives_no_id_twice(collection, vectors, tmp_path, monkeypatch):
    """The record is on the disk, memory does not know it, and reading it again is interrupted."""
    with monkeypatch.context() as patch:
        interrupt(patch, writer.LogWriter, "append")
        interrupt(patch, writer, "load_state", after=False)
        with pytest.raises(KeyboardInterrupt):
            collection.add(vectors[3:5])
    check_going_on(collection, vectors, tmp_path / "c")


def test_a_failed_sync_and_a_failed_reading_again(collection, vectors, tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as patch:
        for name in ("fdatasync", "fsync", "ftruncate"):
            patch.setattr(os, name, refuse)
        patch.setattr(loading, "read_manifest", refuse)
        with pytest.raises(StorageError):
            collection.add(vectors[3:5])
    check_going_on(collection, vectors, tmp_path / "c")


def test_an_interrupt_while_the_log_is_closed(collection, vectors, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt(patch, writer.LogWriter, "append", after=False)
        interrupt(patch, writer.LogWriter, "close")
        with pytest.raises(KeyboardInterrupt):
            collection.add(vectors[3:5])
    check_going_on(collection, vectors, tmp_path / "c")


@pytest.mark.parametrize("n", range(1, 5))
def test_an_interrupted_refresh_applies_nothing_twice(collection, vectors, tmp_path, n):
    reader = Collection.open(tmp_path / "c")
    for i in range(4):
        collection.add(vectors[10 + i : 11 + i])
    collection.delete([1])
    real, calls = loading.Draft.apply, []

    def interrupted(*arguments):
        real(*arguments)
        calls.append(None)
        if len(calls) == n:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading.Draft, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.refresh()
    assert reader.ids.tolist() == [0, 1, 2]
    assert reader.refresh() == 6 and reader.ids.tolist() == [0, 2, 3, 4, 5, 6]


def test_a_reader_forgets_rows_that_were_withdrawn(collection, vectors, tmp_path, monkeypatch):
    """It saw a record that was whole but not synced; the sync failed, and another one came."""
    reader = Collection.open(tmp_path / "c")

    def refuse(handle):
        reader.refresh()
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        with pytest.raises(StorageError, match="disk is full"):
            collection.add(vectors[3:5], [100, 101])
    assert len(collection) == 3
    assert reader.refresh() == 3 and 100 not in reader
    collection.add(vectors[5:7], [200, 201])
    assert reader.refresh() == 5 and 200 in reader and 100 not in reader
    np.testing.assert_array_equal(reader.get([200]).codes, collection.get([200]).codes)


class InterruptAt:
    """Raise Ctrl-C before step number `n` of these functions; `count` tells how many they had."""

    def __init__(self, n, *functions):
        self.n, self.count = n, 0
        self.codes = {function.__code__ for function in functions}

    def __enter__(self):
        sys.settrace(self._enter)
        return self

    def __exit__(self, *error):
        sys.settrace(None)

    def _enter(self, frame, event, argument):
        if frame.f_code not in self.codes:
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame, event, argument):
        if event == "opcode":
            self.count += 1
            if self.count == self.n:
                raise KeyboardInterrupt
        return self._step


@pytest.mark.skipif(sys.gettrace() is not None, reason="needs the only trace function")
def test_a_close_interrupted_anywhere_is_finished_by_another(collection, tmp_path):
    """The error is kept, as an interactive session does: nothing must depend on its end."""
    collection.close()
    n, errors = 0, []
    while len(errors) == n:
        n += 1
        opened = Collection.open(tmp_path / "c", writable=True)
        with InterruptAt(n, Collection.close, writer.Writer.close, disk.Handle.close):
            try:
                opened.close()
            except KeyboardInterrupt as error:
                errors.append(error)
        opened.close()
    assert n > 50


def test_a_lock_that_was_half_taken_is_given_back(collection, tmp_path, monkeypatch):
    """The folder is locked, and no handle is left for the file: the error is kept."""
    collection.close()
    real = os.open

    def refuse(path, *options):
        if str(path).endswith("writer.lock"):
            raise OSError(errno.EMFILE, "too many open files")
        return real(path, *options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(StorageError, match="too many files") as kept:
            Collection.open(tmp_path / "c", writable=True)
    Collection.open(tmp_path / "c", writable=True).close()
    assert kept.value.errno == errno.EMFILE


def test_a_manifest_that_cannot_be_read_is_told_in_a_sentence(
    collection, vectors, tmp_path, monkeypatch, caplog
):
    """Also by `close`, which has nothing to lose by it."""

    def refuse(path):
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "read_bytes", refuse)
        collection.close()
        assert "too many files" in caplog.text
        for options in ({}, {"writable": True}):
            with pytest.raises(StorageError, match="too many files"):
                Collection.open(tmp_path / "c", **options)
    with Collection.open(tmp_path / "c", writable=True) as opened:
        opened.add(vectors[:1])
        with monkeypatch.context() as patch:
            patch.setattr(writer, "read_manifest", lambda folder: opened._writer.state.manifest)
            patch.setattr(type(tmp_path), "read_bytes", refuse)
            with pytest.raises(StorageError, match="too many files"):
                opened.compact()
        assert len(opened) == opened.verify().n_rows == 4
