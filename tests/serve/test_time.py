"""No answer takes longer than it may, whatever it waits for."""

from __future__ import annotations

import threading
import time

import pytest
from small_server import WIDTH

from sghash.serve.explorer import router
from sghash.serve.hosting import Hosted
from sghash.serve.settings import Limits

LIMIT = 1.0


@pytest.fixture
def server(start, monkeypatch):
    """One that searches and draws for longer than an answer may take."""
    run = start(decodes=True, limits=Limits(seconds=LIMIT))
    search = Hosted.neighbors

    def slowly(*given):
        time.sleep(2 * LIMIT)
        return search(*given)

    monkeypatch.setattr(Hosted, "neighbors", slowly)
    return run


def asked(calls):
    """Statuses and times of calls that are made at once."""
    found = []

    def call(ask):
        started = time.monotonic()
        reply = ask()
        found.append((reply.status, time.monotonic() - started, reply.json.get("detail", "")))

    threads = [threading.Thread(target=call, args=(ask,)) for ask in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_queries_that_wait_for_others_have_a_clock_too(server):
    # With options of its own each is a call of its own, and few calls run at once.
    calls = [
        lambda k=k: server.ask("search", {"queries": [[0.0] * WIDTH], "k": k}) for k in range(1, 17)
    ]
    for status, seconds, detail in asked(calls):
        assert status == 504 and "within 1 seconds" in detail
        assert seconds < 6 * LIMIT


def test_drawing_has_a_clock_and_is_done_once(server, monkeypatch):
    drawn = []

    def slowly(sample):
        drawn.append(1)
        time.sleep(3 * LIMIT)
        return {"points": len(sample)}

    monkeypatch.setattr(router, "drawn_map", slowly)
    path, question = "/explorer/rows/map", {"id": "3"}
    while server.send("POST", "/explorer/rows/ask", question).status == 504:
        pass  # the first one may wait for the kernels
    for status, seconds, _ in asked([lambda: server.send("GET", path)] * 6):
        assert status == 504 and seconds < 2.5 * LIMIT
    # Others draw and search meanwhile, and later it is there.
    assert server.send("GET", "/explorer/rows/about").status == 200
    assert server.send("POST", "/explorer/rows/ask", question).status == 200
    ends = time.monotonic() + 10
    while (reply := server.send("GET", path)).status == 504 and time.monotonic() < ends:
        pass
    assert reply.json == {"points": 60} and drawn == [1]


def test_a_table_for_others_is_made_once(start, monkeypatch):
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    made, real = [], router.atlas_bytes
    monkeypatch.setattr(router, "atlas_bytes", lambda sample: made.append(1) or real(sample))
    server = start()
    replies = [server.send("GET", "/explorer/rows/atlas.parquet") for _ in range(3)]
    assert {reply.status for reply in replies} == {200} and made == [1]
