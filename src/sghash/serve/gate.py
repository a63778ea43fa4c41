"""The gate that every request goes through: request id, key, limits, counters, log.

It stands before the framework, so that a request without a key is refused before its body is read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
from itertools import count
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sghash.serve.keys import READ, WRITE
from sghash.serve.logs import Journal
from sghash.serve.metrics import Metrics
from sghash.serve.refusals import Refusal, refusal_of
from sghash.serve.settings import Limits, Settings

_log = logging.getLogger("sghash.serve")
#: Addresses that need no key.
FREE = frozenset({"/", "/healthz", "/readyz", "/openapi.json"})
#: Verbs that change a collection; they are the last part of an address.
WRITING = frozenset({"add", "upsert", "delete"})
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# A name or an address, and a port.
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d+)?")


class Gate:
    """An ASGI application around another one."""

    def __init__(
        self, app: ASGIApp, settings: Settings, metrics: Metrics, journal: Journal
    ) -> None:
        self._app, self._settings = app, settings
        self._metrics, self._journal = metrics, journal
        # Part of every request id that we make: a restart begins a new row of numbers.
        self._prefix, self._numbers = secrets.token_hex(4), count()
        # Requests that hold a place: whoever has no key, or needs none, takes no place of others.
        self._places = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = dict(scope["headers"])
        request_id = self._id_of(headers.get(b"x-request-id", b""))
        passage = _Passage(receive, send, request_id, self._settings.limits, self._metrics)
        # The framework leaves its answer to an error to us.
        scope["sghash.request_id"], scope["sghash.headers"] = request_id, headers
        self._metrics.in_flight += 1
        has_place = False
        try:
            self._check(scope, headers)
            has_place = scope["path"] not in FREE
            self._places += has_place
            await self._app(scope, passage.receive, passage.send)
        except Exception as error:
            await self._refuse(passage, error)
        finally:
            self._places -= has_place
            self._metrics.in_flight -= 1
            self._metrics.body_bytes -= passage.body_bytes
            seconds = time.perf_counter() - started
            self._metrics.answered(_verb(scope), passage.status, seconds)
            if self._settings.log_requests:
                client = scope.get("client")
                self._journal.request(
                    request_id, scope["method"], scope["path"], passage.status, seconds,
                    client[0] if client else "",
                )  # fmt: skip

    async def _refuse(self, passage: _Passage, error: Exception) -> None:
        refusal = refusal_of(error)
        if refusal.status_code == 500:
            _log.error("request %s failed", passage.request_id, exc_info=error)
        if passage.is_complete:
            return
        if passage.status:
            raise error  # the answer has begun: all that is left is to close the connection
        await passage.refuse(refusal)

    def _id_of(self, given: bytes) -> str:
        if given and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return f"{self._prefix}-{next(self._numbers)}"

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Refuse what can be refused without the body."""
        limits, path = self._settings.limits, scope["path"]
        if len(scope["headers"]) > limits.headers:
            raise Refusal(431, f"a request may have {limits.headers} headers: send fewer")
        self._check_host(headers.get(b"host", b""))
        if path not in FREE:
            self._check_key(path, headers)
            if self._places >= limits.requests:
                raise busy()
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 18 or int(length) > limits.body_bytes:
            raise too_large(limits)

    def _check_host(self, host: bytes) -> None:
        hosts = self._settings.hosts
        if hosts is None:
            return
        named = _HOST.fullmatch(host.decode("latin-1").lower())
        if named is None or named[1].strip("[]") not in hosts:
            raise Refusal(
                421,
                "this server answers under some names only: call it 127.0.0.1, or let it be "
                "started with sghash serve --allowed-host",
                error="NotAllowed",
            )

    def _check_key(self, path: str, headers: dict[bytes, bytes]) -> None:
        keys = self._settings.keys
        parts = path.split("/")
        # A collection may be called as a verb is.
        writes = len(parts) == 4 and parts[3] in WRITING
        if keys is not None:
            given = headers.get(b"x-api-key")
            scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
            if given is None and scheme.lower() == b"bearer":
                given = token.strip()
            rights = keys.rights_of(given or b"")
            if not rights:
                raise Refusal(
                    401,
                    "this needs a key: send it as «Authorization: Bearer KEY» or «X-API-Key: KEY»",
                    error="NotAllowed",
                )
            if (WRITE if writes else READ) not in rights:
                what = "writing" if writes else "reading"
                raise Refusal(403, f"this key is not for {what}: use another", error="NotAllowed")
        if writes and not self._settings.writable:
            raise Refusal(
                403, "this server only reads: start it with --writable", error="StorageError"
            )


class _Passage:
    """One request on its way in and out: its bytes are counted, its time is limited."""

    def __init__(
        self, receive: Receive, send: Send, request_id: str, limits: Limits, metrics: Metrics
    ) -> None:
        self._receive, self._send = receive, send
        self._limits, self._metrics = limits, metrics
        self.request_id = request_id
        self.status = 0
        self.is_complete = False
        self.body_bytes = 0
        self._deadline: float | None = None

    async def receive(self) -> Message:
        """The next piece of the body."""
        if self._deadline is None:
            now = asyncio.get_running_loop().time()
            self._deadline = now + self._limits.arrival_seconds
        if self.status:  # whoever listens for the end of the connection may wait for long
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            seconds = self._limits.arrival_seconds
            raise Refusal(
                408, f"the body did not arrive within {seconds:g} seconds: send it faster"
            ) from None
        n = len(message.get("body", b""))
        self.body_bytes += n
        self._metrics.body_bytes += n
        if self.body_bytes > self._limits.body_bytes:
            raise too_large(self._limits)
        if self._metrics.body_bytes > self._limits.bodies_bytes:
            raise busy()
        return message

    async def send(self, message: Message) -> None:
        """A piece of the answer; the connection leaves a reader that takes none of it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [
                *message.get("headers", ()),
                (b"x-request-id", self.request_id.encode()),
                (b"x-content-type-options", b"nosniff"),
            ]
        else:
            self.is_complete = not message.get("more_body", False)
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal."""
        body = json.dumps(refusal.body(self.request_id)).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *((name.encode(), value.encode()) for name, value in (refusal.headers or {}).items()),
        ]
        if refusal.status_code == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        status = refusal.status_code
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def busy() -> Refusal:
    """The server has more to do than it may have."""
    return Refusal(
        503, "the server is busy: try again in a moment", error="Unreachable", retry=True
    )


def too_large(limits: Limits) -> Refusal:
    """A body beyond the limit."""
    return Refusal(
        413,
        f"a body may have {limits.body_bytes} bytes: send fewer rows at a time, or .npy",
    )


def _verb(scope: Scope) -> str:
    """What a request is counted as: names that strangers invent are all one."""
    verb: str | None = scope.get("sghash.verb")
    route: Any = scope.get("route")
    return verb or getattr(route, "name", None) or "none"
