"""Requests that mean harm: refused, with little memory, while others are answered."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from small_server import WIDTH, make_collection

from sghash.serve.keys import Keys

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc"),
]
MEGABYTE = 1 << 20
NPY = "application/x-npy"
KEY = "right-key-0123456789"


class Victim:
    """A server in a process of its own."""

    def __init__(self, folder, *options):
        keys = folder.parent / "keys"
        keys.write_text(f"{KEY}\n")
        command = [sys.executable, "-m", "sghash", "serve", str(folder), "--port", "0"]
        command += ["--writable", "--api-key-file", str(keys), *options]
        self.log = open(folder.parent / "log", "w+")  # noqa: SIM115 - closed by `end`
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.port = int(self.process.stdout.readline().strip().rpartition(":")[2])
        while self.ask("GET", "/readyz")[0] != 200:
            time.sleep(0.1)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def ask(self, method, path, body=None, kind="application/json", key=KEY):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"content-type": kind, "x-api-key": key}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except OSError:
            return 0, b""  # refused before all of it was sent
        finally:
            connection.close()

    def search(self, body, **options):
        return self.ask("POST", "/collections/rows/search", body, **options)

    def peak(self):
        """The most memory that it had, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])

    def end(self):
        self.process.terminate()
        assert self.process.wait(60) == 0
        self.process.stdout.close()
        self.log.seek(0)
        text = self.log.read()
        self.log.close()
        return text


@pytest.fixture(params=["3"])
def victim(tmp_path, request):
    """The parameter is the time that a request has."""
    make_collection(tmp_path / "rows", keep_vectors="float32").close()
    one = Victim(tmp_path / "rows", "--timeout", request.param)
    yield one
    if one.process.poll() is None:
        one.end()


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def side_by_side(calls):
    found = []
    threads = [threading.Thread(target=lambda call=call: found.append(call())) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("victim", ["60"], indirect=True)
def test_sizes_nesting_and_types(victim):
    row = [0.0] * WIDTH
    assert victim.search(json.dumps({"queries": [row]}))[0] == 200
    before, size = victim.peak(), 30 * MEGABYTE
    bodies = [
        b"[" * size, b'{"queries":' + b"[" * size, b'{"queries":[' + b"[]," * (size // 3),
        b'{"queries":[' + b"{}," * (size // 3) + b"{}]}", b'{"k":' + b"9" * size + b"}",
        b'{"where":"' + b"(" * size + b'"}', b'{"' + b"a" * size + b'":1}', b" " * size,
        b'{"ids":[' + b"1," * (size // 2) + b"1]}", b'{"queries":"' + b"A" * size + b'"}',
        b'{"queries":[[' + b"0," * (size // 2) + b"0]]}", b"\x00" * size,
    ]  # fmt: skip
    for body in bodies:
        status, answer = victim.search(body)
        assert status in (0, 400, 413, 422), answer[:300]
    alone = victim.peak() - before
    print(f"{alone / MEGABYTE:.0f} MB for one at a time")
    # A number or an empty object of two bytes is one of sixty in memory.
    assert alone < 65 * size
    for status, answer in side_by_side([lambda body=body: victim.search(body) for body in bodies]):
        assert status in (0, 400, 413, 422, 503), answer[:300]
    grown = victim.peak() - before
    print(f"{grown / MEGABYTE:.0f} MB for all at once")
    # All bodies that are held at once, and what threads keep; side by side it were ten times one.
    assert grown < alone + 1200 * MEGABYTE
    honest = npy(np.zeros((2, WIDTH), np.float32))
    assert victim.search(honest, kind=NPY)[0] == 200
    for shape in (b"(9, 6)", b"(2, 9)", b"(1, 6)", b"(-2,6)", b"(2,-6)", b"(2**9)"):
        lying = honest.replace(b"(2, 6)", shape)
        assert lying != honest and victim.search(lying, kind=NPY)[0] == 400, shape
    huge = honest.replace(b"(2, 6), }" + b" " * 9, b"(%d, 6), }" % 10**9)
    assert huge != honest and victim.search(huge, kind=NPY)[0] == 400
    wide = base64.b64encode(npy(np.zeros(4 * MEGABYTE, np.float32))).decode()
    assert victim.search(json.dumps({"queries": wide}))[0] == 422
    assert victim.search(json.dumps({"queries": [row], "k": 10_000}))[0] == 200
    many = json.dumps({"queries": [row] * 1000, "k": 10_000})
    assert victim.search(many)[0] == 413
    assert '"status": 500' not in victim.end()


@pytest.mark.parametrize("victim", ["60"], indirect=True)
def test_what_is_not_asked_for_takes_no_memory(victim, tmp_path):
    """Long texts of rows that are named many times, and shortlists of all rows."""
    long_text = {"vectors": [[1.0] * WIDTH], "ids": [7000], "metadata": {"text": ["x" * MEGABYTE]}}
    assert victim.ask("POST", "/collections/rows/add", json.dumps(long_text))[0] == 200
    before = victim.peak()
    named = [7000] * 10_000
    for verb, more in (("get", {"include": ["codes"]}), ("search", {"k": 1})):
        status, answer = victim.ask(
            "POST", f"/collections/rows/{verb}", json.dumps({"ids": named, **more})
        )
        assert status == 200, answer[:300]
    status, _ = victim.ask("POST", "/collections/rows/get", json.dumps({"ids": named}))
    assert status == 413
    assert victim.peak() - before < 300 * MEGABYTE


def test_endless_and_slow_requests_hold_no_one_up(victim):
    before = victim.peak()
    head = b"POST /collections/rows/search HTTP/1.1\r\nhost: a\r\nx-api-key: " + KEY.encode()
    slow = [victim.connect() for _ in range(300)]
    for number, sock in enumerate(slow):
        sock.sendall(
            (head, head + b"\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{")[
                number % 2
            ]
        )
    endless = victim.connect()
    endless.sendall(head + b"\r\ncontent-type: application/json\r\n"
                    b"transfer-encoding: chunked\r\n\r\n")  # fmt: skip
    piece, sent = b"100000\r\n" + b" " * MEGABYTE + b"\r\n", 0
    try:
        for _ in range(400):
            endless.sendall(piece)
            sent += 1
    except OSError:
        pass
    assert 32 <= sent < 100  # twice what a body may have, and what the system itself holds
    started = time.monotonic()
    assert victim.search(b'{"ids": [1]}')[0] == 200 and time.monotonic() - started < 5
    time.sleep(5)
    for sock in slow:
        sock.setblocking(False)
        try:
            while sock.recv(4096):
                pass
        except BlockingIOError:  # still open after its time
            pytest.fail("a slow request was not left")
        except OSError:
            pass
        sock.close()
    endless.close()
    assert victim.peak() - before < 300 * MEGABYTE
    victim.end()


def test_floods_of_headers_and_strange_requests(victim):
    before = victim.peak()
    chunked = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    # What may be answered; 0 is an end without an answer, or one that was lost for it.
    floods = {
        b"GET /" + b"a" * (2 * MEGABYTE): {431, 0},
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 400_000: {400, 431, 0},
        b"GET / HTTP/1.1\r\nx: " + b"y" * (8 * MEGABYTE): {431, 0},
        b"\r\n" * 100_000: {0},
        b"\x00" * 100_000: {400, 0},
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n": {400},
        b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n": {400},
        chunked + b"ffffffffffffffffff\r\n": {405, 0},
        chunked + b"0\r\n" + b"a: b\r\n" * 300_000: {405, 0},
        b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n": {200},
        b"GET /../../../../etc/passwd HTTP/1.1\r\nhost: a\r\n\r\n": {401},
        b"GET //etc/passwd HTTP/1.1\r\nhost: a\r\n\r\n": {401},
        b"GET /collections/..%2f..%2fetc%2fpasswd/ids HTTP/1.1\r\nhost: a\r\n\r\n": {401},
        b"GET http://169.254.169.254/ HTTP/1.1\r\nhost: a\r\n\r\n": {200},
        b"CONNECT a:1 HTTP/1.1\r\n\r\n": {400},
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 5000: {200},
    }  # fmt: skip
    for flood, statuses in [*floods.items()] * 2:
        answer = b""
        with victim.connect() as sock:
            with contextlib.suppress(OSError):
                sock.sendall(flood)
            try:
                while not re.search(rb"\r\n\r\n.", answer) and (piece := sock.recv(1 << 16)):
                    answer += piece
            except OSError:
                pass
        assert b"root:x:0" not in answer and b"Traceback" not in answer
        found = re.match(rb"HTTP/1.1 (\d+)", answer)
        assert (int(found[1]) if found else 0) in statuses, (flood[:60], answer[:200])
    assert victim.search(b'{"ids": [1]}')[0] == 200
    assert victim.peak() - before < 300 * MEGABYTE
    text = victim.end()
    assert '"status": 500' not in text and KEY not in text


def test_the_time_of_a_refusal_says_nothing_about_the_key():
    keys = Keys([(KEY, frozenset({"read"}))])
    times = {}
    # The right key is not among them: whoever has it is let in, and learns nothing from the time.
    guesses = {"nothing": b"x" * 20, "half": KEY[:10].encode() + b"x" * 10}
    guesses["nearly"] = KEY[:-1].encode() + b"x"
    for _ in range(500):  # in turns: the machine is not the same all the time
        for name, guess in guesses.items():
            started = time.perf_counter()
            for _ in range(100):
                keys.rights_of(guess)
            times.setdefault(name, []).append(time.perf_counter() - started)
    # The quickest of many: what else the machine does only adds to a time.
    best = {name: min(found) for name, found in times.items()}
    assert max(best.values()) / min(best.values()) < 1.2, best


def test_a_local_server_without_keys_is_not_called_by_strangers(tmp_path):
    make_collection(tmp_path / "rows", keep_vectors="float32").close()
    command = [sys.executable, "-m", "sghash", "serve", str(tmp_path / "rows"), "--port", "0"]
    for options, name, expected in (
        ((), "evil.example", 421), ((), "localhost", 200),
        (("--allowed-host", "Mine.example"), "mine.example", 200),
    ):  # fmt: skip
        process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            port = int(process.stdout.readline().strip().rpartition(":")[2])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/collections", headers={"host": name})
            assert connection.getresponse().status == expected
            connection.close()
        finally:
            process.terminate()
            process.wait(60)
            process.stdout.close()


def test_tables_of_arrow_that_lie(victim):
    pa = pytest.importorskip("pyarrow")
    vectors = pa.array([[0.0] * WIDTH], pa.list_(pa.float32()))
    texts = {"text0": ["x" * 40_000], **{f"text{i}": ["y" * 9] for i in range(1, 4)}}

    def stream(**columns):
        table = pa.table({"vectors": vectors, **columns})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    def add(body):
        kind = "application/vnd.apache.arrow.stream"
        return victim.ask("POST", "/collections/rows/add", body, kind=kind)

    honest = stream(**texts)
    assert add(honest)[0] == 200
    # All texts in the same bytes: the short ones say that they are the long one.
    shared, (first,) = honest, places_of(honest, 40_000)
    for place in places_of(honest, 9):
        shared = shared[:place] + shared[first : first + 16] + shared[place + 16 :]
    n_short = shared.count(bytes(4) + int64(9)[:4])
    shared = shared.replace(bytes(4) + int64(9)[:4], bytes(4) + int64(40_000)[:4])
    status, answer = add(shared)
    assert n_short == 3 and status == 400 and b"share" in answer
    # More rows than there are bytes.
    n = 7777
    many = pa.table({"vectors": pa.array([[0.0] * WIDTH] * n, pa.list_(pa.float32())),
                     "text": ["x"] * n})  # fmt: skip
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, many.schema) as writer:
        writer.write_table(many)
    data = sink.getvalue().to_pybytes()
    for length in (9999, 2**36):
        lying = data.replace(int64(n), int64(length))
        assert lying != data and add(lying)[0] in (400, 413)
    assert add(honest)[0] == 200


def places_of(stream, length):
    """Where buffers of this length are named: their offset, then the length."""
    return [at - 8 for at in range(8, len(stream) - 8, 8) if stream[at : at + 8] == int64(length)]


def int64(number):
    return number.to_bytes(8, "little")
