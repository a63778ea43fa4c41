"""Jobs: whoever encodes what, and how often, the collection is the one that one process makes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sghash
from sghash import Collection, InvalidInput, StorageError
from sghash.collection import ShardedCollection, Staged, Task, encode_part
from sghash.collection.jobs import staging
from sghash.collection.storage import disk, loading
from sghash.collection.storage.manifest import read_manifest
from sghash.errors import BadFile
from tests.collection.jobs.staged import staged_for

N = 90
GOLDEN = Path(__file__).parents[2] / "golden"


def same(one, other, queries):
    assert np.array_equal(one.ids, other.ids)
    a, b = one.get(one.ids), other.get(other.ids)
    assert np.array_equal(a.codes, b.codes)
    assert (a.vectors is None and b.vectors is None) or np.array_equal(a.vectors, b.vectors)
    for left, right in zip(one.search(queries, 7), other.search(queries, 7), strict=True):
        assert np.array_equal(left, right)


@pytest.mark.parametrize("keep", [None, "float32", "float16", "int8", "int4"])
@pytest.mark.parametrize("kind", ["bits", "bytes"])
def test_a_job_is_what_one_process_adds(keep, kind, tmp_path, model, product, files, vectors):
    chosen = model if kind == "bits" else product
    for name in "co":
        with Collection.create(tmp_path / name, chosen, keep_vectors=keep) as one:
            one.add(vectors[100:105], list("vwxyz"), {"n": range(5)})
            one.delete(["w"])
            if name == "c":
                assert one.commit(staged_for(one, files, rows_per_part=13), job="j") == N
            else:
                assert one.add(vectors[:N]).tolist() == list(range(5, 5 + N))
    one, other = Collection.open(tmp_path / "c"), Collection.open(tmp_path / "o")
    same(one, other, vectors[200:220])
    assert one.verify().n_rows == N + 4 and one.stats()["format_version"] == 5
    assert one.get(["x"]).metadata == {"n": [2]}
    with Collection.open(tmp_path / "c", writable=True) as one:
        assert one.add(vectors[:1]).tolist() == [5 + N]
        one.compact()
        assert one.verify().n_rows == N + 5


@settings(max_examples=12)
@given(data=st.data())
def test_neither_parts_nor_order_nor_repetition_matter(data, tmp_path_factory, model):
    n = data.draw(st.integers(1, 40))
    rows = np.random.default_rng(n).standard_normal((n, 12)).astype(np.float32)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, n - 1)), max_size=3)) & set(range(1, n)))
    folder = tmp_path_factory.mktemp("job")
    for place, part in enumerate(np.split(rows, cuts)):
        np.save(folder / f"{place}.npy", part)
    with Collection.create(folder / "c", model) as one, Collection.create(folder / "o", model) as o:
        options = {"job": "j", "rows_per_part": data.draw(st.integers(1, n + 1))}
        paths = sorted(folder.glob("*.npy"))
        tasks = one.prepare(paths, **options)
        again = data.draw(st.lists(st.sampled_from(tasks), max_size=4))
        order = data.draw(st.permutations([*tasks, *again]))
        assert one.commit(map(encode_part, order), job="j") == n
        o.add(rows)
        same(one, o, rows)
        assert one.commit(map(encode_part, one.prepare(paths, **options)), job="j") == n == len(one)
    shutil.rmtree(folder)


def test_ids_follow_the_names_of_files_then_rows(collection, files, vectors):
    tasks = collection.prepare(files, job="j", rows_per_part=30)
    assert [(Path(t.file).name, t.start, t.first) for t in tasks] == [
        ("a.npy", 0, 0), ("a.npy", 20, 20), ("b.npy", 0, 40), ("c.npy", 0, 65),
    ]  # fmt: skip
    assert Task.from_json(tasks[1].to_json()) == tasks[1]


def test_a_job_begins_where_it_is_told(collection, files, vectors):
    """As shards need it, whose ids may not meet."""
    collection.add(vectors[:3])
    for wrong in (2, 0, -1, 4.5, "7", True):
        with pytest.raises(InvalidInput, match="first"):
            collection.prepare(files, job="j", first=wrong)
    for _ in range(2):
        assert collection.commit(staged_for(collection, files, first=1000), job="j") == N
    assert collection.commit(staged_for(collection, files), job="j") == N
    assert collection.ids.tolist() == [0, 1, 2, *range(1000, 1000 + N)]
    assert collection.verify().n_rows == N + 3
    assert collection.add(vectors[:1]).tolist() == [1000 + N]
    with pytest.raises(InvalidInput, match="choose another name"):
        staged_for(collection, files, first=5000)


def test_a_folder_of_parquet_files(collection, tmp_path, vectors):
    (tmp_path / "p").mkdir()
    for name, rows in (("1.parquet", vectors[:50]), ("0.parquet", vectors[50:N])):
        np.save(tmp_path / "rows.npy", rows)
        sghash.convert(tmp_path / "rows.npy", tmp_path / "p" / name)
    (tmp_path / "p" / "_SUCCESS").touch()
    assert collection.commit(staged_for(collection, tmp_path / "p", rows_per_part=7), job="j") == N
    expected = collection.model.encode(np.vstack([vectors[50:N], vectors[:50]]))
    assert np.array_equal(collection.get(collection.ids).codes, expected)


def test_parts_without_rows_are_skipped(collection, files, vectors):
    np.save(files / "0.npy", vectors[:0])
    np.save(files / "bb.npy", vectors[:0])
    tasks = collection.prepare(files, job="j")
    assert [Path(task.file).name for task in tasks] == ["a.npy", "b.npy", "c.npy"]
    assert collection.commit(map(encode_part, tasks), job="j") == N
    with pytest.raises(InvalidInput, match="none of 1 files has a row"):
        collection.prepare([files / "0.npy"], job="k")


def test_nothing_is_visible_before_the_commit(collection, files, tmp_path):
    collection.close()
    reader = Collection.open(tmp_path / "c")
    staged = staged_for(reader, files)
    assert reader.refresh() == 0 and reader.verify().n_rows == 0
    with pytest.raises(StorageError, match="writable=True"):
        reader.commit(staged, job="j")
    with Collection.open(tmp_path / "c", writable=True) as writer:  # it removes no staged files
        assert writer.commit(staged, job="j") == N
    assert len(reader) == 0 and reader.refresh() == N
    assert not (tmp_path / "c" / "staged").exists()


def test_a_reader_sees_no_moment_that_never_was(collection, files, tmp_path, vectors, monkeypatch):
    """The log that it reads got rows after a job that it does not see, and is gone then."""
    collection.add(vectors[:3])
    staged, real = staged_for(collection, files), loading.read_log

    def meanwhile(path, *start):
        monkeypatch.setattr(loading, "read_log", real)
        collection.commit(staged, job="j")
        collection.add(vectors[:2])
        found = real(path, *start)
        collection.compact()
        return found

    monkeypatch.setattr(loading, "read_log", meanwhile)
    assert Collection.open(tmp_path / "c").ids.tolist() == list(range(N + 5))


def test_a_committed_job_changes_nothing_more(collection, files, tmp_path, vectors):
    first = staged_for(collection, files)
    collection.commit(first, job="j")
    names = {path.name for path in (tmp_path / "c").iterdir()}
    assert collection.commit(first, job="j") == N
    again = staged_for(collection, files)
    assert {segment.file for segment in again} == {None}
    assert collection.commit(again, job="j") == N == len(collection)
    assert {path.name for path in (tmp_path / "c").iterdir()} == names
    # Whatever became of the rows since, it was done.
    collection.delete(collection.ids[:80])
    collection.compact()
    assert collection.commit(first, job="j") == N and len(collection) == 10
    # Another job with the same files is another matter.
    assert collection.commit(staged_for(collection, files, job="k"), job="k") == N
    assert collection.ids[-1] == 2 * N - 1


def test_two_who_commit_one_job(collection, files, tmp_path):
    """In threads of one process; another process must wait for the lock."""
    staged = staged_for(collection, files, rows_per_part=9)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: collection.commit(staged, job="j"), range(4)))
    assert done == [N] * 4 and len(collection) == N and collection.verify().n_rows == N
    with pytest.raises(StorageError):
        Collection.open(tmp_path / "c", writable=True)
    collection.close()
    with Collection.open(tmp_path / "c", writable=True) as second:
        assert second.commit(staged, job="j") == N == len(second)


def test_what_comes_after_the_commit_is_removed(collection, files, tmp_path, monkeypatch):
    """A worker that was thought dead writes when all is done: nothing of it stays."""
    tasks = collection.prepare(files, job="j")
    staged = [encode_part(task) for task in tasks]
    before = read_manifest(tmp_path / "c")
    collection.commit(staged, job="j")
    seen = iter([before])
    real = staging.read_manifest
    monkeypatch.setattr(staging, "read_manifest", lambda folder: next(seen, None) or real(folder))
    encode_part(tasks[0])
    assert not (tmp_path / "c" / "staged").exists() and len(collection) == N


def test_a_full_disk_of_a_worker(collection, files, tmp_path, monkeypatch):
    real = os.write

    def full(handle, data):
        raise OSError(errno.ENOSPC, "no space")

    tasks = collection.prepare(files, job="j")
    staged = [encode_part(tasks[0])]
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match="the disk is full: free some space"):
        encode_part(tasks[1])
    monkeypatch.setattr(os, "write", real)
    left = [path.name for path in (tmp_path / "c" / "staged").rglob("part-*")]
    assert left == [staged[0].file]
    assert collection.commit(map(encode_part, tasks), job="j") == N


def test_where_files_have_one_name_only_they_are_copied(collection, files, monkeypatch):
    def no_link(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(disk.os, "link", no_link)
    assert collection.commit(staged_for(collection, files), job="j") == N
    assert collection.verify().n_rows == N


def test_a_commit_that_fails_leaves_all_as_it_was(collection, files, monkeypatch, vectors):
    collection.add(vectors[:2])
    staged = staged_for(collection, files)
    monkeypatch.setattr("sghash.collection.storage.writer.write_manifest", _refuse)
    with pytest.raises(StorageError):
        collection.commit(staged, job="j")
    monkeypatch.undo()
    assert len(collection) == 2 and collection.verify().n_rows == 2
    assert collection.commit(staged, job="j") == N and len(collection) == N + 2


def _refuse(*_):
    raise StorageError(errno.EIO, "the disk refuses")


def test_jobs_that_nobody_committed_are_counted(collection, files, tmp_path):
    assert collection.stats()["staged_jobs"] == 0
    staged = staged_for(collection, files)
    staged_for(collection, files, rows_per_part=20)  # the same one, prepared otherwise
    staged_for(collection, files, job="half")
    assert collection.stats()["staged_jobs"] == 2
    assert ShardedCollection.open([tmp_path / "c"]).stats()["staged_jobs"] == 2
    collection.commit(staged, job="j")
    assert collection.stats()["staged_jobs"] == 1
    collection.discard("half")
    assert collection.stats()["staged_jobs"] == 0


def test_a_job_can_be_given_up(collection, files, tmp_path):
    staged = staged_for(collection, files)
    collection.discard("j")
    assert not (tmp_path / "c" / "staged").exists()
    with pytest.raises(BadFile):
        collection.commit(staged, job="j")
    collection.discard("never heard of")


def test_copies_remember_jobs(collection, files, tmp_path):
    staged = staged_for(collection, files)
    collection.commit(staged, job="j")
    staged_for(collection, files, job="half")
    collection.backup(tmp_path / "copy")
    assert not (tmp_path / "copy" / "staged").exists()
    with Collection.open(tmp_path / "copy", writable=True) as copy:
        assert copy.commit(staged, job="j") == N == len(copy)


def test_callbacks_and_lists(tmp_path, model, files):
    with Collection.create(tmp_path / "k", model, keep_vectors="float16", partitions=2) as one:
        told = []
        one.commit(staged_for(one, files), job="j", callback=lambda *at: told.append(at))
        assert told == [(1, 3), (2, 3), (3, 3)]
        one.compact()
        assert one.stats()["rows_in_lists"] == N and one.stats()["format_version"] == 5
        assert one.commit(staged_for(one, files), job="j") == N == len(one)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("collection-v*")), ids=lambda path: path.name)
def test_collections_of_every_version_take_jobs_and_plans(path, tmp_path):
    shutil.copytree(path, tmp_path / "c")
    np.save(tmp_path / "rows.npy", np.ones((5, 6), np.float32))
    for step in ("plan", "job"):
        with Collection.open(tmp_path / "c", writable=True) as collection:
            if step == "plan":
                collection.follow(None)
            else:
                collection.commit(staged_for(collection, tmp_path / "rows.npy"), job="j")
        assert Collection.open(tmp_path / "c").verify().n_rows == (6 if step == "plan" else 11)
    assert Collection.open(tmp_path / "c").ids.tolist() == [2, 3, 4, 5, 40, 50, *range(51, 56)]


def test_the_golden_job_stays_readable_and_is_not_done_twice(tmp_path):
    shutil.copytree(GOLDEN / "jobs-v5", tmp_path / "c")
    with Collection.open(tmp_path / "c", writable=True) as collection:
        assert collection.verify()[:2] == (5, 1) and collection.stats()["format_version"] == 5
        assert collection.ids.tolist() == [0, 2, 3, 4, 5]
        lines = json.loads((GOLDEN / "jobs-v5-staged.json").read_text())
        assert collection.commit(map(Staged.of, lines), job="golden") == 4
        assert len(collection) == 5


PROGRAM = Path(__file__).with_name("stopping.py")


def stopped(verb, folder, number):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), verb, str(folder), str(number)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="stopping needs fork")
def test_a_job_that_is_stopped_somewhere(memory_path):
    """The quick selection: the slow test stops everywhere."""
    found = stopped("sample", memory_path, 23)
    assert found["stop_everywhere"]["stops"] >= 4 and found["stop_everywhere"]["torn"] >= 4
    assert found["cut_power_everywhere"]["power cuts"] >= 4


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="stopping needs fork")
@pytest.mark.parametrize(("verb", "number"), [("stop", 1), ("power", 1), ("kill", 200)])
def test_a_job_that_is_stopped_everywhere(memory_path, verb, number):
    found = stopped(verb, memory_path, number)
    assert found["done"] > 0 and sum(found.values()) > 100
