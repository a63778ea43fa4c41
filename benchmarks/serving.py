"""Queries per second of `sghash serve` beside a plain service of FastAPI and FAISS.

    python benchmarks/serving.py [--seconds 60] [--clients 64] [--rows 500000] [--codes]

Many clients ask single queries, each waiting for its answer, while a writer adds 20 rows ten times
a second: durably to `sghash serve`, to memory beside it. Both servers run all the time and are
asked in turns, half of the seconds at a time, with the same vectors (`--codes`: with codes, which
need no model). The plain service (`measuring/plain_service.py`) runs on the same uvicorn. Read the
ratio, and the processor time of the server per query: clients, writer and servers share the
machine's cores.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring.http_load import Load, request_bytes, run_load

import sghash

WIDTH, CLUSTERS, K = 128, 200, 10
TARGET = 1.3
WRITES_PER_SECOND, ROWS_OF_WRITE = 10, 20


class Service(NamedTuple):
    """A server that runs, and its addresses."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    search: str
    add: str

    def cpu_seconds(self) -> float:
        """Processor time that it has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Result(NamedTuple):
    """Answers, processor time, and rows written meanwhile."""

    load: Load
    cpu: float
    written: int
    failed: int


def main() -> None:
    """Measure, and print the figures beside the target."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--bits", type=int, default=128)
    parser.add_argument("--codes", action="store_true", help="ask by codes, not by vectors")
    parser.add_argument("--quiet", action="store_true", help="sghash serve logs no requests")
    parser.add_argument("--gather-ms", default="1", help="of sghash serve; 0 gathers nothing")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        queries = prepare(folder, given.rows, given.bits)
        with services(folder, quiet=given.quiet, gather_ms=given.gather_ms) as both:
            model = sghash.load_model(folder / "model")
            asked = [fields_of(query, model if given.codes else None) for query in queries]
            results: dict[str, Result] = {}
            for service in both:
                measure(service, asked, queries, given.clients, 2.0)  # both are warm by then
            for service in [*both, *both]:
                result = measure(service, asked, queries, given.clients, given.seconds / 2)
                before = results.get(service.name)
                results[service.name] = result if before is None else plus(before, result)
    show(results, given.rows, given.bits, given.clients)


def plus(one: Result, other: Result) -> Result:
    """Two halves of a measurement."""
    return Result(
        one.load + other.load, one.cpu + other.cpu, one.written + other.written,
        one.failed + other.failed,
    )  # fmt: skip


def prepare(folder: Path, rows: int, bits: int) -> np.ndarray:
    """A model, a collection and a file of the same codes; returns queries."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((CLUSTERS, WIDTH), dtype=np.float32)

    def draw(n: int) -> np.ndarray:
        spread = rng.standard_normal((n, WIDTH), dtype=np.float32)
        return centers[rng.integers(CLUSTERS, size=n)] + spread

    model = sghash.ITQ(bits, random_state=0).fit(draw(20_000))
    model.save(folder / "model")
    codes = np.concatenate([model.encode(draw(50_000)) for _ in range(-(-rows // 50_000))])[:rows]
    np.save(folder / "codes.npy", codes)
    with sghash.Collection.create(folder / "rows", model) as collection:
        collection.add_codes(codes, fingerprint=model.fingerprint_)
        collection.compact()
    return draw(1000)


def fields_of(query: np.ndarray, model: object) -> dict[str, object]:
    """A question, the same for both services."""
    if model is None:
        return {"queries": [np.round(query, 4).tolist()], "k": K}
    return {"codes": [model.encode(query[None])[0].tobytes().hex()], "k": K}  # type: ignore[attr-defined]


@contextmanager
def services(folder: Path, *, quiet: bool, gather_ms: str) -> Iterator[list[Service]]:
    """Both services, running."""
    ports = [free_port(), free_port()]
    ours = [
        sys.executable, "-m", "sghash", "serve", str(folder / "rows"), "--writable",
        "--port", str(ports[0]), "--gather-ms", gather_ms, *(["--quiet"] if quiet else []),
    ]  # fmt: skip
    plain = Path(__file__).parent / "measuring" / "plain_service.py"
    rival = [
        sys.executable, str(plain), str(folder / "model"), str(folder / "codes.npy"), str(ports[1]),
    ]  # fmt: skip
    log = open(folder / "log", "wb")  # noqa: SIM115 - lives as long as the servers
    started: list[Service] = []
    try:
        for name, command, port, root in (
            ("sghash serve", ours, ports[0], "/collections/rows"),
            ("FastAPI + FAISS", rival, ports[1], ""),
        ):
            process = subprocess.Popen(command, stdout=log, stderr=log)
            started.append(Service(name, process, port, f"{root}/search", f"{root}/add"))
        for service, path in zip(started, ("/readyz", "/healthz"), strict=True):
            wait_for(service, path)
        yield started
    finally:
        for service in started:
            service.process.terminate()
        for service in started:
            service.process.wait(30)
        log.close()


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait_for(service: Service, path: str) -> None:
    """Wait until a service answers; the first kernels may have to be compiled."""
    for _ in range(3000):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{service.name} does not start")


def measure(
    service: Service, asked: list[dict[str, object]], rows: np.ndarray, clients: int, seconds: float
) -> Result:
    """Ask one service while rows are added."""
    requests = [request_bytes(service.search, fields) for fields in asked]
    stop, written, failed = threading.Event(), [0], [0]
    body = {"vectors": np.round(rows[:ROWS_OF_WRITE] + 3, 4).tolist()}
    data = request_bytes(service.add, body).partition(b"\r\n\r\n")[2]

    def write() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
        while not stop.wait(1 / WRITES_PER_SECOND):
            connection.request("POST", service.add, data, {"content-type": "application/json"})
            answer = connection.getresponse()
            if answer.status == 200 and json.loads(answer.read()):
                written[0] += ROWS_OF_WRITE
            else:
                answer.read()
                failed[0] += 1

    writer = threading.Thread(target=write)
    before = service.cpu_seconds()
    writer.start()
    try:
        load = run_load(service.port, requests, clients=clients, seconds=seconds, k=K)
    finally:
        stop.set()
        writer.join()
    return Result(load, service.cpu_seconds() - before, written[0], failed[0])


def show(results: dict[str, Result], rows: int, bits: int, clients: int) -> None:
    """Print what was measured."""
    cores = len(os.sched_getaffinity(0))
    print(f"{rows:,} codes of {bits} bits, {clients} clients, k = {K}, {cores} core(s) for all")
    print(f"{'':16} {'queries/s':>10} {'p50 ms':>8} {'p99 ms':>8} {'CPU us/query':>13} "
          f"{'errors':>7} {'rows written':>13} {'failed writes':>14}")  # fmt: skip
    for name, (load, cpu, written, failed) in results.items():
        each = 1e6 * cpu / max(1, len(load.seconds))
        print(
            f"{name:16} {load.per_second:10.0f} {load.milliseconds(50):8.1f} "
            f"{load.milliseconds(99):8.1f} {each:13.0f} {len(load.errors):7} {written:13,} "
            f"{failed:14}"
        )
        for error in load.errors[:3]:
            print(f"  {error!r}")
    (ours, own_cpu, *_), (plain, plain_cpu, *_) = results.values()
    ratio = ours.per_second / plain.per_second
    cpu_ratio = (plain_cpu / len(plain.seconds)) / (own_cpu / len(ours.seconds))
    verdict = "reached" if ratio >= TARGET and not ours.errors else "missed"
    print(f"queries per second: {ratio:.2f} x the plain service (target {TARGET}: {verdict}); "
          f"processor time per query: {cpu_ratio:.2f} x less")  # fmt: skip


if __name__ == "__main__":
    main()
