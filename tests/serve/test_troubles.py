"""Readers that do not read, files that are damaged, and disks that fail: others are served."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from small_server import WIDTH, make_collection, running

import sghash
from sghash import Collection
from sghash.errors import InvalidInput, MissingData, NewerFormat, StorageError
from sghash.models import LSH
from sghash.serve.api import verbs
from sghash.serve.hosting import Hosted
from sghash.serve.keys import Keys
from sghash.serve.metrics import Metrics
from sghash.serve.refusals import refusal_of
from sghash.serve.settings import Limits, Settings

ROW = [0.0] * WIDTH


def deaf(port, request):
    """A connection whose other end asks and has hardly any room for an answer."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    sock.sendall(request)
    return sock


def until(found, seconds=10.0):
    ends = time.monotonic() + seconds
    while not found() and time.monotonic() < ends:
        time.sleep(0.02)
    return found()


def test_who_does_not_read_answers_is_left_and_holds_up_nobody(start):
    server = start(keys=Keys([("k", frozenset({"read"}))]), limits=Limits(seconds=0.5, requests=2))
    page = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    connections = server.server.server_state.connections
    socks = [deaf(server.port, page * 60) for _ in range(5)]
    assert until(lambda: len(connections) >= 5)
    assert server.ask("search", {"ids": [1]}, x_api_key="k").status == 200
    assert until(lambda: not connections), "unread answers are kept"
    for sock in socks:
        sock.close()


def test_who_reads_slowly_gets_all_of_it(start):
    server = start(limits=Limits(seconds=2))
    page = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    body = json.dumps({"queries": [ROW] * 300, "k": 2000}).encode()
    ask = page.replace(b"GET /", b"POST /collections/rows/search").replace(
        b"\r\n\r\n", b"\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
        % (len(body), body))  # fmt: skip
    started, data = time.monotonic(), b""
    with deaf(server.port, ask) as sock:
        while piece := sock.recv(1 << 19, socket.MSG_WAITALL):
            data += piece
            time.sleep(0.3)
    head, _, found = data.partition(b"\r\n\r\n")
    assert f"content-length: {len(found)}".encode() in head and len(json.loads(found)["ids"]) == 300
    assert time.monotonic() - started > 2


def test_a_damaged_collection_is_named_and_hinders_no_other(tmp_path, caplog):
    made = {}
    for name in ("good", "bad"):
        make_collection(tmp_path / name).close()
        made[name] = sghash.Collection.open(tmp_path / name)
    for path in (tmp_path / "bad").glob("model*/model.safetensors"):
        path.write_bytes(b"\0" * 100)
    with running(made, Settings()) as server:  # it waits until all is ready
        assert server.ask("search", {"queries": [ROW]}, name="good").status == 200
        reply = server.ask("search", {"queries": [ROW]}, name="bad")
        assert reply.status == 503 and reply.json["error"] == "BadFile"
        # Where files lie is said to those who run the server.
        assert str(tmp_path) not in reply.data.decode() and "log" in reply.json["detail"]
        assert str(tmp_path / "bad") in caplog.text
        page = server.send("GET", "/explorer/bad/about")
        assert page.status == 503 and str(tmp_path) not in page.data.decode()
    events = [json.loads(line) for line in server.log.getvalue().splitlines()]
    damaged = [event for event in events if event["event"] == "damaged"]
    assert [(event["level"], event["collection"]) for event in damaged] == [("warning", "bad")]


def test_a_refresh_that_fails_is_told_and_tried_again(tmp_path, monkeypatch):
    make_collection(tmp_path / "rows").close()
    collection, tried, closed = sghash.Collection.open(tmp_path / "rows"), [], []
    close = collection.close

    def refresh():
        tried.append(1)
        if len(tried) == 1:
            raise OSError(24, "Too many open files")

    monkeypatch.setattr(collection, "refresh", refresh)
    monkeypatch.setattr(collection, "close", lambda: closed.append(1) or close())
    with running({"rows": collection}, Settings(refresh_seconds=0.02)) as server:
        assert until(lambda: len(tried) > 2)
    assert "Too many open files" in server.log.getvalue() and closed


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StorageError(28, "cannot write /srv/rows/log: the disk is full"), 507),
        (StorageError("/srv/rows is locked by another writer"), 507),
        (MissingData("there is no file /srv/rows/x"), 503),
        (NewerFormat("/srv/rows/log was written by a later version"), 503),
    ],
)
def test_no_error_names_a_file_of_the_server(error, status, caplog):
    refusal = refusal_of(error)
    assert refusal.status_code == status and "/srv" not in refusal.detail
    assert refusal.error == type(error).__name__ and "/srv" in caplog.text
    assert ("No space left" in refusal.detail) == (getattr(error, "errno", None) == 28)


def test_codes_that_wait_are_not_compared_with_those_of_a_later_model(tmp_path, rng):
    """A query that is gathered with others is answered later than it was checked."""
    rows = rng.standard_normal((50, 8)).astype(np.float32)
    models = [LSH(64, random_state=seed).fit(rows) for seed in (0, 1)]
    asked = dict.fromkeys(("queries", "ids", "keys", "shortlist", "target_recall", "where"))
    asked |= {"k": 3, "rerank": "none", "metadata": False, "fingerprint": models[0].fingerprint_}
    asked["codes"] = models[0].encode(rows[3:4])
    path, readers = tmp_path / "c", ThreadPoolExecutor(1)
    with Collection.create(path, models[0], keep_vectors="float32") as writer, readers:
        writer.add(rows)
        hosted = Hosted("c", Collection.open(path), Settings(), Metrics(), readers)
        assert verbs.single_query(hosted, asked) is None
        verbs.search(hosted, asked)  # by itself it is compared with the model of now
        assert verbs.single_query(hosted, {**asked, "fingerprint": None}) is not None
        writer.reencode(models[1])
        hosted.collection.refresh()
        with pytest.raises(InvalidInput, match="come from"):
            verbs.search(hosted, asked)
