"""The client answers as the collection itself, repeats what it may, and says what is wrong."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import sghash
from sghash.errors import InvalidInput, NotAllowed, StorageError, Unreachable
from sghash.serve.settings import Settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "serve"))

import small_server as serving


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A collection on this machine, and the same behind a server."""
    folder = tmp_path_factory.mktemp("both")
    local = serving.make_collection(folder / "local", keep_vectors="float16")
    served = serving.make_collection(folder / "rows", keep_vectors="float16")
    with serving.running({"rows": served}, Settings(writable=True)) as run:
        remote = sghash.connect(run.address)
        yield local, remote
        remote.close()
        local.close()


def same(one, other):
    assert type(one).__name__.replace("Keyed", "") == type(other).__name__.replace("Keyed", "")
    for left, right in zip(one, other, strict=True):
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right)
        else:
            assert left == right


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rerank": "vectors", "shortlist": 11},
        {"where": "year < 20"},
        {"where": [1, 2, 3]},
        {"where": np.arange(serving.N) % 3 == 0},
        {"target_recall": 0.9},
        {"k": serving.N + 3},
    ],
    ids=str,
)
def test_searches_are_the_same(both, options):
    local, remote = both
    queries = serving.make_rows(1, 4)
    same(local.search(queries, **options), remote.search(queries, **options))
    same(local.search(queries[0], **options), remote.search(queries[0], **options))


def test_pairs_of_shortlists_are_the_same(tmp_path):
    served = serving.make_collection(tmp_path / "rows", decodes=True, keep_vectors="float16")
    queries = serving.make_rows(1, 4)
    with (
        serving.running({"rows": served}, Settings()) as run,
        sghash.connect(run.address) as remote,
    ):
        for pair in ((40, 11), ("all", 11)):
            options = {"rerank": "vectors", "shortlist": pair}
            same(served.search(queries, **options), remote.search(queries, **options))
            same(served.search(queries[0], **options), remote.search(queries[0], **options))


def test_the_other_questions_are_the_same(both):
    local, remote = both
    queries = serving.make_rows(1, 4)
    codes = local.model.encode(queries)
    np.testing.assert_array_equal(remote.encode(queries), codes)
    options = {"fingerprint": local.fingerprint}
    same(local.search_codes(codes, 3, **options), remote.search_codes(codes, 3, **options))
    same(local.range_search(queries, 4), remote.range_search(queries, 4))
    same(local.get([3, 1]), remote.get([3, 1]))
    one, other = local.explain(queries[0], 3), remote.explain(queries[0], 3)
    same(one.neighbors, other.neighbors)
    assert [visit.way for visit in one.visits] == [visit.way for visit in other.visits]
    near = remote.explain(queries[0], radius=3)
    same(local.explain(queries[0], radius=3).neighbors, near.neighbors)
    np.testing.assert_array_equal(remote.ids, local.ids)
    assert (len(remote), remote.n_bits, remote.metric) == (len(local), 16, local.metric)
    assert 3 in remote and 10**6 not in remote and "a" not in remote
    assert remote.search_ids([3], 1).ids.tolist() == [[3]]
    assert remote.stats()["columns"] == local.stats()["columns"]


def test_nothing_is_the_same(both):
    local, remote = both
    none = np.empty((0, serving.WIDTH), np.float32)
    same(local.search(none, 3), remote.search(none, 3))
    same(local.search(none, 3, rerank="vectors"), remote.search(none, 3, rerank="vectors"))
    same(local.get([]), remote.get([]))


def test_numbers_that_are_not_finite_are_the_same(both):
    local, remote = both
    rows, ids = serving.make_rows(5, 4) + 9, [90, 91, 92, 93]
    for one in both:
        with_numbers = {"weight": np.array([np.inf, -np.inf, 0.5, np.nan])}
        try:
            one.add(rows, ids, with_numbers)
        except InvalidInput:
            one.add(rows[:3], ids[:3], {"weight": [np.inf, -np.inf, 0.5]})
    known = [id_ for id_ in ids if id_ in local]
    assert [id_ for id_ in ids if id_ in remote] == known
    one, other = local.get(known).metadata["weight"], remote.get(known).metadata["weight"]
    assert str(one) == str(other) and float("inf") in other
    for one in both:
        one.delete(known)


def test_gaps_of_pandas_are_the_same(both):
    pandas = pytest.importorskip("pandas")
    rows, ids = serving.make_rows(6, 2) + 9, [95, 96]
    for one in both:
        one.add(rows, ids, {"weight": pandas.Series([0.5, np.nan])})
        assert one.get(ids).metadata["weight"] == [0.5, None] and None not in one
        one.delete(ids)


def test_writes_are_the_same(both):
    local, remote = both
    rows = serving.make_rows(4, 3) + 9
    large = [2**53 + 1, 2**62, 77]
    columns = {"year": np.array([2**60, 1, 2]), "name": ["a", None, "c"]}
    for one in both:
        assert one.add(rows, large, columns).tolist() == large
        assert one.upsert(rows[:2], ["k1", "k2"]).dtype == np.int64
    same(local.get(large), remote.get(large))
    same(local.search(rows, 2, rerank="vectors"), remote.search(rows, 2, rerank="vectors"))
    assert remote.search(rows, 2).keys.tolist() == local.search(rows, 2).keys.tolist()
    for one in both:
        one.delete(["k1", "k2"])
        one.delete(large)
    assert len(local) == len(remote) == serving.N


@pytest.mark.parametrize(
    "wrong",
    [
        lambda one: one.search(np.zeros((1, 2))),
        lambda one: one.search(serving.make_rows(), k=0),
        lambda one: one.search(np.full((1, serving.WIDTH), np.nan)),
        lambda one: one.search(serving.make_rows(), where="year >"),
        lambda one: one.search(serving.make_rows(), rerank="magic"),
        lambda one: one.add(serving.make_rows(0, 1), [3]),
        lambda one: one.get(["nobody"]),
        lambda one: one.delete([10**9]),
        lambda one: one.search_codes(np.zeros((1, 2), np.uint8), fingerprint="0" * 64),
    ],
)
def test_errors_are_of_the_same_class(both, wrong):
    kinds = []
    for one in both:
        with pytest.raises(sghash.SghashError) as refused:
            wrong(one)
        kinds.append(isinstance(refused.value, InvalidInput))
    assert kinds == [True, True]


@pytest.fixture
def scripted():
    """A server that gives prepared answers, one after the other, and counts what it was asked."""
    asked, answers = [], []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append(self.path)
            status, headers, body = answers.pop(0)
            if status == 0:  # gone without an answer
                self.close_connection = True
                return
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    made = []

    def connect(*script):
        answers[:] = [(200, {}, {}), *script]  # the first is for stats
        remote = sghash.connect(f"http://127.0.0.1:{server.server_port}", "rows", retries=2)
        asked.clear()
        made.append(remote)
        return remote

    yield connect, asked
    for remote in made:
        remote.close()
    server.shutdown()
    thread.join()
    server.server_close()


ADDED = (200, {}, {"ids": [5]})
BUSY, SLOW = (503, {"retry-after": "0"}, {"detail": "busy"}), (504, {}, {"detail": "slow"})
GONE = (0, {}, {})
ROW = np.zeros((1, 2), np.float32)


def test_what_changes_nothing_twice_is_repeated(scripted, monkeypatch):
    connect, asked = scripted
    monkeypatch.setattr("sghash.client.connection.time.sleep", lambda _: None)
    for trouble in (GONE, BUSY):
        assert connect(trouble, trouble, ADDED).upsert(ROW, [5]).tolist() == [5]
        assert len(asked) == 3
    with pytest.raises(Unreachable, match="in 3 tries"):
        connect(GONE, BUSY, GONE).upsert(ROW, [5])
    with pytest.raises(Unreachable, match="slow"):
        connect(SLOW, ADDED).upsert(ROW, [5])
    assert len(asked) == 1  # it would take as long again


def test_what_may_have_been_done_is_not_repeated(scripted, monkeypatch):
    connect, asked = scripted
    monkeypatch.setattr("sghash.client.connection.time.sleep", lambda _: None)
    assert connect(BUSY, ADDED).add(ROW).tolist() == [5] and len(asked) == 2  # it had not begun
    for trouble, kind in ((GONE, Unreachable), (SLOW, Unreachable)):
        with pytest.raises(kind):
            connect(trouble, ADDED).add(ROW)
        assert len(asked) == 1


def test_errors_of_a_server(scripted):
    connect, _ = scripted
    for status, body, kind in (
        (507, {"detail": "the disk is full", "error": "StorageError"}, StorageError),
        (401, {"detail": "this needs a key", "error": "NotAllowed"}, NotAllowed),
        (403, {}, NotAllowed),
        (422, {"detail": "no", "error": "os"}, InvalidInput),
        (418, {"detail": "no", "error": ["InvalidInput"]}, InvalidInput),
        (500, {"detail": "a fault"}, Unreachable),
    ):
        with pytest.raises(kind):
            connect((status, {}, body)).add(ROW)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:8080", "ftp://a", "http://", "http://u:p@a", "http://a?b", "file:///x",
     "http://a:99999", "http://a:0", "http://a:x", "http://[::1", "http://a..b", "http://a b",
     "http://a/b c", "http://a/ä", f"http://{'a' * 70}", "", None],
)  # fmt: skip
def test_wrong_addresses_are_refused(address):
    with pytest.raises(InvalidInput):
        sghash.connect(address)
    with pytest.raises(InvalidInput):
        sghash.connect("http://127.0.0.1:9", api_key="a\r\nb")


@pytest.mark.parametrize(
    "options",
    [{"retries": -1}, {"retries": 1.5}, {"retries": True}, {"timeout": 0}, {"timeout": -1},
     {"timeout": float("nan")}, {"timeout": float("inf")}, {"timeout": "1"}, {"timeout": None}],
    ids=str,
)  # fmt: skip
def test_wrong_options_are_refused(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        sghash.connect("http://127.0.0.1:1", **options)


def test_nobody_there():
    with pytest.raises(Unreachable, match="is sghash serve running there"):
        sghash.connect("http://127.0.0.1:1", retries=0)
