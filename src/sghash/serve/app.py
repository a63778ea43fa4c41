"""The application: collections behind the gate, and what operators look at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

import sghash
from sghash.collection import Collection
from sghash.errors import SghashError
from sghash.serve.api.description import describe
from sghash.serve.api.dispatch import Dispatch
from sghash.serve.api.routes import add_routes
from sghash.serve.explorer.router import router_of
from sghash.serve.gate import Gate
from sghash.serve.hosting import READERS, Hosted, check_ready
from sghash.serve.logs import Journal
from sghash.serve.metrics import Metrics
from sghash.serve.refusals import Refusal, refusal_of
from sghash.serve.settings import Settings


class Service:
    """Collections, and whether they can be asked."""

    def __init__(
        self, collections: Mapping[str, Collection], settings: Settings, journal: Journal
    ) -> None:
        self.settings, self.journal = settings, journal
        self.collections = dict(collections)
        self.metrics = Metrics()
        self._readers = ThreadPoolExecutor(READERS, "read")
        self.hosted = {
            name: Hosted(name, collection, settings, self.metrics, self._readers)
            for name, collection in self.collections.items()
        }
        self.is_ready = False

    @asynccontextmanager
    async def running(self, _: Any) -> AsyncIterator[None]:
        """From the first request to the last."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._get_ready())]
        if self.settings.refresh_seconds:
            tasks.append(loop.create_task(self._keep_fresh()))
        try:
            yield
        finally:
            self.is_ready = False
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                await asyncio.to_thread(self._stop)

    async def _get_ready(self) -> None:
        loop = asyncio.get_running_loop()
        failed = await loop.run_in_executor(self._readers, check_ready, self.hosted)
        for name, error in failed.items():
            self._warn("damaged", name, error)
        self.is_ready = True
        self.journal.note("ready", collections=list(self.hosted))

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(self.settings.refresh_seconds)
            for name, own in self.hosted.items():
                try:
                    await own.refresh()
                except Exception as error:  # it may go away, and others are to be refreshed
                    self._warn("refresh", name, error)

    def _warn(self, event: str, name: str, error: Exception) -> None:
        message = str(error) or type(error).__name__
        self.journal.note(event, level="warning", collection=name, message=message)

    def _stop(self) -> None:
        # All of it is done, whatever fails.
        with ExitStack() as stack:
            stack.callback(self._readers.shutdown, wait=True)
            for own in self.hosted.values():
                stack.callback(own.stop)


def create_app(
    collections: Mapping[str, Collection],
    settings: Settings | None = None,
    journal: Journal | None = None,
    images: Mapping[str, Path] | None = None,
) -> ASGIApp:
    """An ASGI application that serves these collections, and closes them when it stops.

    `images` names the folders of the files that the explorer shows, by collection.
    """
    settings, journal = settings or Settings(), journal or Journal()
    service = Service(collections, settings, journal)
    app = FastAPI(
        title="sghash", version=sghash.__version__, docs_url=None, redoc_url=None,
        redirect_slashes=False, lifespan=service.running,
    )  # fmt: skip
    for kind in (HTTPException, SghashError, MemoryError, RecursionError, UnicodeError, Exception):
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(RequestValidationError, _not_understood)
    add_routes(app, service.hosted)
    _add_pages(app, service)
    app.include_router(router_of(service.hosted, images))
    describe(app, service.hosted, settings)
    gate: ASGIApp = Gate(Dispatch(app, service.hosted), settings, service.metrics, journal)
    if settings.cors_origins:
        gate = CORSMiddleware(
            gate, allow_origins=list(settings.cors_origins), allow_methods=["GET", "POST"],
            allow_headers=["authorization", "x-api-key", "x-request-id", "content-type"],
            expose_headers=["x-request-id", "retry-after"],
        )  # fmt: skip
    return gate


def _add_pages(app: FastAPI, service: Service) -> None:
    page = files("sghash.serve.api").joinpath("docs.html").read_text(encoding="utf-8")

    async def healthz(request: Request) -> JSONResponse:
        return JSONResponse({"status": "alive"})

    async def readyz(request: Request) -> JSONResponse:
        if not service.is_ready:
            raise Refusal(
                503, "the collections are being read: try again in a moment",
                error="Unreachable", retry=True,
            )  # fmt: skip
        return JSONResponse({"status": "ready"})

    async def metrics(request: Request) -> PlainTextResponse:
        text = service.metrics.text(service.collections)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def docs(request: Request) -> HTMLResponse:
        policy = "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
        return HTMLResponse(page, headers={"content-security-policy": policy})

    for path, answer in (
        ("/healthz", healthz), ("/readyz", readyz), ("/metrics", metrics), ("/docs", docs),
    ):  # fmt: skip
        app.add_api_route(path, answer, methods=["GET"], include_in_schema=False)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    refusal = refusal_of(error)
    body = refusal.body(request.scope.get("sghash.request_id", ""))
    headers = dict(getattr(error, "headers", None) or {}) | dict(refusal.headers or {})
    return JSONResponse(body, status_code=refusal.status_code, headers=headers)


async def _not_understood(request: Request, error: Exception) -> JSONResponse:
    """What the framework found wrong with parameters, in one sentence."""
    assert isinstance(error, RequestValidationError)  # as it was registered
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])[:120]
    return await _refused(request, Refusal(422, f"{place}: {first['msg'][:300]}; see /docs"))
