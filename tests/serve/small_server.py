"""A small collection behind a real server on a free port, and plain requests to it."""

from __future__ import annotations

import http.client
import io
import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import sghash
from sghash.models import ITQ, LSH
from sghash.serve.app import create_app
from sghash.serve.logs import Journal
from sghash.serve.running import make_server

WIDTH, N = 6, 60


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def array(self) -> np.ndarray:
        return np.load(io.BytesIO(self.data), allow_pickle=False)


@dataclass
class Running:
    """A server: its port, what it has logged, and the rows behind it."""

    port: int
    log: io.StringIO
    rows: np.ndarray
    server: Any
    thread: threading.Thread

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(self, method, path, body=None, **headers):
        """One request on a connection of its own; a dict goes as JSON."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        if body is not None:
            given.setdefault("content-type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body=body, headers=given)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, names, answer.read())
        finally:
            connection.close()

    def ask(self, verb, body=None, name="rows", **headers):
        return self.send("POST", f"/collections/{name}/{verb}", body, **headers)

    def stop(self):
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()


def make_rows(seed=0, n=N):
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def make_collection(folder, *, decodes=False, **options):
    rows = make_rows()
    model = (ITQ(6, random_state=0) if decodes else LSH(16, random_state=0)).fit(rows)
    collection = sghash.Collection.create(folder, model, **options)
    collection.add(rows, metadata={"year": list(range(N)), "name": [f"row {i}" for i in range(N)]})
    return collection


@contextmanager
def running(collections, settings):
    log, ready = io.StringIO(), threading.Event()
    app = create_app(collections, settings, Journal(log))
    sock = socket.create_server(("127.0.0.1", 0))
    server = make_server(app, settings.limits, ready.set)
    thread = threading.Thread(target=server.run, args=([sock],))
    thread.start()
    assert ready.wait(30)
    run = Running(sock.getsockname()[1], log, make_rows(), server, thread)
    try:
        ends = time.monotonic() + 30
        while run.send("GET", "/readyz").status != 200:
            assert time.monotonic() < ends, log.getvalue()
        yield run
    finally:
        run.stop()
        sock.close()
