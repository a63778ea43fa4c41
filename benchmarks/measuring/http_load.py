"""Clients of a service in one process: raw sockets and prepared requests, which cost little."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Load:
    """What clients saw: seconds of each answer, and what was not an answer."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    lasted: float = 0.0

    def __add__(self, other: Load) -> Load:
        return Load(
            self.seconds + other.seconds, self.errors + other.errors, self.lasted + other.lasted
        )

    @property
    def per_second(self) -> float:
        """Answers per second."""
        return len(self.seconds) / max(self.lasted, 1e-9)

    def milliseconds(self, percent: float) -> float:
        """The time that so many percent of the answers took at most."""
        return 1e3 * float(np.percentile(self.seconds, percent)) if self.seconds else float("nan")


@dataclass
class _Client:
    sock: socket.socket
    sent: float = 0.0
    received: bytearray = field(default_factory=bytearray)
    #: Bytes that the answer has in all; 0 until its headers are here.
    length: int = 0


def request_bytes(path: str, fields: dict[str, Any]) -> bytes:
    """A request as it goes over the wire."""
    body = json.dumps(fields).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def run_load(port: int, requests: Sequence[bytes], *, clients: int, seconds: float, k: int) -> Load:
    """Let so many clients ask one request after the other, each waiting for its answer."""
    load, poll = Load(), selectors.DefaultSelector()
    number, started = 0, time.perf_counter()
    waiting = 0
    for _ in range(clients):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = _Client(sock, time.perf_counter())
        poll.register(sock, selectors.EVENT_READ, client)
        sock.sendall(requests[number % len(requests)])
        number, waiting = number + 1, waiting + 1
    while waiting:
        for key, _ in poll.select(timeout=60):
            client = key.data
            data = client.sock.recv(1 << 16)
            client.received += data
            if data and not _is_complete(client):
                continue
            now = time.perf_counter()
            if not data or not client.received.startswith(b"HTTP/1.1 200"):
                load.errors.append(
                    bytes(client.received[:300]).decode(errors="replace") or "closed"
                )
            else:
                load.seconds.append(now - client.sent)
                if len(load.seconds) % 100 == 1:
                    _check(client, k, load)
            client.received.clear()
            client.length = 0
            if not data or now - started > seconds:
                poll.unregister(client.sock)
                client.sock.close()
                waiting -= 1
                continue
            client.sent = now
            client.sock.sendall(requests[number % len(requests)])
            number += 1
    load.lasted = time.perf_counter() - started
    return load


def _is_complete(client: _Client) -> bool:
    if not client.length:
        end = client.received.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(client.received[:end]).lower()
        place = head.index(b"content-length:") + 15
        client.length = end + 4 + int(head[place : head.find(b"\r", place) % (end + 1)])
    return len(client.received) >= client.length


def _check(client: _Client, k: int, load: Load) -> None:
    """Look into an answer now and then."""
    found = json.loads(bytes(client.received).partition(b"\r\n\r\n")[2])
    if [len(row) for row in found["ids"]] != [k]:
        load.errors.append(f"an answer of another shape: {str(found)[:200]}")
