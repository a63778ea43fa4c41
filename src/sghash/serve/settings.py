"""What a server is told when it starts, and the most that a request may ask of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sghash.serve.keys import Keys

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The most of everything; beyond it a request is refused."""

    #: Bytes of a body, and of all bodies that are held at once.
    body_bytes: int = 32 * MEGABYTE
    bodies_bytes: int = 128 * MEGABYTE
    #: Rows or queries of one request, and neighbours of one query.
    rows: int = 10_000
    k: int = 10_000
    #: Numbers in one answer, and bytes of its keys and metadata.
    numbers: int = 4_000_000
    text_bytes: int = 32 * MEGABYTE
    #: Seconds for an answer, and for a request to arrive.
    seconds: float = 30.0
    arrival_seconds: float = 30.0
    #: Requests under way, writes that wait for their turn, open connections.
    requests: int = 512
    writes: int = 64
    connections: int = 2048
    headers: int = 100
    header_bytes: int = 1 << 16


@dataclass(frozen=True)
class Settings:
    """How collections are served."""

    writable: bool = False
    keys: Keys | None = None
    #: Origins that a browser may call from; none unless asked for.
    cors_origins: tuple[str, ...] = ()
    #: Names of this server that a request may be for; None is any. A page of a stranger can give
    #: its own name the address of this machine, and would be let in by its browser.
    hosts: tuple[str, ...] | None = None
    #: Seconds that single queries are gathered for one call of the kernels; 0 gathers none.
    gather_seconds: float = 0.001
    #: Seconds between looks for what another process has written; 0 never looks.
    refresh_seconds: float = 2.0
    threads: int | None = None
    log_requests: bool = True
    limits: Limits = field(default_factory=Limits)
