"""Run the application until it is asked to stop, and then to the end of what was begun."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from sghash.collection import Collection
from sghash.errors import StorageError
from sghash.serve.app import create_app
from sghash.serve.hosting import close_all, open_collections
from sghash.serve.logs import Journal, JournalHandler
from sghash.serve.protocol import limited
from sghash.serve.settings import Limits, Settings

#: Seconds that requests under way get when the server stops.
STOPPING_SECONDS = 60
#: Names of this machine that no other one can reach.
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class _Server(uvicorn.Server):
    """A server for which a signal is a wish to stop, not an error."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_started = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at Ctrl-C and at a polite end by the system; a second Ctrl-C does not wait."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        wishes = (signal.SIGINT, signal.SIGTERM)
        before = {wish: signal.signal(wish, self.handle_exit) for wish in wishes}
        try:
            yield
        finally:
            for wish, handler in before.items():
                signal.signal(wish, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        if self.started:
            self._tell_started()


def make_server(app: ASGIApp, limits: Limits, started: Callable[[], None]) -> uvicorn.Server:
    """A server of an application; `started` is called once it listens."""
    config = uvicorn.Config(
        app, http=limited(limits), ws="none", lifespan="on", log_config=None, access_log=False,
        server_header=False, timeout_keep_alive=75, backlog=2048,
        timeout_graceful_shutdown=STOPPING_SECONDS,
    )  # fmt: skip
    return _Server(config, started)


def serve(
    paths: Sequence[str],
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    listening: Callable[[str], None] | None = None,
) -> None:
    """Serve collections until a signal; `listening` is told the address once it is open.

    Port 0 is any that is free.
    """
    collections = open_collections(paths, writable=settings.writable)
    serve_collections(collections, settings, Journal(), host=host, port=port, listening=listening)


def serve_collections(
    collections: Mapping[str, Collection],
    settings: Settings,
    journal: Journal,
    *,
    host: str,
    port: int,
    images: Mapping[str, Path] | None = None,
    listening: Callable[[str], None] | None = None,
) -> None:
    """Serve open collections until a signal, and close them; see `serve` and `create_app`."""
    handler = JournalHandler(journal)
    sock = None
    try:
        sock = _bound(host, port)
        actual = sock.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{actual}"
        is_local = _is_local(host)
        if settings.keys is None and not is_local:
            journal.note(
                "open", level="warning",
                message="anybody who reaches this address may ask: use sghash serve --api-key-file",
            )  # fmt: skip
        if settings.hosts or (settings.keys is None and is_local):
            settings = replace(settings, hosts=(*LOOPBACK, host.lower(), *(settings.hosts or ())))
        app = create_app(collections, settings, journal, images)
        for name in ("uvicorn", "sghash"):
            logger = logging.getLogger(name)
            logger.addHandler(handler)
            logger.propagate = False
        logging.getLogger("uvicorn").setLevel(logging.WARNING)

        def started() -> None:
            journal.note("listening", address=address, collections=list(collections))
            if listening is not None:
                listening(address)

        make_server(app, settings.limits, started).run([sock])
        journal.note("stopped")
    finally:
        close_all(collections)
        if sock is not None:
            sock.close()
        for name in ("uvicorn", "sghash"):
            logging.getLogger(name).removeHandler(handler)
            logging.getLogger(name).propagate = True


def _is_local(host: str) -> bool:
    """Whether no other machine can reach this address."""
    try:
        return host in LOOPBACK or ip_address(host).is_loopback
    except ValueError:
        return False


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise StorageError(
            f"{host} is no address of this machine ({error}): choose another --host"
        ) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
    except OSError as error:
        sock.close()
        raise StorageError(
            f"{host}:{port} cannot be used ({error.strerror}): choose another --port or --host"
        ) from error
    return sock
