"""The addresses of the explorer, in an application of their own."""

from __future__ import annotations

import http.client
import io
import json
import threading
import time
from typing import NamedTuple

import pytest

from sghash import Collection
from sghash.serve.explorer import routes

fastapi = pytest.importorskip("fastapi", reason="needs the extra serve")
uvicorn = pytest.importorskip("uvicorn", reason="needs the extra serve")


class Answer(NamedTuple):
    status: int
    kind: str
    body: bytes

    def json(self):
        return json.loads(self.body)


@pytest.fixture(scope="module")
def ask(made):
    """A server in a thread, and a way to ask it."""
    app = fastapi.FastAPI()
    app.include_router(routes({"rows": Collection.open(made)}))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]

    def call(method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path, body)
        response = connection.getresponse()
        said = Answer(response.status, response.headers["content-type"], response.read())
        connection.close()
        return said

    yield call
    server.should_exit = True
    thread.join(10)


def test_every_address_answers(ask):
    page = ask("GET", "/")
    assert page.status == 200 and "text/html" in page.kind
    assert ask("GET", "/explorer").json() == {"collections": ["rows"]}
    for name in ("about", "map", "bits"):
        assert ask("GET", f"/explorer/rows/{name}").status == 200, name
    said = ask("POST", "/explorer/rows/ask", b'{"id": "3", "k": 4}').json()
    assert len(said["columns"]["hamming"]["ids"]) == 4
    found = ask("GET", "/explorer/rows/find?words=river+number").json()["rows"]
    assert found and all("river" in row["text"] for row in found)
    assert ask("GET", "/explorer/rows/find?words=3").json()["rows"][0]["id"] == "3"
    rows = ask("GET", "/explorer/rows/rows?ids=3,7,5").json()["rows"]
    assert [row["id"] for row in rows] == ["3", "5"]
    assert ask("GET", "/openapi.json").json()["paths"] == {}


def test_the_table_is_a_parquet_file(ask):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra parquet")
    response = ask("GET", "/explorer/rows/atlas.parquet")
    assert parquet.read_table(io.BytesIO(response.body)).num_rows == 298


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/explorer/other/about", None, 404),
        ("POST", "/explorer/rows/ask", b"{", 400),
        ("POST", "/explorer/rows/ask", b"[" * 100_000, 400),
        ("POST", "/explorer/rows/ask", b"[]", 422),
        ("POST", "/explorer/rows/ask", b'{"id": "3", "k": "x"}', 422),
        ("POST", "/explorer/rows/ask", b'{"id": "7"}', 422),
        ("POST", "/explorer/rows/ask", b" " * ((1 << 20) + 10), 413),
        ("GET", "/explorer/rows/rows?ids=a,b", None, 422),
        ("GET", "/explorer/rows/image/3", None, 404),
        ("GET", "/explorer/rows/image/99999999999999999999999", None, 404),
    ],
)
def test_what_cannot_be_answered_is_a_sentence(ask, method, path, body, status):
    said = ask(method, path, body)
    assert said.status == status and said.json()["detail"]
