"""Kill a server again and again while clients write: what was acknowledged is there, once.

    python tests/stress/serving.py --kills 300

Each client has one request under way at a time; when the server is killed, that one may have been
done, wholly, or not at all. Everything else is known: after each kill the collection is read and
compared in full. Prints counts as JSON; exit code 1 if anything was wrong. `--break` lets the
server acknowledge some rows that it does not write, which must be noticed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import sghash
from sghash.models import LSH
from sghash.serve.running import serve
from sghash.serve.settings import Settings

WIDTH, CLIENTS = 4, 4
#: Kills of one collection: it grows all the time, and is read in full after each of them.
KILLS_OF_COLLECTION = 30


class Fault(Exception):
    """Something is not as it was acknowledged."""


class Client:
    """Writes rows of its own, and knows what it was told about them."""

    def __init__(self, number: int, seed: int) -> None:
        self.number, self.rng = number, random.Random(seed)
        #: Name of a row (its key, or its id) -> its mark, which no other row ever had.
        self.known: dict[str | int, int] = {}
        #: What an unanswered request would have changed: name -> mark, None if deleted.
        self.open: dict[str | int, int | None] | None = None
        self.open_marks: list[int] = []
        self.n_keys = self.n_marks = 0
        self.acknowledged = 0
        self.refused: list[str] = []

    def write(self, port: int, stop: threading.Event) -> None:
        """Send one request after the other until the server is gone."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            while not stop.is_set():
                self._step(connection)
        except (OSError, http.client.HTTPException):
            return  # killed
        finally:
            connection.close()

    def _step(self, connection: http.client.HTTPConnection) -> None:
        way = self.rng.choice(["add", "add keys", "upsert", "delete"])
        names = list(self.known)
        if way in ("upsert", "delete") and not names:
            return
        n = self.rng.randint(1, 5)
        if way == "delete":
            chosen = self.rng.sample(names, min(n, len(names)))
            keys = [name for name in chosen if isinstance(name, str)]
            ids = [name for name in chosen if isinstance(name, int)]
            fields = {"keys": keys} if keys else {"ids": ids}
            change: dict[str | int, int | None] = dict.fromkeys(keys or ids)
            self._send(connection, "delete", fields, change, [])
            return
        marks = [self._mark() for _ in range(n)]
        fields = {}
        if way == "add keys":
            keys = [f"{self.number}-{self.n_keys + i}" for i in range(n)]
            self.n_keys += n
            fields = {"keys": keys}
        elif way == "upsert":
            kind = type(self.rng.choice(names))
            same = [name for name in names if isinstance(name, kind)]
            chosen = self.rng.sample(same, min(n, len(same)))
            marks = marks[: len(chosen)]
            fields = {"keys" if kind is str else "ids": chosen}
        vectors = [[float(mark)] * WIDTH for mark in marks]
        fields |= {"vectors": vectors, "metadata": {"mark": marks}}
        named = fields.get("keys") or fields.get("ids")
        change = dict(zip(named, marks, strict=True)) if named else {}
        self._send(connection, "upsert" if way == "upsert" else "add", fields, change, marks)

    def _mark(self) -> int:
        self.n_marks += 1
        return self.number * 10**9 + self.n_marks

    def _send(self, connection, verb, fields, change, marks) -> None:
        self.open, self.open_marks = change, marks
        body = json.dumps(fields)
        headers = {"content-type": "application/json"}
        connection.request("POST", f"/collections/rows/{verb}", body, headers)
        answer = connection.getresponse()
        told = json.loads(answer.read())
        if answer.status != 200:
            self.refused.append(f"{verb}: {answer.status} {told}")
        else:
            if not change:  # the server has numbered the rows
                change = dict(zip(told["ids"], marks, strict=True))
            self.acknowledged += 1
            self.settle(change)
        self.open, self.open_marks = None, []

    def settle(self, change: dict[str | int, int | None]) -> None:
        """Take a change as done."""
        for name, mark in change.items():
            if mark is None:
                del self.known[name]
            else:
                self.known[name] = mark


def start(folder: Path, sabotage: bool) -> tuple[int, int]:
    """A server in a child process; returns its process and its port."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 2)
            if sabotage:
                break_add()
            settings = Settings(writable=True, log_requests=False)
            told = lambda address: os.write(writer, address.encode())  # noqa: E731
            serve([f"rows={folder}"], settings, port=0, listening=told)
        finally:
            os._exit(0)
    os.close(writer)
    address = os.read(reader, 200).decode()
    os.close(reader)
    if not address:
        os.waitpid(child, 0)
        raise Fault("the server did not start again")
    return child, int(address.rpartition(":")[2])


def break_add() -> None:
    """Let some rows be acknowledged that are not written."""
    add = sghash.Collection.add

    def broken(self, vectors, ids=None, metadata=None):
        if ids is None and random.random() < 0.2:
            return np.arange(len(vectors)) + 10**12 + random.randrange(10**9)
        return add(self, vectors, ids, metadata)

    sghash.Collection.add = broken


def check(folder: Path, clients: list[Client]) -> int:
    """Compare all rows with what clients know; settle what was open. Returns the rows."""
    collection = sghash.Collection.open(folder)
    ids = collection.ids
    found = collection.get(ids)
    marks = found.metadata.get("mark", [])
    twice = [mark for mark, times in Counter(marks).items() if times > 1]
    if twice:
        raise Fault(f"rows are there twice: marks {twice[:5]}")
    there: dict[str | int, int] = {}
    for id_, key, mark in zip(ids.tolist(), found.keys, marks, strict=True):
        there[key if key is not None else id_] = mark
    if not np.array_equal(found.vectors[:, 0], np.array(marks, np.float32)):
        raise Fault("vectors do not belong to their rows")
    for client in clients:
        if client.refused:
            raise Fault(f"a right request was refused: {client.refused[0]}")
        own = {name: m for name, m in there.items() if m // 10**9 == client.number}
        if own != client.known:
            client.settle(_done(client, own))
        if own != client.known:
            differ = set(own.items()) ^ set(client.known.items())
            raise Fault(f"client {client.number}: rows differ: {sorted(differ, key=str)[:6]}")
        client.open, client.open_marks = None, []
    return len(ids)


def _done(client: Client, own: dict[str | int, int]) -> dict[str | int, int | None]:
    """What the open request of a client has changed; rows that were numbered are found by mark."""
    if client.open is None:
        return {}
    if client.open or not client.open_marks:
        return client.open
    new = {name: mark for name, mark in own.items() if mark in client.open_marks}
    return dict(new) if len(new) == len(client.open_marks) else {}


def new_collection(folder: Path) -> None:
    """An empty collection."""
    rows = np.random.default_rng(0).standard_normal((50, WIDTH)).astype(np.float32)
    model = LSH(16, random_state=0).fit(rows)
    sghash.Collection.create(folder, model, keep_vectors="float32").close()


def main() -> int:
    """Kill, check, and count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--break", dest="sabotage", action="store_true")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    counts: Counter[str] = Counter()
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        clients: list[Client] = []
        for number in range(given.kills):
            folder = Path(name) / str(number // KILLS_OF_COLLECTION)
            if not folder.exists():
                new_collection(folder)
                clients = [Client(i, rng.randrange(10**9)) for i in range(CLIENTS)]
            try:
                before = sum(client.acknowledged for client in clients)
                child, port = start(folder, given.sabotage)
                load(child, port, clients, float(rng.uniform(0.02, 0.4)))
                counts["kills"] += 1
                written = sum(client.acknowledged for client in clients)
                counts["acknowledged writes"] += written - before
                counts["open requests"] += sum(client.open is not None for client in clients)
                counts["rows compared"] += check(folder, clients)
            except Fault as fault:
                faults.append(f"kill {number}: {fault}")
                break
    print(json.dumps({"counts": dict(counts), "faults": faults}))
    return 1 if faults else 0


def load(child: int, port: int, clients: list[Client], seconds: float) -> None:
    """Let clients write, and kill the server in the midst of it."""
    stop = threading.Event()
    threads = [threading.Thread(target=one.write, args=(port, stop)) for one in clients]
    for thread in threads:
        thread.start()
    before = sum(one.acknowledged for one in clients)
    deadline = time.monotonic() + 60
    while sum(one.acknowledged for one in clients) == before and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    stop.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    socket.setdefaulttimeout(60)
    sys.exit(main())
