"""Single queries that come at about the same time are answered by one call of the kernels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import SghashError
from sghash.serve.metrics import Metrics

#: Queries of one call at most.
MOST = 256


class Options(NamedTuple):
    """How a query is searched; those with the same options can go together."""

    k: int
    rerank: str | None = None
    shortlist: int | str | tuple[int | str, int] | None = None
    target_recall: float | None = None
    where: str | None = None
    #: Whether queries are codes.
    by_codes: bool = False


class Found(NamedTuple):
    """Neighbours of queries, with keys where rows have any."""

    distances: NDArray[Any]
    ids: NDArray[np.int64]
    keys: NDArray[np.object_] | None

    def of_query(self, number: int) -> Found:
        """The answer to one of the queries, still of two dimensions."""
        chosen = slice(number, number + 1)
        keys = None if self.keys is None else self.keys[chosen]
        return Found(self.distances[chosen], self.ids[chosen], keys)


# Answer queries (n, d) with some options, in another thread.
Answer = Callable[[NDArray[Any], Options], Awaitable[Found]]
_Waiting = list[tuple[NDArray[Any], "asyncio.Future[Found]"]]


class Gatherer:
    """Queries that wait, by their options; used in the event loop alone."""

    def __init__(self, answer: Answer, seconds: float, calls: int, metrics: Metrics) -> None:
        self._answer, self._seconds, self._calls = answer, seconds, calls
        self._metrics = metrics
        self._waiting: dict[Options, _Waiting] = {}
        self._due: list[Options] = []
        self._running: set[asyncio.Task[None]] = set()

    async def search(self, query: NDArray[Any], options: Options) -> Found:
        """The answer to one query (1, d), which was checked: it must not spoil those of others."""
        if not self._seconds:
            return await self._answer(query, options)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Found] = loop.create_future()
        waiting = self._waiting.get(options)
        if waiting is None:
            self._waiting[options] = [(query, future)]
            # Nobody else asks for anything: there is nothing to wait for.
            alone = self._metrics.in_flight <= 1
            loop.call_later(0 if alone else self._seconds, self._start, options)
        else:
            waiting.append((query, future))
        return await future

    def _start(self, options: Options) -> None:
        """Answer those that wait, or as soon as a running call has ended."""
        if len(self._running) >= self._calls:
            self._due.append(options)
            return
        waiting = self._waiting.pop(options)
        if len(waiting) > MOST:
            self._waiting[options] = waiting[MOST:]
            self._due.append(options)
        task = asyncio.get_running_loop().create_task(self._run(waiting[:MOST], options))
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if self._due:
            self._start(self._due.pop(0))

    async def _run(self, waiting: _Waiting, options: Options) -> None:
        waiting = [(query, future) for query, future in waiting if not future.done()]
        if not waiting:
            return
        self._metrics.batches += 1
        self._metrics.gathered += len(waiting)
        try:
            queries = np.concatenate([query for query, _ in waiting])
            found = await self._answer(queries, options)
        except (Exception, asyncio.CancelledError) as error:
            for _, future in waiting:
                if not future.done():
                    future.set_exception(_own(error))
            return
        for number, (_, future) in enumerate(waiting):
            if not future.done():
                future.set_result(found.of_query(number))


def _own(error: BaseException) -> BaseException:
    """An error for one of those that wait: each raises one of its own."""
    if isinstance(error, SghashError):
        return type(error)(*error.args)
    return error if isinstance(error, Exception) else RuntimeError("the server stops")
