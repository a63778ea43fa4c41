"""Dask with workers and schedulers in processes of their own, some of which are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest

import sghash
from sghash import Collection
from sghash.collection import ShardedCollection
from sghash.errors import MissingData

pytest.importorskip("distributed", reason="needs the dask extra")

from distributed import Client, Future, LocalCluster
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

from sghash.adapters.clusters import blocks, dask as on_dask

N, WIDTH = 3000, 12
# Closing a cluster leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(3).standard_normal((N, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def model(vectors):
    return sghash.ITQ(n_bits=16, random_state=0).fit(vectors)


@pytest.fixture
def files(tmp_path, vectors):
    (tmp_path / "files").mkdir()
    for name, rows in zip("bac", np.split(vectors, [900, 2000]), strict=True):
        np.save(tmp_path / "files" / f"{name}.npy", rows)
    return tmp_path / "files"


def assert_complete(built, path, files, model, queries, **options):
    """The collection is what one process makes of the files, to the last byte."""
    with Collection.create(path, model, **options) as one:
        one.add(np.asarray(sghash.open_vectors(files)))
    assert np.array_equal(built.ids, one.ids) and built.verify().n_rows == N
    assert np.array_equal(built.get(built.ids).codes, one.get(one.ids).codes)
    for left, right in zip(built.search(queries, 7), one.search(queries, 7), strict=True):
        assert np.array_equal(left, right)


@pytest.fixture
def processes():
    """Workers in processes of their own, which can be killed."""
    with (
        LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def kill_a_worker(client):
    """SIGKILL the process of one worker, and return its id."""
    victim = next(iter(client.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    return victim


def test_a_worker_killed_while_building(processes, files, tmp_path, model, vectors):
    killed = []

    def kill_once(done, total):
        if not killed:
            killed.append(kill_a_worker(processes))

    with on_dask.build_collection(
        files, tmp_path / "c", client=processes, model=model, rows_per_part=50, callback=kill_once
    ) as built:
        assert killed
        assert_complete(built, tmp_path / "o", files, model, vectors[:9])


def test_a_worker_killed_while_searching(processes, tmp_path, model, vectors, monkeypatch):
    monkeypatch.setattr(on_dask, "_QUERY_ROWS", 20)
    with Collection.create(tmp_path / "one", model) as one:
        one.add(vectors)
    shards = ShardedCollection.open([tmp_path / "one"]).reshard([tmp_path / f"{i}" for i in "abc"])
    killed = []

    def kill_once(done, total):
        if not killed:
            killed.append(kill_a_worker(processes))

    found = on_dask.search(shards, vectors, 5, client=processes, callback=kill_once)
    expected = one.search(vectors, 5)
    assert killed and np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.distances, expected.distances)


def _hide(folder):
    """Let this worker find a folder no more, as if it had not been mounted."""
    real = blocks.why_missing
    blocks.why_missing = lambda path: "not mounted" if str(path) == folder else real(path)


@pytest.mark.parametrize("how", [{}, {"where": "n > 2"}], ids=str)
def test_workers_that_do_not_see_all_shards(processes, tmp_path, model, vectors, monkeypatch, how):
    """Each shard is searched by those that see it; one that nobody sees is missing."""
    monkeypatch.setattr(on_dask, "_QUERY_ROWS", 20)
    with Collection.create(tmp_path / "one", model) as one:
        one.add(vectors, metadata={"n": np.arange(N) % 5})
    shards = ShardedCollection.open([tmp_path / "one"]).reshard([tmp_path / i for i in "abc"])
    left, right = processes.run(os.getpid)
    processes.run(_hide, str(tmp_path / "a"), workers=[left])
    processes.run(_hide, str(tmp_path / "b"), workers=[right])
    found = on_dask.search(shards, vectors[:200], 5, client=processes, **how)
    assert np.array_equal(found.ids, one.search(vectors[:200], 5, **how).ids)
    processes.run(_hide, str(tmp_path / "a"), workers=[right])
    with pytest.raises(MissingData, match=r"1 of 3 shards .* workers: .*/a \(not mounted\); let"):
        on_dask.search(shards, vectors[:200], 5, client=processes, **how)
    found = on_dask.search(shards, vectors[:200], 5, client=processes, allow_partial=True, **how)
    others = ShardedCollection.open([tmp_path / "b", tmp_path / "c"])
    assert np.array_equal(found.ids, others.search(vectors[:200], 5, **how).ids)


class Engine:
    """A scheduler and a worker, each in a process of its own, as the command line starts them."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.processes, self.folder = [], folder
        self.scheduler = self._start("scheduler", "--host", self.address, "--no-dashboard")
        self._start("worker", self.address, "--nthreads", "1", "--no-dashboard")

    def _start(self, *words):
        with open(self.folder / f"{words[0]}.log", "wb") as log:
            command = [sys.executable, "-m", "dask", *words]
            # The checkout under test, whatever is installed.
            places = os.pathsep.join(os.path.abspath(place) for place in sys.path if place)
            own = os.environ | {"PYTHONPATH": places}
            self.processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=own)
            )
        return self.processes[-1]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def engine(tmp_path):
    (tmp_path / "logs").mkdir()
    engine = Engine(tmp_path / "logs")
    yield engine
    engine.close()


def test_a_killed_scheduler_leaves_nothing_visible(
    engine, processes, files, tmp_path, model, vectors
):
    killed = []

    def kill_once(done, total):
        if not killed:
            engine.scheduler.kill()
            killed.append(done)

    client = Client(engine.address, timeout="60s")
    client.wait_for_workers(1, timeout=60)
    started = time.monotonic()
    build = partial(
        on_dask.build_collection, files, tmp_path / "c", model=model, rows_per_part=10,
        callback=kill_once, keep_vectors="float16",
    )  # fmt: skip
    with pytest.raises((FutureCancelledError, CommClosedError, OSError)):
        build(client=client)
    assert killed and time.monotonic() - started < 120
    client.close(timeout=5)
    assert len(Collection.open(tmp_path / "c")) == 0
    with build(client=processes) as built:
        one = tmp_path / "o"
        assert_complete(built, one, files, model, vectors[:9], keep_vectors="float16")


def test_a_cancelled_job_leaves_the_collection_as_it_was(
    processes, files, tmp_path, model, vectors
):
    """Whoever cancels the futures of a job, and whenever: nothing is visible, and it can go on."""
    with Collection.create(tmp_path / "c", model) as before:
        before.add(vectors[:5])

    def cancel_all(done, total):
        processes.cancel([Future(key, processes) for key in processes.futures], force=True)

    with pytest.raises(FutureCancelledError):
        on_dask.build_collection(
            files, tmp_path / "c", client=processes, rows_per_part=10, callback=cancel_all
        )
    assert len(Collection.open(tmp_path / "c")) == 5
    with on_dask.build_collection(files, tmp_path / "c", client=processes, rows_per_part=10) as c:
        assert len(c) == N + 5 and c.verify().n_rows == N + 5


def test_every_worker_killed_once(processes, files, tmp_path, model, vectors):
    """A worker dies every second; Dask starts others, and the job ends."""
    stop = threading.Event()
    killed = []

    def kill_now_and_then():
        while not stop.wait(1.0) and len(killed) < 3:
            killed.append(kill_a_worker(processes))

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()

    def slowly(done, total):
        time.sleep(0.01)

    try:
        built = on_dask.build_collection(
            files, tmp_path / "c", client=processes, model=model, rows_per_part=5, callback=slowly
        )
    finally:
        stop.set()
        killer.join()
    with built:
        assert killed
        assert_complete(built, tmp_path / "o", files, model, vectors[:9])
