"""Writing survives failures: the old file or the new one, never half of one."""

from __future__ import annotations

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import sghash
from sghash import StorageError
from sghash.files import exchange, sha256_of, usual_mode, write_atomically


def test_content_and_mode(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, lambda stream: stream.write(b"abc"))
    assert path.read_bytes() == b"abc"
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    assert sha256_of(path).startswith("ba7816bf")


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize(("code", "words"), [(errno.ENOSPC, "disk is full"), (errno.EIO, "write")])
def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch, failing, code, words):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(StorageError, match=words):
        write_atomically(path, lambda stream: stream.write(b"new"))
    monkeypatch.undo()
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_one_sentence(tmp_path):
    with pytest.raises(StorageError, match="cannot write"):
        write_atomically(tmp_path / "no" / "file", lambda stream: stream.write(b""))


def test_nothing_but_a_file_is_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(StorageError, match="it is no file"):
        write_atomically(pipe, lambda stream: stream.write(b"x"))
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_a_full_disk_really(tmp_path):
    """/dev/full answers every write with ENOSPC."""
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")

    def write(stream):
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")

    with pytest.raises(StorageError, match="disk is full"):
        write_atomically(tmp_path / "file", write)
    assert list(tmp_path.iterdir()) == []


def test_a_saved_model_can_be_read_by_others(tmp_path):
    sghash.models.LSH(n_bits=4, random_state=0).fit([[0.0], [1.0]]).save(tmp_path / "model")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "model" / name).stat().st_mode & 0o777 == usual_mode()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges names in one step")
def test_two_names_are_exchanged(tmp_path):
    left, right = tmp_path / "left", tmp_path / "right"
    left.mkdir()
    right.write_bytes(b"a file")
    assert exchange(left, right)
    assert right.is_dir() and left.read_bytes() == b"a file"
    with pytest.raises(FileNotFoundError):
        exchange(left, tmp_path / "nothing")


def test_asking_for_the_usual_mode_changes_nothing_for_other_threads(monkeypatch):
    before = os.umask(0o027)
    try:
        for hide in (False, True):
            if hide:  # a system that does not tell
                monkeypatch.setattr("builtins.open", _no_file)
            with ThreadPoolExecutor(4) as pool:
                found = set(pool.map(lambda _: usual_mode(), range(4000)))
            assert found == {0o640}
            assert os.umask(0o027) == 0o027
    finally:
        monkeypatch.undo()
        os.umask(before)


def _no_file(*arguments, **options):
    raise FileNotFoundError
