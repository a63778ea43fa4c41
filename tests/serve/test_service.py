"""Keys, limits, logs, counters, gathered queries, and an orderly end."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time

import numpy as np
import pytest
from small_server import WIDTH, N, make_collection, make_rows, running

import sghash
from sghash.errors import InvalidInput, MissingData
from sghash.serve.gathering import MOST, Found, Gatherer, Options
from sghash.serve.hosting import open_collections
from sghash.serve.keys import Keys, read_keys
from sghash.serve.metrics import Metrics
from sghash.serve.running import LOOPBACK
from sghash.serve.settings import Limits, Settings

ROW = [0.0] * WIDTH


@pytest.fixture
def key_file(tmp_path):
    def write(text):
        path = tmp_path / "keys"
        path.write_text(text)
        return path

    return write


def test_keys_of_a_file(key_file):
    keys = read_keys(key_file("# ours\nread abc\n\nwrite def\nboth\nread def\n"))
    rights = [keys.rights_of(key) for key in (b"abc", b"def", b"both", b"", b"ab", b"abcd")]
    assert rights == [{"read"}, {"read", "write"}, {"read", "write"}, set(), set(), set()]
    assert read_keys(key_file("one\n")).rights_of(b"one") == {"read", "write"}
    assert "one" not in repr(read_keys(key_file("one\n")))
    for text in ("", "# none\n", "read\n", "write \n", "read a b\n", "admin a\n", "ä\n"):
        with pytest.raises(InvalidInput) as refused:
            read_keys(key_file(text))
        assert "admin a" not in str(refused.value)
    with pytest.raises(MissingData):
        read_keys(key_file("x").parent / "nothing")


def test_every_key_is_compared_whichever_is_right(monkeypatch):
    from sghash.serve import keys as module

    seen = []
    monkeypatch.setattr(module.hmac, "compare_digest", lambda a, b: seen.append(len(b)) or a == b)
    keys = Keys([(name, frozenset({"read"})) for name in "abc"])
    for given in (b"a", b"c", b"", b"x" * 10_000):
        seen.clear()
        keys.rights_of(given)
        assert seen == [32, 32, 32]


def test_a_key_is_asked_for_before_the_body_is_read(start, key_file):
    keys = read_keys(key_file("read reading-key\nwrite writing-key\n"))
    server = start(keys=keys, writable=True)
    for path in ("/", "/healthz", "/readyz", "/openapi.json"):
        assert server.send("GET", path).status == 200
    for path in ("/", "/openapi.json", "/nothing"):
        assert '"rows"' not in server.send("GET", path).data.decode(), path
    for path in ("/docs", "/metrics", "/collections", "/nothing"):
        assert server.send("GET", path).status == 401
        assert server.send("GET", path, x_api_key="reading-keyx").status == 401
        assert server.send("GET", path, x_api_key="reading-key").status in (200, 404)
    read, write = {"authorization": "Bearer reading-key"}, {"x_api_key": "writing-key"}
    assert server.ask("search", {"ids": [1]}, **read).status == 200
    assert server.ask("search", {"ids": [1]}, **write).status == 403
    assert server.ask("delete", {"ids": [1]}, **read).status == 403
    assert server.ask("delete", {"ids": [1]}, **write).status == 200
    assert "key" not in re.sub(r"\bkeys?\b", "", server.log.getvalue())
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(
            b"POST /collections/rows/add HTTP/1.1\r\nhost: a\r\ncontent-length: 9999\r\n\r\n"
        )
        head = sock.recv(4096)  # nothing of the body was sent
    assert head.startswith(b"HTTP/1.1 401") and b"www-authenticate: Bearer" in head


def test_a_server_that_only_reads_says_so(start):
    server = start()
    for verb in ("add", "upsert", "delete"):
        reply = server.ask(verb, {"vectors": [ROW], "ids": [1]})
        assert reply.status == 403 and "--writable" in reply.json["detail"]
    assert not {"/collections/{name}/add"} & set(server.send("GET", "/openapi.json").json["paths"])


def test_a_collection_may_be_called_as_a_verb(start):
    server = start("delete", "add", keys=Keys([("k", frozenset({"read"}))]))
    for name in ("delete", "add"):
        for path in (f"/collections/{name}", f"/collections/{name}/ids"):
            assert server.send("GET", path, x_api_key="k").status == 200, path
        assert server.ask("search", {"ids": [1]}, name=name, x_api_key="k").status == 200
        assert server.ask("add", {"vectors": [ROW]}, name=name, x_api_key="k").status == 403


def test_several_collections_and_what_others_write(start, tmp_path):
    server = start("one", "two", refresh_seconds=0.05)
    assert set(server.send("GET", "/collections").json["collections"]) == {"one", "two"}
    with sghash.Collection.open(tmp_path / "two", writable=True) as beside:
        beside.add(make_rows(5, 1))
    for _ in range(200):
        if server.send("GET", "/collections/two").json["n_rows"] == N + 1:
            break
        time.sleep(0.02)
    assert server.send("GET", "/collections/two").json["n_rows"] == N + 1
    assert server.send("GET", "/collections/one").json["n_rows"] == N


def test_names_of_collections(tmp_path):
    folder = make_collection(tmp_path / "rows").close() or str(tmp_path / "rows")
    assert list(open_collections([folder, f"other={folder}"], writable=False)) == ["rows", "other"]
    for wrong in ([folder, folder], [f"a b={folder}"], [f"..={folder}"], [f"={folder}"]):
        with pytest.raises(InvalidInput):
            open_collections(wrong, writable=False)
    with pytest.raises(MissingData):
        open_collections([f"a={folder}x"], writable=False)


@pytest.mark.parametrize(
    ("limits", "verb", "body", "said"),
    [
        ({"body_bytes": 100}, "search", {"queries": [ROW] * 9}, "a body may have 100 bytes"),
        ({"rows": 2}, "search", {"queries": [ROW] * 3}, "2 rows"),
        ({"rows": 2}, "get", {"ids": [1, 2, 3]}, "2 rows"),
        ({"rows": 2}, "encode", {"vectors": [ROW] * 3}, "2 rows"),
        ({"rows": 2}, "add", {"vectors": [ROW] * 3}, "2 rows"),
        ({"rows": 2}, "delete", {"ids": [1, 2, 3]}, "2 rows"),
        ({"numbers": 20}, "search", {"queries": [ROW] * 3}, "20 numbers"),
        ({"numbers": 20}, "get", {"ids": [1, 2, 3]}, "20 numbers"),
        ({"text_bytes": 300}, "get", {"ids": [1] * 9}, "300 bytes of keys and metadata"),
        ({"text_bytes": 300}, "get", {"ids": list(range(9))}, "300 bytes of keys and metadata"),
        ({"text_bytes": 300}, "search", {"ids": [1], "metadata": True}, "300 bytes of keys"),
        ({"text_bytes": 300}, "search", {"ids": [1] * 9, "k": 1, "metadata": True}, "300 bytes"),
        ({"numbers": 20}, "range", {"queries": [ROW], "radius": 16}, "smaller radius"),
    ],
)
def test_limits(start, limits, verb, body, said):
    server = start(writable=True, limits=Limits(**limits))
    reply = server.ask(verb, body)
    assert reply.status == 413 and said in reply.json["detail"]
    assert server.send("GET", "/collections/rows").json["n_rows"] == N


def test_keys_of_an_answer_are_counted_too(start):
    server = start(writable=True, limits=Limits(text_bytes=1000))
    server.ask("add", {"vectors": [[9.0] * WIDTH], "keys": ["k" * 900]})
    asked = {"queries": [[9.0] * WIDTH], "k": 1, "rerank": "vectors"}
    assert server.ask("search", asked).json["keys"] == [["k" * 900]]
    assert server.ask("search", asked | {"queries": [[9.0] * WIDTH] * 2}).status == 413
    assert server.ask("get", {"keys": ["k" * 900], "include": []}).status == 200
    assert server.ask("get", {"keys": ["k" * 900] * 2, "include": []}).status == 413


def test_bodies_in_pieces_are_counted_and_slow_ones_are_left(start):
    server = start(limits=Limits(body_bytes=1000, arrival_seconds=0.3))
    head = (
        b"POST /collections/rows/search HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(
            head + b"transfer-encoding: chunked\r\n\r\n" + b"100\r\n" + b" " * 256 + b"\r\n"
        )
        for _ in range(5):
            sock.sendall(b"100\r\n" + b" " * 256 + b"\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 413")
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(head + b"content-length: 500\r\n\r\n{")
        assert sock.recv(4096).startswith(b"HTTP/1.1 408")
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(head)  # headers that never end
        assert sock.recv(4096) == b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(b"\r\n")  # no request, and none to come
        assert sock.recv(4096) == b""


def test_header_floods_are_refused(start):
    server = start(limits=Limits(headers=20, header_bytes=2000))
    many = {f"x_{i}": "y" for i in range(25)}
    assert server.send("GET", "/healthz", **many).status == 431
    for flood in (b"x: " + b"y" * 300_000, b"".join(b"x%d: y\r\n" % i for i in range(9000))):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
            try:
                sock.sendall(b"GET /healthz HTTP/1.1\r\n" + flood)
                answer = sock.recv(4096)
            except OSError:
                answer = b""
            assert answer[:12] in (b"HTTP/1.1 431", b"HTTP/1.1 400", b"")
    assert server.send("GET", "/healthz").status == 200
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        answer = sock.recv(4096)
    assert answer.startswith(b"HTTP/1.1 400") and b'"detail"' in answer


def test_many_requests_at_once_are_no_flood_of_headers(start):
    server, n = start(limits=Limits(header_bytes=2000)), 500
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n" * n + b"GET /healthz HT")
        answer = b""
        while answer.count(b"HTTP/1.1 200") < n and (piece := sock.recv(1 << 16)):
            answer += piece
    assert answer.count(b"HTTP/1.1 200") == n


def test_a_busy_server_says_when_to_come_back(start):
    server = start(limits=Limits(requests=0))
    reply = server.ask("search", {"ids": [1]})
    assert reply.status == 503 and reply.headers["retry-after"] == "1"
    assert server.send("GET", "/healthz").status == 200


def test_request_ids_logs_and_counters(server):
    reply = server.ask("search", {"ids": [1]}, x_request_id="my-id.1")
    assert reply.headers["x-request-id"] == "my-id.1"
    odd = server.ask("search", {"ids": [1]}, x_request_id="a b\tc")
    assert re.fullmatch(r"[0-9a-f]{8}-\d+", odd.headers["x-request-id"])
    server.send("GET", "/a%22%0a%1b[2J?secret=1")
    lines = [json.loads(line) for line in server.log.getvalue().splitlines()]
    own = next(line for line in lines if line.get("request_id") == "my-id.1")
    assert own["status"] == 200 and own["path"] == "/collections/rows/search" and own["ms"] > 0
    assert "secret" not in server.log.getvalue() and "\x1b" not in server.log.getvalue()
    text = server.send("GET", "/metrics").data.decode()
    assert f'sghash_rows{{collection="rows"}} {N}' in text
    assert re.search(r'sghash_requests_total\{verb="search",status="200"\} [1-9]', text)
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r"[a-z_]+(\{[^}]*\})? [-+.e\d]+", line), line


def test_pages_and_their_description(server):
    page = server.send("GET", "/docs").data.decode()
    assert "openapi.json" in page and not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    document = server.send("GET", "/openapi.json").json
    assert document["openapi"].startswith("3.1")
    assert {"/collections/{name}/search", "/collections/{name}/add", "/metrics"} <= set(
        document["paths"]
    )
    names = document["paths"]["/collections/{name}"]["parameters"][0]["schema"]
    assert names == {"type": "string", "enum": ["rows"]}
    for path in ("/", "/docs"):
        policy = server.send("GET", path).headers["content-security-policy"]
        assert policy.startswith("default-src 'self';") and "http" not in policy
    known = document["components"]["schemas"]
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)):
        assert name in known


def test_pages_of_others_may_ask_only_where_allowed(start, server):
    origin = {"origin": "https://a.example"}
    plain = server.send("GET", "/healthz", **origin)
    assert "access-control-allow-origin" not in plain.headers
    asked = {"access_control_request_method": "POST", "access_control_request_headers": "x-api-key"}
    assert server.send("OPTIONS", "/collections/rows/search", **origin, **asked).status == 405
    allowed = start(cors_origins=("https://a.example",))
    reply = allowed.send("OPTIONS", "/collections/rows/search", **origin, **asked)
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == "https://a.example"
    other = allowed.send("GET", "/healthz", origin="https://b.example")
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("localhost", 200), ("LOCALHOST:8080", 200), ("127.0.0.1", 200), ("127.0.0.1:80", 200),
        ("[::1]:8080", 200), ("[::1]", 200), ("mine.example:1", 200), ("evil.example", 421),
        ("evil.example:8080", 421), ("127.0.0.1.evil.example", 421), ("", 421), ("1", 421),
    ],
)  # fmt: skip
def test_a_local_server_without_keys_answers_to_its_own_names(start, name, status):
    server = start(hosts=(*LOOPBACK, "mine.example"))
    for method, path in (("GET", "/collections/rows"), ("GET", "/healthz")):
        assert server.send(method, path, host=name).status == status
    assert start("other").send("GET", "/collections/other", host=name or "x").status == 200


@pytest.mark.parametrize("seconds", [0.0, 0.002])
def test_queries_at_the_same_time_get_their_own_answers(start, seconds):
    server = start(gather_seconds=seconds)
    expected = make_rows(6, 40)
    found: dict[int, list] = {}

    def ask(i):
        row = expected[i].tolist()
        body = {"queries": row if i != 7 else row[:2], "k": 3, "rerank": "vectors"}
        found[i] = server.ask("search", body).json.get("ids")

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = server.ask(
        "search", {"queries": expected.tolist(), "k": 3, "rerank": "vectors"}
    ).json["ids"]
    assert found.pop(7) is None  # the one that was wrong spoils no other
    assert found == {i: [together[i]] for i in range(40) if i != 7}


def test_gathering_waits_for_few_and_keeps_options_apart():
    calls = []

    async def answer(queries, options):
        calls.append((len(queries), options.k))
        await asyncio.sleep(0.01)
        ids = queries[:, :1].astype(np.int64)
        return Found(ids, ids, None)

    async def main():
        metrics = Metrics()
        metrics.in_flight = 2
        gatherer = Gatherer(answer, 0.001, 1, metrics)
        ask = [gatherer.search(np.full((1, 2), i), Options(1 + i % 2)) for i in range(600)]
        found = await asyncio.gather(*ask)
        assert [int(one.ids[0, 0]) for one in found] == list(range(600))
        assert metrics.gathered == 600 and metrics.batches == len(calls)

    asyncio.run(main())
    assert max(n for n, _ in calls) <= MOST and {k for _, k in calls} == {1, 2}
    assert len(calls) == 4  # 300 of each kind, 256 at a time


def test_a_failed_call_fails_all_that_waited_for_it_and_no_more():
    async def main():
        metrics = Metrics()

        async def answer(queries, options):
            if metrics.batches == 1:
                raise InvalidInput("no")
            return Found(queries, queries, None)

        gatherer = Gatherer(answer, 0.001, 1, metrics)
        ask = [gatherer.search(np.zeros((1, 2)), Options(1)) for _ in range(3)]
        failed = await asyncio.gather(*ask, return_exceptions=True)
        assert all(isinstance(error, InvalidInput) for error in failed)
        assert len({id(error) for error in failed}) == 3
        assert (await gatherer.search(np.ones((1, 2)), Options(1))).ids.tolist() == [[1, 1]]

    asyncio.run(main())


def test_the_end_lets_writes_finish_and_frees_the_collection(tmp_path):
    collection = make_collection(tmp_path / "rows", keep_vectors="float32")
    acknowledged: list[int] = []
    with running({"rows": collection}, Settings(writable=True)) as server:

        def write(number):
            for _ in range(20):
                try:
                    reply = server.ask("add", {"vectors": make_rows(number, 1).tolist()})
                except OSError:
                    return
                if reply.status == 200:
                    acknowledged.extend(reply.json["ids"])

        threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        while len(acknowledged) < 8:
            time.sleep(0.005)
        server.stop()
        for thread in threads:
            thread.join()
    with sghash.Collection.open(tmp_path / "rows", writable=True) as again:
        assert set(acknowledged) <= set(again.ids.tolist()) and len(again) >= N + 8
