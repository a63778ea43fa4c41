"""Writers that are stopped, and what must be true afterwards. Run as a program, prints counts.

    python crashing.py kill FOLDER TRIALS      SIGKILL at random moments
    python crashing.py stop FOLDER STEP        stop after every STEP-th write, sync or rename
    python crashing.py power FOLDER STEP       the same, and lose all that was not synced

A workload is a list of operations with a known outcome. Whatever happened to the writer, the
collection must then be exactly the outcome of the operations that it acknowledged, or of these
and the one it was about to finish: nothing lost, nothing twice, nothing half.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sghash
from sghash import Collection
from sghash.collection.lists import building
from sghash.collection.storage import writer

WIDTH, IDS = 12, 120


@functools.cache
def make_model(n_bits=20, seed=0):
    training = np.random.default_rng(5).standard_normal((400, WIDTH)).astype(np.float32)
    return sghash.ITQ(n_bits=n_bits, random_state=seed).fit(training)


def create(folder):
    """A collection with partitions, so that compacting writes files of lists as well."""
    building.N_SAMPLE = 4  # the curve is no matter of the disk
    Collection.create(folder, make_model(), keep_vectors="float32", partitions=3).close()


def shrink_limits():
    """Flush and merge all the time, as a large collection would now and then."""
    writer.LOG_BYTES, writer.LOG_RECORDS = 1 << 13, 6
    writer.MAX_SEGMENTS, writer.MERGE_SEGMENTS = 4, 3


def vector_of(id_, version):
    return np.random.default_rng([id_, version]).standard_normal(WIDTH).astype(np.float32)


class Operation:
    """One change: its name, the ids it concerns and the version of their vectors."""

    def __init__(self, name, ids=(), version=0):
        self.name, self.ids, self.version = name, [int(i) for i in ids], int(version)

    def apply(self, collection):
        """Do it for real."""
        if self.name in ("add", "upsert"):
            vectors = np.stack([vector_of(i, self.version) for i in self.ids])
            versions = {"version": [self.version] * len(self.ids)}
            getattr(collection, self.name)(vectors, self.ids, versions)
        elif self.name == "delete":
            collection.delete(self.ids)
        elif self.name == "compact":
            collection.compact()
        elif self.name == "reencode":
            collection.reencode(make_model(n_bits=20 + self.version % 3))

    def outcome(self, table):
        """What {id: version} becomes."""
        if self.name in ("add", "upsert"):
            return {**table, **dict.fromkeys(self.ids, self.version)}
        if self.name == "delete":
            return {i: v for i, v in table.items() if i not in self.ids}
        return table


def random_operations(rng, table, n):
    """A workload that starts from the state `table`."""
    operations = []
    for _ in range(n):
        alive, free = sorted(table), sorted(set(range(IDS)) - set(table))
        version = int(rng.integers(1, 10**6))
        name = rng.choice(["add", "add", "upsert", "upsert", "delete", "large", "compact"],
                          p=[0.25, 0.1, 0.2, 0.15, 0.2, 0.07, 0.03])  # fmt: skip
        operation = Operation("compact")
        if name == "add" and free:
            operation = Operation(
                "add", rng.choice(free, min(len(free), 5), replace=False), version
            )
        elif name == "upsert":
            operation = Operation("upsert", rng.choice(IDS, 4, replace=False), version)
        elif name == "delete" and len(alive) > 10:
            operation = Operation("delete", rng.choice(alive, 6, replace=False))
        elif name == "large":
            operation = Operation("upsert", np.arange(IDS), version)
        operations.append(operation)
        table = operation.outcome(table)
    return operations


def run_operations(folder, operations, report):
    """Do them, and tell when each is acknowledged."""
    collection = Collection.open(folder, writable=True)
    report(b"o")
    for operation in operations:
        operation.apply(collection)
        report(b"d")
    collection.close()


def contents(folder):
    """{id: version} as found on the disk, every byte checked, every code and vector compared."""
    collection = Collection.open(folder)
    summary = collection.verify()
    ids = collection.ids
    assert summary.n_rows == len(ids) == len(set(ids.tolist()))
    if not len(ids):
        return {}
    records = collection.get(ids)
    versions = records.metadata["version"]
    vectors = np.stack([vector_of(i, v) for i, v in zip(ids.tolist(), versions, strict=True)])
    np.testing.assert_array_equal(records.vectors, vectors)
    np.testing.assert_array_equal(records.codes, collection.model.encode(vectors))
    return dict(zip(ids.tolist(), versions, strict=True))


def check_outcome(folder, table, operations, n_done):
    """Return the state found and whether the operation under way had taken effect."""
    expected = table
    for operation in operations[:n_done]:
        expected = operation.outcome(expected)
    found = contents(folder)
    if found == expected and n_done == len(operations):
        return found, False
    following = operations[n_done].outcome(expected) if n_done < len(operations) else expected
    if found == expected:
        return found, False
    assert found == following, f"after {n_done} acknowledged operations: {found} != {expected}"
    return found, True


def fork_writer(folder, operations, prepare=lambda: None):
    """A child that works through `operations`; what it acknowledges comes out of a pipe."""
    out, into = os.pipe()
    child = os.fork()
    if child:
        os.close(into)
        return child, out
    status = 1
    try:
        os.close(out)
        real_write = os.write
        prepare()
        run_operations(folder, operations, lambda mark: real_write(into, mark))
        status = 0
    finally:
        os._exit(status)


def read_marks(out):
    """How many operations a dead writer acknowledged."""
    marks = b""
    while part := os.read(out, 4096):
        marks += part
    os.close(out)
    return marks


def kill_at_random(folder, trials, seed=0):
    """SIGKILL a writer `trials` times; return counts."""
    clock, rng = random.Random(seed), np.random.default_rng(seed)
    create(folder)
    table, counts = {}, {"kills": 0, "acknowledged": 0, "under way and kept": 0, "finished": 0}
    while counts["kills"] < trials:
        operations = random_operations(rng, table, 30)
        child, out = fork_writer(folder, operations)
        time.sleep(clock.uniform(0.001, 0.12))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        marks = read_marks(out)
        n_done = max(0, len(marks) - 1)
        table, kept = check_outcome(folder, table, operations, n_done)
        counts["acknowledged"] += n_done
        counts["under way and kept"] += kept
        counts["kills" if os.WIFSIGNALED(status) else "finished"] += 1
    return counts


class StopAfter:
    """Count every call that changes the disk; end the process after call number `n`.

    With `torn`, a write that is call number `n` writes half of its bytes.
    """

    NAMES = ("write", "fsync", "fdatasync", "replace", "unlink", "ftruncate", "open", "mkdir")

    def __init__(self, n, *, torn=False):
        self.n, self.torn, self.count = n, torn, 0

    def install(self):
        for name in self.NAMES:
            setattr(os, name, self._wrap(getattr(os, name), name))

    def _wrap(self, real, name):
        def call(*arguments, **options):
            self.count += 1
            if self.count == self.n and name == "write" and self.torn:
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os._exit(9)
            try:
                return real(*arguments, **options)
            finally:
                if self.count == self.n:
                    os._exit(9)

        return call


class PowerCut(StopAfter):
    """Like `StopAfter`, but only what was synced survives: contents by file, names by folder.

    The folder as it would be found after the power came back is written to `target`.
    """

    def __init__(self, n, folder, target):
        super().__init__(n)
        self.folder, self.target = Path(folder), Path(target)
        self.names, self.bytes = {}, {}

    def install(self):
        for path in self.folder.iterdir():
            self.names[path.name] = path.stat().st_ino
            if path.is_file():
                self.bytes[path.stat().st_ino] = path.read_bytes()
        self.real_exit = os._exit
        super().install()

    def _wrap(self, real, name):
        def call(*arguments, **options):
            self.count += 1
            try:
                result = real(*arguments, **options)
                if name in ("fsync", "fdatasync"):
                    self._synced(arguments[0])
                return result
            finally:
                if self.count == self.n:
                    self._leave_what_survives()
                    self.real_exit(9)

        return call

    def _synced(self, handle):
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if path == self.folder:
            self.names = {p.name: p.stat().st_ino for p in path.iterdir()}
        elif path.is_file():
            self.bytes[os.fstat(handle).st_ino] = path.read_bytes()

    def _leave_what_survives(self):
        self.n = -1
        self.target.mkdir()
        for name, inode in self.names.items():
            here = self.folder / name
            if name.startswith("model-"):
                # Written by another library: synced before its folder was.
                shutil.copytree(here, self.target / name)
            else:
                # A name without contents is what a file system may leave.
                (self.target / name).write_bytes(self.bytes.get(inode, b""))


def cut_power_everywhere(folder, step=1, first=1):
    """After each call that changes the disk, go on from what was synced until then."""
    pristine, work = Path(folder) / "pristine", Path(folder) / "work"
    survived = Path(folder) / "survived"
    create(pristine)
    # Replacing a model is left out: its files are not written by us.
    operations = [o for o in fixed_operations() if o.name != "reencode"]
    counts = {"power cuts": 0, "under way and kept": 0}
    n = first
    while True:
        for path in (work, survived):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(pristine, work)
        child, out = fork_writer(work, operations, PowerCut(n, work, survived).install)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        marks = read_marks(out)
        assert code in (0, 9), f"the writer failed with {code} at call {n}"
        if code == 0:
            return counts
        _, kept = check_outcome(survived, {}, operations, max(0, len(marks) - 1))
        with Collection.open(survived, writable=True) as collection:
            Operation("upsert", [IDS + 1], 5).apply(collection)
        assert contents(survived)[IDS + 1] == 5
        counts["power cuts"] += 1
        counts["under way and kept"] += kept
        n += step


def fixed_operations():
    """Every kind of change, small and large, with flushes and merges between them."""
    rng = np.random.default_rng(3)
    operations = [Operation("add", range(i, i + 4), i + 1) for i in range(0, 32, 4)]
    operations += [
        Operation("delete", [1, 6, 30]),
        Operation("upsert", range(2, 9), 77),
        Operation("upsert", np.arange(IDS), 78),
        Operation("delete", rng.choice(IDS, 40, replace=False)),
        Operation("upsert", range(50, 60), 79),
        Operation("compact"),
        Operation("upsert", range(58, 63), 80),
        Operation("reencode", version=1),
        Operation("delete", [58]),
    ]
    operations += [Operation("upsert", [i], 100 + i) for i in range(14)]
    return operations


def stop_everywhere(folder, step=1, first=1):
    """Stop a writer after each call that changes the disk, once cleanly and once mid-write."""
    pristine, work = Path(folder) / "pristine", Path(folder) / "work"
    create(pristine)
    operations = fixed_operations()
    counts = {"stops": 0, "torn": 0, "under way and kept": 0}
    for torn in (False, True):
        n, ended = first, False
        while not ended:
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(pristine, work)
            child, out = fork_writer(work, operations, StopAfter(n, torn=torn).install)
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
            marks = read_marks(out)
            assert code in (0, 9), f"the writer failed with {code} at call {n}"
            ended = code == 0
            _, kept = check_outcome(work, {}, operations, max(0, len(marks) - 1))
            # A new writer must be able to go on from there.
            with Collection.open(work, writable=True) as collection:
                Operation("upsert", [IDS + 1], 5).apply(collection)
            assert contents(work)[IDS + 1] == 5
            counts["torn" if torn else "stops"] += not ended
            counts["under way and kept"] += kept
            n += step
    return counts


def sample_of_all(folder, step):
    """A few stops of every kind, spread over the workload."""
    folders = [Path(folder) / name for name in ("kill", "stop", "power")]
    for path in folders[1:]:
        path.mkdir(parents=True)
    return (
        kill_at_random(folders[0], 8)
        | stop_everywhere(folders[1], step)
        | cut_power_everywhere(folders[2], step)
    )


def warm_up():
    """Load all kernels once: every writer that is forked would load them again."""
    with tempfile.TemporaryDirectory() as folder:
        create(Path(folder) / "c")
        run_operations(Path(folder) / "c", fixed_operations(), lambda mark: None)


if __name__ == "__main__":
    shrink_limits()
    verb, folder, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    run = {
        "kill": kill_at_random,
        "stop": stop_everywhere,
        "power": cut_power_everywhere,
        "sample": sample_of_all,
    }[verb]
    for bits in (20, 21, 22):
        make_model(bits)
    make_model()
    warm_up()
    print(json.dumps(run(folder, number)))
