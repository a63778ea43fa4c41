"""Sums over rows on all cores, equal to the last bit whatever the number of cores.

Each thread takes whole blocks of rows and keeps its matrix products to itself: the threads inside
the linear algebra would meet after every product, which costs more than the product when other
programs use the machine, and their number would change the rounding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from sghash.validation import Vectors, available_cores

BLOCK_ROWS = 8192


@cache
def _linear_algebra() -> Any:
    """Find NumPy's linear algebra library, once: the look takes milliseconds."""
    return ThreadpoolController()


def single_threaded_blas() -> Any:
    """Context in which matrix products run on the thread that asks for them."""
    return _linear_algebra().limit(limits=1, user_api="blas")


def some_rows(vectors: Vectors, n_rows: int | None, rng: np.random.Generator) -> Vectors:
    """At most `n_rows` random rows of vectors (n, d), in their order; None is all."""
    if n_rows is None or n_rows >= len(vectors):
        return vectors
    return vectors[np.sort(rng.choice(len(vectors), n_rows, replace=False))]


def map_over_blocks(function: Callable[..., NDArray[Any]], *arrays: NDArray[Any]) -> NDArray[Any]:
    """Join `function(*blocks)` over the same blocks of rows of each of `arrays`, in order."""
    return np.concatenate(list(_results(function, arrays)))


def sum_over_blocks(
    term: Callable[..., tuple[NDArray[Any], ...]], *arrays: NDArray[Any]
) -> tuple[NDArray[Any], ...]:
    """Sum `term(*blocks)`, a tuple of arrays, over the same blocks of rows of each of `arrays`.

    Blocks are worked on at the same time and added in their order; the first block's arrays
    decide the type in which the sums are kept. Blocks are views: `term` may write to its own.
    """
    results = _results(term, arrays)
    totals = next(results)
    for terms in results:
        for total, one in zip(totals, terms, strict=True):
            total += one
    return totals


def _results(function: Callable[..., Any], arrays: tuple[NDArray[Any], ...]) -> Iterator[Any]:
    """Yield the results of all blocks in order; a few more than there are cores are under way."""
    if len(arrays[0]) <= BLOCK_ROWS:
        with single_threaded_blas():
            yield function(*arrays)
        return
    cores = available_cores()
    waiting: deque[Future[Any]] = deque()
    with single_threaded_blas(), ThreadPoolExecutor(cores) as pool:
        for first in range(0, len(arrays[0]), BLOCK_ROWS):
            blocks = [array[first : first + BLOCK_ROWS] for array in arrays]
            waiting.append(pool.submit(function, *blocks))
            if len(waiting) > 2 * cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
