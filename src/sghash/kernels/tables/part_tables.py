"""Nearest codes of several small numbers each, by tables of partial distances.

The distance of a code is the sum, over its parts, of the table entry that the part's number
points to. Ties and order are as everywhere: by (distance, row).
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.kernels.checks import FLOAT32, UINT8, check_array
from sghash.kernels.compiling import announce, compiled
from sghash.kernels.threads import cut, run
from sghash.neighbors import Neighbors, empty_neighbors
from sghash.validation import Codes, check_k, check_threads

_ROWS_AT_ONCE = 4096


def table_neighbors(
    codes: Codes, tables: NDArray[np.float32], k: int, *, threads: int | None = None
) -> Neighbors:
    """Return the k rows of `codes` (n, n_parts) nearest by `tables` (n_queries, n_parts, size).

    Every number in `codes` must be below `size`.
    """
    _check(codes, tables)
    k = check_k(k)
    result = empty_neighbors(len(tables), k, np.float32)
    k_here = min(k, len(codes))
    if not k_here or not len(tables):
        return result
    announce(_scan, "table search")

    def scan(start: int, stop: int, stopped: threading.Event) -> None:
        for query in range(start, stop):
            if stopped.is_set():
                return
            distances, rows = _scan(codes, tables[query], k_here)
            order = np.lexsort((rows, distances))
            result.distances[query, :k_here] = distances[order]
            result.ids[query, :k_here] = rows[order]

    run([(scan, part) for part in cut(len(tables), check_threads(threads))])
    return result


def byte_table_neighbors(
    codes: Codes,
    tables: NDArray[np.float32],
    k: int,
    *,
    mask: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> Neighbors:
    """Like `table_neighbors`, among the rows that `mask` allows."""
    if mask is None:
        return table_neighbors(np.ascontiguousarray(codes), tables, k, threads=threads)
    rows = np.flatnonzero(mask)
    found = table_neighbors(np.ascontiguousarray(codes[rows]), tables, k, threads=threads)
    return Neighbors(found.distances, np.where(found.ids < 0, -1, np.append(rows, -1)[found.ids]))


def _check(codes: Codes, tables: NDArray[np.float32]) -> None:
    check_array(codes, UINT8, 2, "codes")
    check_array(tables, FLOAT32, 3, "tables")
    n_parts, size = tables.shape[1:]
    if codes.shape[1] != n_parts:
        raise InvalidInput(
            f"codes have {codes.shape[1]} parts, the tables {n_parts}: take both from one model"
        )
    if size < 256 and codes.size and codes.max() >= size:
        raise InvalidInput(
            f"codes hold {codes.max()}, the tables have {size} entries: take both from one model"
        )


@compiled
def _scan(codes: NDArray[np.uint8], table: NDArray[np.float32], k: int) -> Any:
    """The k best rows in no particular order: a heap whose root is the worst of them."""
    distances = np.full(k, np.inf, dtype=np.float32)
    rows = np.full(k, np.iinfo(np.int64).max, dtype=np.int64)
    block = np.empty(_ROWS_AT_ONCE, dtype=np.float32)
    n, n_parts = codes.shape
    for first in range(0, n, _ROWS_AT_ONCE):
        size = min(_ROWS_AT_ONCE, n - first)
        for i in range(size):
            total = np.float32(0)
            for part in range(n_parts):
                total += table[part, codes[first + i, part]]
            block[i] = total
        for i in range(size):
            # Rows rise, so a later row at the worst distance loses the tie.
            if block[i] < distances[0] or rows[0] == np.iinfo(np.int64).max:
                _replace_root(distances, rows, block[i], first + i)
    return distances, rows


@compiled
def _replace_root(
    distances: NDArray[np.float32], rows: NDArray[np.int64], distance: float, row: int
) -> None:
    k, place = len(distances), 0
    while True:
        child = 2 * place + 1
        if child >= k:
            break
        other = child + 1
        if other < k and (
            distances[other] > distances[child]
            or (distances[other] == distances[child] and rows[other] > rows[child])
        ):
            child = other
        if distances[child] < distance or (distances[child] == distance and rows[child] < row):
            break
        distances[place], rows[place] = distances[child], rows[child]
        place = child
    distances[place], rows[place] = distance, row
