"""A server on this machine, which can also be a bad one."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest


class Server(ThreadingHTTPServer):
    """Serves `content`; may drop connections, ignore ranges or fail, and notes what was asked."""

    content = np.random.default_rng(3).bytes(300_000)
    etag: str | None = '"one"'
    modified: str | None = None
    drop_after: int | None = None
    ranges = True
    heeds_conditions = True
    tells_length = True
    repeats = 1
    failures: list[int]
    asked: list[str]
    conditions: list[str | None]
    redirect: str | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.failures, self.asked, self.conditions = [], [], []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        wanted, condition = self.headers.get("Range", ""), self.headers.get("If-Range")
        server.asked.append(wanted)
        server.conditions.append(condition)
        if server.redirect is not None:
            self.send_response(302)
            self.send_header("Location", server.redirect)
            self.end_headers()
            return
        if server.failures:
            self.send_error(server.failures.pop(0))
            return
        body = self._head(wanted, condition)
        if body is None:
            return
        if server.drop_after is not None:
            body = body[: server.drop_after]
            self.close_connection = True
        try:
            for _ in range(server.repeats):
                self.wfile.write(body)
        except ConnectionError:
            pass  # whoever asked has heard enough

    def _head(self, wanted: str, condition: str | None) -> bytes | None:
        """Send the head of the answer; its body, or None if it has none."""
        server = self.server
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted) if server.ranges else None
        holds = condition in (None, server.etag, server.modified)
        if match and (holds or not server.heeds_conditions):
            first = int(match[1])
            if first >= len(server.content):
                self.send_error(416)
                return None
            last = int(match[2]) if match[2] else len(server.content) - 1
            body = server.content[first : last + 1]
            self.send_response(206)
            total = len(server.content)
            self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{total}")
        else:
            body = server.content
            self.send_response(200)
        if server.tells_length:
            self.send_header("Content-Length", str(len(body)))
        for name, value in (("ETag", server.etag), ("Last-Modified", server.modified)):
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        return body

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("sghash.data.download._WAITS", (0.0, 0.0))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.02,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()
