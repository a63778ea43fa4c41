"""Building and searching on an engine beside one process: seconds, equality, kills survived.

    python benchmarks/clusters.py                            # Dask, 10 million vectors of 128
    python benchmarks/clusters.py --rows 1000000 --engine spark
    python benchmarks/clusters.py --rows 1000000 --engine ray

Vectors with structure are written to Parquet once (build/clusters, 512 bytes a row). One process
adds them to a collection; the engine's workers, two or one per core, encode the same files. Content
is compared whole: ids, codes, answers with their ties. With Dask, a worker is killed (SIGKILL)
during a build and during a search, and a scheduler in a process of its own during a build. Seconds
are by the clock, for work is done in several processes: let nothing else run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sghash
from sghash import Collection
from sghash.collection import ShardedCollection

FOLDER = Path("build/clusters")
WIDTH, N_BITS, K = 128, 64, 10
FILE_ROWS, N_QUERIES = 500_000, 1000


def rows_of(number: int, n: int) -> np.ndarray:
    """Rows of one file: noisy sums of random directions, the same in every run."""
    parts = np.random.default_rng(0).standard_normal((24, WIDTH), dtype=np.float32)
    rng = np.random.default_rng([1, number])
    signs = np.sign(rng.standard_normal((n, 24), dtype=np.float32))
    rows: np.ndarray = signs @ parts + rng.standard_normal((n, WIDTH), dtype=np.float32)
    return rows


def written(n: int) -> Path:
    """A folder of Parquet files with n vectors, made where they are not there yet."""
    folder = FOLDER / f"vectors-{n}"
    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, n, FILE_ROWS)):
        path = folder / f"part-{number:05d}.parquet"
        if not path.exists():
            rows = rows_of(number, min(FILE_ROWS, n - start))
            column = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), WIDTH)
            table = pa.table({"vectors": column})
            pq.write_table(table, path.with_suffix(".new"), compression="none",
                           row_group_size=65536, use_dictionary=False)  # fmt: skip
            os.replace(path.with_suffix(".new"), path)
    return folder


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = call()
    return time.perf_counter() - began, found


def fresh(name: str) -> Path:
    path = FOLDER / name
    shutil.rmtree(path, ignore_errors=True)
    return path


def one_process(path: Path, files: Path, model: Any) -> Collection:
    with Collection.create(path, model) as collection:
        collection.add(sghash.open_vectors(files))
    return Collection.open(path)


def say(what: str, is_right: bool) -> None:
    print(f"{what:<66} {'yes' if is_right else 'NO'}", flush=True)
    if not is_right:
        raise SystemExit(f"{what}: no")


def compare(what: str, built: Collection, one: Collection, queries: np.ndarray) -> None:
    """Say whether two collections have the same rows and answers."""
    same = len(built) == len(one) and np.array_equal(built.ids, one.ids)
    for start in range(0, len(one) if same else 0, 10**6):
        ids = one.ids[start : start + 10**6]
        same &= np.array_equal(built.get(ids).codes, one.get(ids).codes)
    say(f"{what}: the same {len(one):,} ids and codes", same)
    for how in ({}, {"rerank": "decoder"}):
        left, right = (c.search(queries, K, **how) for c in (built, one))
        same &= np.array_equal(left.ids, right.ids)
        same &= np.array_equal(left.distances, right.distances)
    say(f"{what}: the same answers to {len(queries)} queries, two ways", same)
    built.verify()


class OnDask:
    def __init__(self, n_workers: int) -> None:
        from distributed import Client, LocalCluster

        from sghash.adapters.clusters import dask

        self.verbs = dask
        self.cluster = LocalCluster(n_workers, threads_per_worker=1, dashboard_address=None)
        self.client = Client(self.cluster)
        self.options = {"client": self.client}

    def close(self) -> None:
        self.client.close()
        self.cluster.close()


class OnSpark:
    def __init__(self, n_workers: int) -> None:
        from pyspark.sql import SparkSession

        from sghash.adapters.clusters import spark

        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(f"local[{n_workers}]")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        self.session = builder.config("spark.ui.enabled", "false").getOrCreate()
        self.verbs, self.options = spark, {"spark": self.session}

    def close(self) -> None:
        self.session.stop()


class OnRay:
    def __init__(self, n_workers: int) -> None:
        import ray

        from sghash.adapters.clusters import ray as verbs

        ray.init(num_cpus=n_workers, include_dashboard=False, object_store_memory=500 << 20)
        self.ray, self.verbs, self.options = ray, verbs, {}

    def close(self) -> None:
        self.ray.shutdown()


ENGINES = {"dask": OnDask, "spark": OnSpark, "ray": OnRay}


def killing(kill: Callable[[], None]) -> tuple[list[int], Callable[[int, int], None]]:
    """A callback that kills once, after the first piece that is done; and whether it has."""
    killed: list[int] = []

    def once(done: int, total: int) -> None:
        if not killed and done < total:
            kill()
            killed.append(done)

    return killed, once


def worker_killer(client: Any) -> Callable[[], None]:
    return lambda: os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def kills(engine: OnDask, files: Path, model: Any, one: Collection, queries: np.ndarray) -> None:
    """Whatever dies, nothing is lost or doubled."""
    part = FILE_ROWS // 5
    killed, callback = killing(worker_killer(engine.client))
    with engine.verbs.build_collection(
        files, fresh("killed"), client=engine.client, model=model, rows_per_part=part,
        callback=callback,
    ) as built:  # fmt: skip
        say("a worker was killed during the build", bool(killed))
        compare("after that", built, one, queries)
    folders = [fresh(f"shard-{place}") for place in range(4)]
    shards = ShardedCollection.open([one.folder]).reshard(folders)
    many = np.repeat(queries, 20, axis=0)
    killed, callback = killing(worker_killer(engine.client))
    found = engine.verbs.search(shards, many, K, client=engine.client, callback=callback)
    say("a worker was killed during a search", bool(killed))
    expected = one.search(many, K)
    same = np.array_equal(found.ids, expected.ids)
    say("after that: the same answers from four shards",
        same and np.array_equal(found.distances, expected.distances))  # fmt: skip
    with scheduler() as (process, client):
        killed, callback = killing(process.kill)
        target = fresh("no-scheduler")
        try:
            engine.verbs.build_collection(
                files, target, client=client, model=model, rows_per_part=part, callback=callback
            )
        except Exception as error:  # what Dask raises then is its own business
            print(f"the scheduler was killed, and the build said: {type(error).__name__}")
        client.close(timeout=5)
    say("after the scheduler's death nothing is visible", len(Collection.open(target)) == 0)
    with engine.verbs.build_collection(
        files, target, client=engine.client, rows_per_part=part
    ) as built:
        compare("a second run", built, one, queries)


@contextmanager
def scheduler() -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """A scheduler and a worker in processes of their own, and a client of it."""
    from distributed import Client

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    first = subprocess.Popen([*command, "scheduler", "--host", address, "--no-dashboard"], **quiet)
    second = subprocess.Popen([*command, "worker", address, "--nthreads", "1"], **quiet)
    try:
        client = Client(address, timeout="60s")
        client.wait_for_workers(1, timeout=60)
        yield first, client
    finally:
        for process in (first, second):
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--engine", choices=sorted(ENGINES), default="dask")
    parser.add_argument("--workers", type=int, default=max(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--keep", action="store_true", help="keep the Parquet files")
    options = parser.parse_args()
    files = written(options.rows)
    sample = rows_of(0, 50_000)
    model = sghash.ITQ(N_BITS, random_state=0).fit(sample)
    queries = rows_of(10**6, N_QUERIES)
    print(f"{options.rows:,} vectors of {WIDTH} in {len(list(files.iterdir()))} Parquet files, "
          f"{options.workers} workers on {len(os.sched_getaffinity(0))} cores")  # fmt: skip
    model.encode(sample)  # compiled before anything is timed
    alone, one = timed(lambda: one_process(fresh("one"), files, model))
    print(f"one process: {alone:.1f} s")
    started, engine = timed(lambda: ENGINES[options.engine](options.workers))
    try:
        seconds, built = timed(
            lambda: engine.verbs.build_collection(
                files, fresh(options.engine), model=model, **engine.options
            )
        )
        print(
            f"{options.engine}: {seconds:.1f} s and {started:.1f} s to start; "
            f"overhead beside one process {seconds - alone:+.1f} s", flush=True,
        )  # fmt: skip
        with built:
            compare(options.engine, built, one, queries)
        if isinstance(engine, OnDask):
            kills(engine, files, model, one, queries)
    finally:
        engine.close()
    for name in (
        "one",
        options.engine,
        "killed",
        "no-scheduler",
        *(f"shard-{i}" for i in range(4)),
    ):
        fresh(name)
    if not options.keep:
        shutil.rmtree(files)


if __name__ == "__main__":
    main()
