"""A collection as a server holds it: threads that read, one that writes, and what is gathered."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sghash.collection import Collection, answers
from sghash.errors import InvalidInput, MissingData
from sghash.serve.gate import busy
from sghash.serve.gathering import Found, Gatherer, Options
from sghash.serve.metrics import Metrics
from sghash.serve.refusals import Refusal
from sghash.serve.settings import Settings
from sghash.validation import available_cores

T = TypeVar("T")
#: Threads that answer what is asked; kernels use more of their own.
READERS = 4


class Hosted:
    """One collection of a server; all but the work itself happens in the event loop."""

    def __init__(
        self,
        name: str,
        collection: Collection,
        settings: Settings,
        metrics: Metrics,
        readers: ThreadPoolExecutor,
    ) -> None:
        self.name, self.collection, self.settings = name, collection, settings
        self._readers = readers
        self._writer = ThreadPoolExecutor(1, f"write-{name}")
        self._writes = 0
        self._is_stopping = False
        calls = min(READERS, available_cores())
        self._gatherer = Gatherer(self._search, settings.gather_seconds, calls, metrics)

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return self.collection.moment.state.manifest.width

    async def read(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do work in another thread, and wait for it no longer than an answer may take."""
        loop = asyncio.get_running_loop()
        return await self.in_time(loop.run_in_executor(self._readers, work, *arguments))

    async def in_time(self, answer: Awaitable[T]) -> T:
        """Wait for an answer, but no longer than one may take."""
        seconds = self.settings.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise Refusal(
                504, f"no answer within {seconds:g} seconds: ask for less at a time"
            ) from None

    async def write(self, work: Callable[[], T]) -> T:
        """Change the collection, one change after the other; what has begun is waited for."""
        if self._is_stopping or self._writes >= self.settings.limits.writes:
            raise busy()
        self._writes += 1
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._writer, work)
        future.add_done_callback(self._written)
        # The change goes on should the one who waits for it be gone.
        return await asyncio.shield(future)

    def _written(self, future: asyncio.Future[Any]) -> None:
        self._writes -= 1
        if not future.cancelled():
            future.exception()  # it was seen, also if nobody waits any more

    async def search(self, query: NDArray[Any], options: Options) -> Found:
        """The answer to one query, together with others that come at the same time."""
        # Calls have a limit of their own, but a query may have to wait before one begins.
        return await self.in_time(self._gatherer.search(query, options))

    async def _search(self, queries: NDArray[Any], options: Options) -> Found:
        return await self.read(self.neighbors, queries, options)

    def neighbors(self, queries: NDArray[Any], options: Options) -> Found:
        """Search now, in this thread."""
        moment, how = self.collection.moment, options._asdict()
        threads, by_codes = self.settings.threads, how.pop("by_codes")
        if by_codes:
            fingerprint = moment.state.manifest.fingerprint
            found = answers.neighbors_of_codes(
                moment, queries, options.k, fingerprint=fingerprint, where=options.where,
                threads=threads,
            )  # fmt: skip
        else:
            found = answers.neighbors_of(moment, queries, threads=threads, **how)
        return Found(found.distances, found.ids, found.keys)

    async def refresh(self) -> None:
        """See what other processes have written."""
        await asyncio.get_running_loop().run_in_executor(self._writer, self.collection.refresh)

    def stop(self) -> None:
        """Take no more writes, end those that were taken, close the collection."""
        self._is_stopping = True
        self._writer.shutdown(wait=True)
        self.collection.close()


def open_collections(paths: Sequence[str], *, writable: bool) -> dict[str, Collection]:
    """Open collections by name: that of the folder, or NAME=FOLDER."""
    opened: dict[str, Collection] = {}
    try:
        for given in paths:
            name, folder = _named(given)
            if name in opened:
                raise InvalidInput(
                    f"two collections are called {name}: give one of them another name, as in "
                    f"other={folder}"
                )
            if not folder.exists():
                raise MissingData(f"there is no collection {folder}: make it with sghash create")
            opened[name] = Collection.open(folder, writable=writable)
    except BaseException:
        close_all(opened)
        raise
    return opened


def close_all(collections: Mapping[str, Collection]) -> None:
    """Give up all rights to write."""
    for collection in collections.values():
        collection.close()


def _named(given: str) -> tuple[str, Path]:
    name, sign, folder = given.partition("=")
    if not sign or os.sep in name or Path(given).exists():
        path = Path(given)
        name = path.resolve().name
    else:
        path = Path(folder)
    if not name or name.startswith(".") or not all(c.isalnum() or c in "._-" for c in name):
        raise InvalidInput(
            f"{given!r} is no name for an address: give one of letters, digits, «.», «_» and «-» "
            "before the folder, as in photos=FOLDER"
        )
    return name, path


def check_ready(hosted: Mapping[str, Hosted]) -> dict[str, Exception]:
    """Read every model and search once, so that the first query finds all at hand.

    What cannot be read is returned by name: whoever asks for it is told, others can be served.
    """
    failed: dict[str, Exception] = {}
    for name, one in hosted.items():
        try:
            one.collection.model  # noqa: B018 - reads it
            for n in (1, 8):
                one.neighbors(np.zeros((n, one.width), np.float32), Options(k=1))
        except InvalidInput:
            continue  # nothing is wrong with it but this query
        except Exception as error:
            failed[name] = error
    return failed
