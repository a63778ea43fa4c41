from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from sghash.adapters.databases import locking
from sghash.adapters.databases.faiss_file import FaissFileIndex
from sghash.bits import pack_bits, to_faiss
from sghash.errors import BadFile, InvalidInput, StorageError

FINGERPRINT = "ab" * 32
faiss = pytest.importorskip("faiss", reason="needs faiss")


@pytest.fixture
def codes(rng):
    return pack_bits(rng.random((60, 24)) < 0.5)


def create(path, n_bits=24):
    return FaissFileIndex.create(path, "codes", n_bits=n_bits, fingerprint=FINGERPRINT)


def test_faiss_reads_what_was_written(tmp_path, codes):
    with create(tmp_path / "x.faiss") as index:
        index.add(codes, ids=np.arange(60) * 3)
        index.delete([3])
    read = faiss.read_index_binary(str(tmp_path / "x.faiss"))
    distances, ids = read.search(to_faiss(codes[[0, 2, 59]], 24), 1)
    assert ids[:, 0].tolist() == [0, 6, 177] and not distances.any()
    with FaissFileIndex.open(tmp_path / "x.faiss", "codes", fingerprint=FINGERPRINT) as again:
        np.testing.assert_array_equal(again.codes, np.delete(codes, 1, axis=0))
        assert again.add(codes[:1]).tolist() == [178]


_ADDS = """
import sys
import numpy as np
from sghash.adapters.databases.faiss_file import FaissFileIndex
from sghash.errors import StorageError
print("ready", flush=True)
sys.stdin.readline()
for _ in range(60):
    try:
        added = FaissFileIndex.open(sys.argv[1], "codes").add(np.zeros((1, 3), np.uint8))
    except StorageError as error:
        assert "another" in str(error), error
    else:
        print(int(added[0]))
"""


def test_what_two_processes_add_is_there(tmp_path):
    path = tmp_path / "x.faiss"
    create(path).close()
    command = [sys.executable, "-c", _ADDS, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for writer in writers:
        writer.stdout.readline()  # both have loaded all they need
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    said = [writer.communicate()[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    added = [int(number) for numbers in said for number in numbers]
    assert len(added) >= 60  # some are refused, since the other was first
    assert sorted(added) == FaissFileIndex.open(path, "codes").ids.tolist()


def test_a_writer_waits_only_so_long(tmp_path, codes, monkeypatch):
    monkeypatch.setattr(locking, "WAIT_SECONDS", 0.05)
    with (
        create(tmp_path / "x.faiss") as index,
        locking.writing_alone(tmp_path / "x.faiss"),
        pytest.raises(StorageError, match=r"another process is writing .*: try again"),
    ):
        index.add(codes)
    assert index.add(codes[:2]).tolist() == [0, 1]


@pytest.mark.parametrize("text", ["{}", "my own notes", '["a"]', None])
def test_a_file_of_the_user_where_the_note_would_stand_is_left_alone(text, tmp_path):
    path, note = tmp_path / "x", tmp_path / "x.json"
    if text is None:
        note.mkdir()
    else:
        note.write_text(text)
    with pytest.raises(InvalidInput, match=r"already, where the note .* take another name"):
        create(path)
    assert not path.exists() and (text is None or note.read_text() == text)


def test_a_create_that_was_cut_off_is_repeated(tmp_path, codes):
    create(tmp_path / "x").close()
    (tmp_path / "x").unlink()  # the note is written first
    with create(tmp_path / "x") as index:
        assert index.add(codes[:2]).tolist() == [0, 1]


def test_bad_files_and_other_writers(tmp_path, codes):
    path = tmp_path / "x.faiss"
    with create(path) as index:
        index.add(codes)
    for call, error, sentence in (
        (
            lambda: FaissFileIndex.open(path, "codes", fingerprint="cd" * 32),
            InvalidInput,
            "another",
        ),
        (lambda: FaissFileIndex.open(path, "other"), InvalidInput, "no table of codes"),
        (lambda: FaissFileIndex.open(tmp_path / "no", "codes"), InvalidInput, "no database"),
        (lambda: create(path), InvalidInput, "already"),
    ):
        with pytest.raises(error, match=sentence):
            call()
    one, two = (FaissFileIndex.open(path, "codes") for _ in range(2))
    one.delete([0])
    with pytest.raises(StorageError, match="another writer"):
        two.delete([1])
    assert len(FaissFileIndex.open(path, "codes")) == 59
    note = path.with_name("x.faiss.json")
    good = json.loads(note.read_text())
    for wrong, error, sentence in (
        ({**good, "n_bits": 64}, BadFile, "its note says 64"),
        ({**good, "format": 9}, InvalidInput, "later version"),
        ({"format": 1}, BadFile, "not the note"),
    ):
        note.write_text(json.dumps(wrong))
        with pytest.raises(error, match=sentence):
            FaissFileIndex.open(path, "codes")
    note.write_text(json.dumps(good))
    path.write_bytes(b"no index")
    with pytest.raises(BadFile, match="no file of a binary index"):
        FaissFileIndex.open(path, "codes")
    note.unlink()
    note.mkdir()
    with pytest.raises(StorageError, match="cannot read"):
        FaissFileIndex.open(path, "codes")
    note.rmdir()  # a file without a note is not ours
    with pytest.raises(InvalidInput, match="no table of codes"):
        FaissFileIndex.open(path, "codes")
