"""Two who want the same collection: forks, threads, races to create, locks that are removed."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import sghash
from sghash import Collection, StorageError
from sghash.collection.storage import writer

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
PREPARE = """
    import json, os, signal, sys, time
    import numpy as np, sghash
    from sghash import Collection
    training = np.random.default_rng(5).standard_normal((60, 12)).astype(np.float32)
    model = sghash.models.LSH(n_bits=16, random_state=0).fit(training)
    path = sys.argv[1]
"""


def run(program, path):
    """Run a program of its own: a test process with threads must not fork."""
    text = textwrap.dedent(PREPARE) + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", text, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout)


@needs_fork
def test_a_fork_after_opening_loses_nothing(tmp_path):
    """Both processes add; the child is refused in a sentence, and may open it for itself later."""
    said = run(
        """
        collection = Collection.create(path, model)
        collection.add(training[:5])
        out, into = os.pipe()
        wait, go = os.pipe()
        child = os.fork()
        if not child:
            told = []
            for change in (lambda: collection.add(training[5:9]), lambda: collection.delete([1]),
                           collection.compact, lambda: Collection.open(path, writable=True)):
                try:
                    change()
                except sghash.StorageError as error:
                    told.append(str(error))
            told.append(len(collection.search(training[:2], 3).ids))
            collection.close()
            os.write(into, json.dumps(told).encode())
            os.read(wait, 1)
            os._exit(0)
        os.close(into)
        told = json.loads(os.read(out, 1 << 16))
        added = collection.add(training[5:25]).tolist()
        collection.close()
        # The child lives on, and keeps no lock.
        again = Collection.open(path, writable=True)
        again.add(training[25:27])
        os.write(go, b"x")
        os.waitpid(child, 0)
        print(json.dumps([told, added, again.verify().n_rows]))
        """,
        tmp_path / "c",
    )
    told, added, n_rows = said
    assert n_rows == 27 and added == list(range(5, 25))
    assert len(told) == 5 and told[4] == 2
    assert all("fork" in sentence and "open it again" in sentence for sentence in told[:3])
    assert "open for writing elsewhere" in told[3]


@pytest.mark.slow
@needs_fork
def test_a_race_to_create_has_one_winner(tmp_path):
    """The loser touches nothing that the winner made: its acknowledged rows stay."""
    outcomes = run(
        """
        outcomes = []
        for trial in range(25):
            folder = f"{path}/{trial}"
            go, start = os.pipe()
            out, into = os.pipe()
            children = []
            for number in range(3):
                child = os.fork()
                if not child:
                    os.close(start)
                    os.read(go, 1)
                    try:
                        with Collection.create(folder, model) as collection:
                            collection.add(training[:5])
                        os.write(into, b"w")
                    except sghash.StorageError:
                        os.write(into, b"l")
                    os._exit(0)
                children.append(child)
            os.close(start), os.close(into)
            for child in children:
                os.waitpid(child, 0)
            marks = os.read(out, 10).decode()
            rows = Collection.open(folder).verify().n_rows if "w" in marks else None
            outcomes.append(["".join(sorted(marks)), rows])
            os.close(go), os.close(out)
        print(json.dumps(outcomes))
        """,
        tmp_path,
    )
    assert outcomes == [["llw", 5]] * 25


@pytest.mark.slow
@needs_fork
def test_a_killed_create_can_be_repeated(tmp_path):
    """Unless the manifest was there: then it is a collection, and opens."""
    counts = run(
        """
        counts = {"created": 0, "opened": 0}
        for trial in range(30):
            folder = f"{path}/{trial}"
            child = os.fork()
            if not child:
                Collection.create(folder, model)
                os._exit(0)
            time.sleep(0.0004 * trial)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            try:
                collection = Collection.create(folder, model)
                counts["created"] += 1
            except sghash.StorageError as error:
                assert "is a collection already" in str(error), error
                collection = Collection.open(folder, writable=True)
                counts["opened"] += 1
            with collection:
                collection.add(training[:5])
            assert Collection.open(folder).verify().n_rows == 5
        print(json.dumps(counts))
        """,
        tmp_path,
    )
    assert sum(counts.values()) == 30 and counts["created"] >= 5


def test_a_failed_create_removes_only_what_it_made(tmp_path, model, vectors, monkeypatch):
    def refuse(*arguments):
        raise OSError(28, "no space")

    mine = tmp_path / "mine"
    mine.mkdir()
    for folder, there in ((mine, True), (tmp_path / "a" / "b", False)):
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", refuse)
            with pytest.raises(StorageError, match="disk is full"):
                Collection.create(folder, model)
        assert folder.exists() == there
    assert list(mine.iterdir()) == [] and not (tmp_path / "a").exists()
    (mine / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="not empty"):
        Collection.create(mine, model)
    assert [path.name for path in mine.iterdir()] == ["notes.txt"]


def test_a_create_that_fails_at_its_very_end_leaves_nothing(tmp_path, model, monkeypatch):
    """The manifest is there, and the writer cannot begin."""

    def refuse(*arguments, **options):
        raise StorageError(24, "too many files are open")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "load_state", refuse)
        with pytest.raises(StorageError, match="too many files"):
            Collection.create(tmp_path / "c", model)
    assert not (tmp_path / "c").exists()
    Collection.create(tmp_path / "c", model).close()


@needs_fork
def test_a_fork_can_refresh_and_holds_no_guard_of_another_thread(tmp_path):
    """The guard of what a search of all rows computes first is held when the fork happens."""
    said = run(
        """
        from sghash.index import tables as rows
        collection = Collection.create(path, model)
        collection.add(training[:5])
        out, into = os.pipe()
        wait, go = os.pipe()
        rows._terms_guard.lock.acquire()
        child = os.fork()
        if not child:
            signal.alarm(20)
            os.read(wait, 1)
            n = collection.refresh()
            os.write(into, json.dumps([n, rows._terms_guard.lock.locked()]).encode())
            os._exit(0)
        os.close(into)
        rows._terms_guard.lock.release()
        collection.add(training[5:9])
        os.write(go, b"x")
        print(os.read(out, 100).decode() or "null")
        os.waitpid(child, 0)
        """,
        tmp_path / "c",
    )
    assert said == [9, False]


def test_a_program_that_ends_without_closing_says_nothing(tmp_path):
    """What is global outlives the module that closes it."""
    program = """
        collection = Collection.create(path, model)
        os.kept = lambda: collection
        collection.add(training[:5])
        print(5)
    """
    assert run(program, tmp_path / "c") == Collection.open(tmp_path / "c").verify().n_rows


def test_what_looks_like_rows_without_a_manifest_is_not_taken_over(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(vectors[:4])
    (tmp_path / "c" / "manifest.json").unlink()
    before = {path.name for path in (tmp_path / "c").iterdir()}
    with pytest.raises(StorageError, match="not empty"):
        Collection.create(tmp_path / "c", model)
    assert {path.name for path in (tmp_path / "c").iterdir()} == before


def test_removing_the_lock_file_lets_nobody_in(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model) as collection:
        (tmp_path / "c" / "writer.lock").unlink()
        with pytest.raises(StorageError, match="open for writing elsewhere"):
            Collection.open(tmp_path / "c", writable=True)
        collection.add(vectors[:4])
    assert Collection.open(tmp_path / "c").verify().n_rows == 4


def test_searches_beside_a_reencode_see_one_moment(tmp_path, vectors):
    """Rows, model and length of code belong together in every answer."""
    models = [sghash.models.LSH(n_bits=n, random_state=n).fit(vectors) for n in (16, 40)]
    expected = {}
    for model in models:
        index = sghash.HammingIndex(n_bits=model.n_bits)
        index.add(model.encode(vectors))
        found = index.search(model.encode(vectors[:8]), 5)
        expected[found.distances.tobytes() + found.ids.tobytes()] = model.n_bits
    collection = Collection.create(tmp_path / "c", models[0], keep_vectors="float32")
    collection.add(vectors)
    reader = Collection.open(tmp_path / "c")
    reader.search(vectors[:1])
    wrong, seen, stop = [], set(), threading.Event()

    def look(opened):
        while not stop.is_set():
            found = opened.search(vectors[:8], 5, rerank="none")
            answer = expected.get(found.distances.tobytes() + found.ids.tobytes())
            seen.add(answer)
            if answer is None:
                wrong.append(found)

    threads = [threading.Thread(target=look, args=[c]) for c in (collection, collection, reader)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    for i in itertools.count():
        collection.reencode(models[(i + 1) % 2])
        reader.refresh()
        # On a busy machine the threads may not have looked at both models yet.
        if (i >= 30 and seen >= {16, 40}) or time.monotonic() - began > 60:
            break
    stop.set()
    for thread in threads:
        thread.join()
    collection.close()
    assert not wrong and seen == {16, 40}


def test_codes_made_before_another_thread_replaced_the_model(tmp_path, vectors, monkeypatch):
    models = [sghash.models.LSH(n_bits=16, random_state=seed).fit(vectors) for seed in (0, 1)]
    with Collection.create(tmp_path / "c", models[0], keep_vectors="float32") as collection:
        real = type(models[0]).encode

        def encode(model, array):
            codes = real(model, array)
            monkeypatch.undo()
            collection.reencode(models[1])
            return codes

        monkeypatch.setattr(type(models[0]), "encode", encode)
        ids = collection.add(vectors[:6])
        np.testing.assert_array_equal(collection.get(ids).codes, models[1].encode(vectors[:6]))


@pytest.mark.skipif(os.name != "posix", reason="handles are copied the POSIX way")
def test_a_copy_of_the_handle_does_not_keep_the_lock(tmp_path, rng):
    """A child that was just forked has one, until it is told to close it."""
    model = sghash.models.LSH(n_bits=16, random_state=0).fit(np.eye(12, dtype=np.float32))
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    if before is None:
        pytest.skip("this system does not list open files")
    collection = Collection.create(tmp_path / "c", model)
    opened = [int(name) for name in set(os.listdir("/proc/self/fd")) - before]
    copies = []
    for number in opened:
        try:
            copies.append(os.dup(number))
        except OSError:  # that of the listing itself
            continue
    try:
        collection.close()
        Collection.open(tmp_path / "c", writable=True).close()
    finally:
        for number in copies:
            os.close(number)
