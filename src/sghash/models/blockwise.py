"""Sums over rows on all cores, equal to the last bit whatever the number of cores.

Each thread takes whole blocks of rows and keeps its matrix products to itself: the threads inside
the linear algebra would meet after every product, which costs more than the product when other
programs use the machine, and their number would change the rounding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from sghash.blocks import blocks_of
from sghash.validation import Vectors, available_cores

BLOCK_ROWS = 8192


@cache
def _linear_algebra() -> Any:
    """Find NumPy's linear algebra library, once: the look takes milliseconds."""
    return ThreadpoolController()


def one_thread_each() -> Any:
    """Context in which matrix products run on the thread that asks for them."""
    return _linear_algebra().limit(limits=1, user_api="blas")


def sum_over_blocks(
    term: Callable[[Vectors], tuple[NDArray[Any], ...]], vectors: Vectors
) -> tuple[NDArray[Any], ...]:
    """Sum `term(block)`, a tuple of arrays, over blocks of rows of vectors (n, d), n >= 1.

    Blocks are worked on at the same time and added in their order; the first block's arrays
    decide the type in which the sums are kept.
    """
    totals: tuple[NDArray[Any], ...] = ()
    cores = available_cores()
    with one_thread_each(), ThreadPoolExecutor(cores) as pool:
        waiting: deque[Future[tuple[NDArray[Any], ...]]] = deque()

        def add_oldest() -> None:
            nonlocal totals
            terms = waiting.popleft().result()
            if not totals:
                totals = terms
                return
            for total, one in zip(totals, terms, strict=True):
                total += one

        for _, block in blocks_of(vectors, BLOCK_ROWS):
            waiting.append(pool.submit(term, block))
            if len(waiting) > 2 * cores:
                add_oldest()
        while waiting:
            add_oldest()
    return totals
