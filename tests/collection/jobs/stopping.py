"""Jobs that are stopped, and what must be true afterwards. Run as a program, prints counts.

    python stopping.py kill FOLDER TRIALS      SIGKILL at random moments
    python stopping.py stop FOLDER STEP        stop after every STEP-th call that changes the disk
    python stopping.py power FOLDER STEP       the same, and lose all that was not synced

A process prepares a job, encodes its tasks and commits them. Whatever stopped it, the collection
must be what it was before, or have all rows of the job; and whoever does the same again, from the
beginning, must end with all of them, once.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "storage"))

from crashing import WIDTH, PowerCut, StopAfter, make_model

from sghash import Collection
from sghash.collection import encode_part

N_BEFORE, N_JOB, KILLED = 12, 60, [2, 5]
NAMES = (*StopAfter.NAMES, "link", "rmdir")


def vectors(n, seed):
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def create(root):
    """A collection with rows in the log, some of them deleted, and files for a job."""
    with Collection.create(root / "c", make_model(), keep_vectors="float32") as collection:
        collection.add(vectors(N_BEFORE, 1))
        collection.delete(KILLED)
    (root / "files").mkdir()
    np.save(root / "files" / "a.npy", vectors(N_JOB, 2)[:25])
    np.save(root / "files" / "b.npy", vectors(N_JOB, 2)[25:])


def run_job(root):
    """All of a job, as one process would do it."""
    with Collection.open(root / "c", writable=True) as collection:
        tasks = collection.prepare(root / "files", job="load", rows_per_part=20)
        assert collection.commit([encode_part(task) for task in tasks], job="load") == N_JOB


def check(root, *, must_be_done=False):
    """Whether all rows of the job are there; they must be, or none of them, and nothing else."""
    collection = Collection.open(root / "c")
    collection.verify()
    before = [i for i in range(N_BEFORE) if i not in KILLED]
    ids = collection.ids.tolist()
    done = ids != before
    assert done or not must_be_done
    expected = vectors(N_BEFORE, 1)[before]
    if done:
        assert ids == [*before, *range(N_BEFORE, N_BEFORE + N_JOB)]
        expected = np.vstack([expected, vectors(N_JOB, 2)])
    found = collection.get(ids)
    np.testing.assert_array_equal(found.vectors, expected)
    np.testing.assert_array_equal(found.codes, make_model().encode(expected))
    return done


def go_on(root):
    """The same job again, twice: it must end as if nothing had happened."""
    for _ in range(2):
        run_job(root)
        assert check(root, must_be_done=True)
    assert not (root / "c" / "staged").exists()
    names = {path.name.split("-")[0] for path in (root / "c").iterdir()}
    assert names == {"log", "manifest.json", "model", "segment", "writer.lock"}


class Stop(StopAfter):
    NAMES = NAMES


class Power(PowerCut):
    """A cut of power that knows folders inside the collection."""

    NAMES = NAMES

    def install(self):
        self.listings = {}
        for path in [self.folder, *self.folder.rglob("*")]:
            if path.is_dir():
                self._list(path)
            else:
                self.bytes[path.stat().st_ino] = path.read_bytes()
        super().install()

    def _list(self, path):
        self.listings[path] = {p.name: (p.stat().st_ino, p.is_dir()) for p in path.iterdir()}

    def _synced(self, handle):
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if path.is_dir():
            self._list(path)
        else:
            self.bytes[os.fstat(handle).st_ino] = path.read_bytes()

    def _leave_what_survives(self):
        self.n = -1
        self._restore(self.folder, self.target)

    def _restore(self, source, target):
        target.mkdir(parents=True)
        for name, (inode, is_folder) in self.listings.get(source, {}).items():
            if is_folder:
                self._restore(source / name, target / name)
            else:
                (target / name).write_bytes(self.bytes.get(inode, b""))


def in_child(root, prepare):
    """Run a job in a child; return its exit code, negative if it was killed."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        prepare()
        run_job(root)
        status = 0
    finally:
        os._exit(status)


def code_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fresh(folder, pristine):
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(pristine, work)
    return work


def stop_everywhere(folder, step):
    counts = {"stops": 0, "torn": 0, "done": 0}
    create(folder / "pristine")
    for torn in (False, True):
        n = 1
        while True:
            work = fresh(folder, folder / "pristine")
            code = code_of(in_child(work, Stop(n, torn=torn).install))
            assert code in (0, 9), f"the job failed with {code} at call {n}"
            counts["done"] += check(work, must_be_done=code == 0)
            go_on(work)
            if code == 0:
                break
            counts["torn" if torn else "stops"] += 1
            n += step
    return counts


def cut_power_everywhere(folder, step):
    counts = {"power cuts": 0, "done": 0}
    create(folder / "pristine")
    n = 1
    while True:
        work, survived = fresh(folder, folder / "pristine"), folder / "survived"
        shutil.rmtree(survived, ignore_errors=True)
        survived.mkdir()
        shutil.copytree(work / "files", survived / "files")
        code = code_of(in_child(work, Power(n, work / "c", survived / "c").install))
        assert code in (0, 9), f"the job failed with {code} at call {n}"
        if code == 0:
            return counts
        counts["done"] += check(survived)
        go_on(survived)
        counts["power cuts"] += 1
        n += step


def kill_at_random(folder, trials):
    counts, clock = {"kills": 0, "done": 0}, random.Random(0)
    create(folder / "pristine")
    for _ in range(trials):
        work = fresh(folder, folder / "pristine")
        child = in_child(work, lambda: None)
        time.sleep(clock.uniform(0.001, 0.05))
        os.kill(child, signal.SIGKILL)
        counts["kills"] += code_of(child) < 0
        counts["done"] += check(work)
        go_on(work)
    return counts


def sample_of_all(folder, step):
    found = {}
    for run in (stop_everywhere, cut_power_everywhere):
        found[run.__name__] = run(folder / run.__name__, step)
    found["kill_at_random"] = kill_at_random(folder / "kill", 4)
    return found


if __name__ == "__main__":
    verb, folder, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    create(folder / "warm")
    run_job(folder / "warm")
    go_on(folder / "warm")
    verbs = {"kill": kill_at_random, "stop": stop_everywhere, "power": cut_power_everywhere,
             "sample": sample_of_all}  # fmt: skip
    print(json.dumps(verbs[verb](folder, number)))
