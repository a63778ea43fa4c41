"""HTTP on one connection: with an end to headers, to waiting, and to connections."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from sghash.serve.settings import MEGABYTE, Limits

# Bytes that whoever reads an answer must take in the time that one may take.
_LEAST_READ = 1 << 14


def limited(limits: Limits) -> type[HttpToolsProtocol]:
    """A class of connections that keep to these limits."""
    # The server makes its connections by calling a class, which must know the limits by then.
    return type("LimitedConnection", (_Connection,), {"limits": limits})


class _Connection(HttpToolsProtocol):
    """A connection whose requests must arrive in time, and in few bytes before their bodies.

    Its answers must be read in time as well: until then they take memory, and a place among others.
    """

    limits = Limits()
    _deadline: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None
    _unread = 0
    _in_headers = True
    _is_arriving = False
    _header_bytes = _body_bytes = _n_requests = 0

    def connection_made(self, transport: Any) -> None:
        """Refuse one connection too many; one that says nothing is closed after a while."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        self._await_more()

    def data_received(self, data: bytes) -> None:
        """Read on; a request that is not complete by then has until its deadline."""
        before = self._n_requests
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_arriving and self._in_headers:
            # Of data that a request begins in, most may be of others before it.
            self._header_bytes += len(data) if self._n_requests == before else 0
            if self._header_bytes > self.limits.header_bytes:
                self._end(431, f"headers may have {self.limits.header_bytes} bytes: send fewer")
                return
        # Blank lines are no request: who sends them alone gets no more time than who is silent.
        if self._is_arriving or self.cycle is None or self.cycle.response_complete:
            self._await_more()
        elif self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._is_arriving = self._in_headers = True
        self._header_bytes = self._body_bytes = 0
        self._n_requests += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or one of those after a body in pieces."""
        if len(self.headers) > 2 * self.limits.headers:
            raise ValueError("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The body begins."""
        super().on_headers_complete()
        self._in_headers = False

    def on_body(self, body: bytes) -> None:
        """A piece of the body; one that was refused is read on for a while, then no more.

        Whoever is still sending when the connection ends may never see why.
        """
        self._body_bytes += len(body)
        if self._body_bytes > 2 * self.limits.body_bytes + MEGABYTE:
            self.transport.abort()
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is here."""
        super().on_message_complete()
        self._is_arriving = False

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side has gone."""
        for timer in (self._deadline, self._reader):
            if timer is not None:
                timer.cancel()
        self._deadline = self._reader = None
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """More is to be read than the system holds."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """Nearly all was read."""
        super().resume_writing()
        if self._reader is not None and not self.transport.is_closing():
            self._reader.cancel()
            self._reader = None

    def on_response_complete(self) -> None:
        """An answer was written; the last one must be read in time, however short it is."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reader()

    def timeout_keep_alive_handler(self) -> None:
        """Nothing more was asked; what is still unread must be read in time too."""
        super().timeout_keep_alive_handler()
        self._await_reader()

    def send_400_response(self, msg: str) -> None:
        """What cannot be read is refused as everything else is: by a sentence in JSON."""
        self._end(400, "this is no HTTP request that can be read: check what sends it")

    def _await_more(self) -> None:
        if self._deadline is None:
            seconds = self.limits.arrival_seconds + 1  # the gate has the first word
            self._deadline = self.loop.call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.abort()

    def _await_reader(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        if self._reader is None and self._unread:
            self._reader = self.loop.call_later(self.limits.seconds, self._leave_or_wait)

    def _leave_or_wait(self) -> None:
        """Leave whoever has read nothing, or next to nothing."""
        self._reader = None
        if self._unread - self.transport.get_write_buffer_size() < _LEAST_READ:
            self.transport.abort()
        else:
            self._await_reader()

    def _end(self, status: int, detail: str) -> None:
        """Answer with an error, and close."""
        if self.cycle is None or self.cycle.response_complete:
            body = json.dumps(
                {"detail": detail, "error": "InvalidInput", "request_id": ""}
            ).encode()
            self.transport.write(
                STATUS_LINE[status] + b"content-type: application/json\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(body), body)
            )
        self.transport.close()
        self._await_reader()
