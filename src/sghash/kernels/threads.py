"""Cutting work into parts and running them in threads that Ctrl-C can stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from itertools import pairwise

from sghash.validation import available_cores, check_threads

# Threads beyond the cores help only where some wait; beyond so many they only cost.
MOST_THREADS = 64

Job = tuple[Callable[[int, int, threading.Event], None], tuple[int, int]]


def useful(threads: int | None) -> int:
    """As many of the threads asked for as it makes sense to start; answers do not depend on it."""
    wanted = check_threads(threads)
    return wanted if wanted <= MOST_THREADS else min(wanted, max(MOST_THREADS, available_cores()))


def cut(n: int, threads: int) -> list[tuple[int, int]]:
    """Cut range(n) into nearly equal ranges: at most one per row, and one per useful thread."""
    if threads == 1:
        return [(0, n)] if n else []
    parts = min(useful(threads), max(n, 1))
    edges = [n * i // parts for i in range(parts + 1)]
    return [(a, b) for a, b in pairwise(edges) if b > a]


def run(jobs: Sequence[Job], *, single_blas: bool = False) -> None:
    """Run each job in a thread of its own; Ctrl-C stops them at their next piece.

    With `single_blas`, matrix products inside the jobs use one thread each.
    """
    stopped = threading.Event()
    if not jobs:
        return
    if len(jobs) == 1:
        job, part = jobs[0]
        job(*part, stopped)
        return
    with _blas_threads(1) if single_blas else nullcontext(), ThreadPoolExecutor(len(jobs)) as pool:
        futures: list[Future[None]] = []
        try:
            for job, part in jobs:
                futures.append(pool.submit(job, *part, stopped))
            wait(futures, return_when=FIRST_EXCEPTION)
        except RuntimeError as error:
            # Ctrl-C within a lock of `threading` comes out as "release unlocked lock".
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
        finally:
            stopped.set()
        for future in futures:
            future.result()


def _blas_threads(n: int) -> nullcontext[None]:
    from threadpoolctl import threadpool_limits

    limits: nullcontext[None] = threadpool_limits(limits=n, user_api="blas")
    return limits
