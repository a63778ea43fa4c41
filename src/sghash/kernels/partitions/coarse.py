"""Which lists a query visits: scores against centroids, in one step or by groups of them.

Centroids lie as float16 (or float32 where the CPU cannot widen), those of a group side by side. A
list's score is half the centroid's square minus its product with the query: smaller is nearer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import OFFSET, Address, addresses, constant, load, store
from sghash.kernels.sorting import sort_pairs

#: Rows whose products are computed together; arrays of centroids are filled up to a multiple.
TOGETHER = 4
_LANES = 16
_FLOAT = ir.FloatType()
_FLOATS = ir.VectorType(_FLOAT, _LANES)
_I32 = ir.IntType(32)


def _total(builder: Any, vector: Any) -> Any:
    half = _LANES // 2
    while half:
        places = [i + half if i < half else i for i in range(_LANES)]
        index = ir.Constant(ir.VectorType(_I32, _LANES), places)
        vector = builder.fadd(vector, builder.shuffle_vector(vector, vector, index))
        half //= 2
    return builder.extract_element(vector, ir.Constant(_I32, 0))


@intrinsic
def _products(
    typing_context: Any,
    rows: Any,
    at: Any,
    query: Any,
    query_at: Any,
    out: Any,
    out_at: Any,
    width: Any,
) -> Any:
    """Inner products of a query with TOGETHER rows that lie one after the other."""
    halves = rows.dtype == types.uint16
    scalar, size = (ir.HalfType(), 2) if halves else (_FLOAT, 4)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, query, target = addresses(context, builder, signature, arguments)
        width = arguments[6]

        def numbers(start: Address, place: Any, scalar: Any, size: int, count: int) -> Any:
            kind = scalar if count == 1 else ir.VectorType(scalar, count)
            found = load(builder, start.plus(builder.mul(place, constant(size))), kind=kind,
                         align=size)  # fmt: skip
            if size == 4:
                return found
            return builder.fpext(found, _FLOAT if count == 1 else _FLOATS)

        starts = [source.plus(builder.mul(width, constant(size * row))) for row in range(TOGETHER)]
        sums = [
            cgutils.alloca_once_value(builder, ir.Constant(_FLOATS, [0.0] * _LANES)) for _ in starts
        ]
        rest = [cgutils.alloca_once_value(builder, ir.Constant(_FLOAT, 0.0)) for _ in starts]

        def add(targets: list[Any], place: Any, count: int) -> None:
            q = numbers(query, place, _FLOAT, 4, count)
            for start, sum_at in zip(starts, targets, strict=True):
                x = numbers(start, place, scalar, size, count)
                product = builder.fmul(q, x, flags=("contract",))
                total = builder.fadd(builder.load(sum_at), product, flags=("contract",))
                builder.store(total, sum_at)

        n_steps = builder.udiv(width, constant(_LANES))
        with cgutils.for_range(builder, n_steps) as loop:
            add(sums, builder.mul(loop.index, constant(_LANES)), _LANES)
        done = builder.mul(n_steps, constant(_LANES))
        with cgutils.for_range(builder, builder.sub(width, done)) as loop:
            add(rest, builder.add(done, loop.index), 1)
        for i in range(TOGETHER):
            total = builder.fadd(_total(builder, builder.load(sums[i])), builder.load(rest[i]))
            store(builder, total, target, 4 * i, align=4)
        return context.get_dummy_value()

    return types.void(rows, OFFSET, query, OFFSET, out, OFFSET, types.int64), emit


@compiled
def write_products(
    rows: NDArray[Any],
    first: int,
    last: int,
    query: NDArray[np.float32],
    out: NDArray[np.float32],
    place: int,
) -> None:
    """Products of rows `first` to `last` - 1 with a query, to `out` from `place` on.

    Up to TOGETHER - 1 more are written; `rows` must have as many more.
    """
    width = rows.shape[1]
    row_bytes = width * rows.itemsize
    for row in range(first, last, TOGETHER):
        _products(rows, row * row_bytes, query, 0, out, 4 * (place + row - first), width)


@compiled
def insert_least(
    score: np.float32,
    number: int,
    scores: NDArray[np.float32],
    numbers: NDArray[np.int64],
    used: int,
    most: int,
) -> int:
    """Keep the least `most` scores sorted; the first of equals stays first. Return how many."""
    if used == most:
        if not score < scores[most - 1]:
            return used
        place = most - 1
    else:
        place = used
        used += 1
    while place > 0 and score < scores[place - 1]:
        scores[place], numbers[place] = scores[place - 1], numbers[place - 1]
        place -= 1
    scores[place], numbers[place] = score, number
    return used


@compiled
def nearest_lists(
    query: NDArray[np.float32],
    centroids: NDArray[Any],
    half_squares: NDArray[np.float32],
    groups: NDArray[Any],
    group_squares: NDArray[np.float32],
    group_starts: NDArray[np.int64],
    n_probes: int,
    scores: NDArray[np.float32],
    lists: NDArray[np.int64],
) -> Any:
    """The `n_probes` nearest lists, nearest first: how many, and the mean score of those seen.

    With groups, lists are looked at group by group until there are several times as many as are
    asked for.
    """
    n_lists, n_groups = len(half_squares), len(group_squares)
    found = np.empty(n_lists + TOGETHER, dtype=np.float32)
    used, seen, total = 0, 0, 0.0
    if not n_groups:
        write_products(centroids, 0, n_lists, query, found, 0)
        for i in range(n_lists):
            score = half_squares[i] - found[i]
            total += score
            used = insert_least(score, i, scores, lists, used, n_probes)
        return used, np.float32(total / n_lists)
    group_scores = np.empty(n_groups + TOGETHER, dtype=np.float32)
    write_products(groups, 0, n_groups, query, group_scores, 0)
    for group in range(n_groups):
        group_scores[group] = group_squares[group] - group_scores[group]
    wanted = min(n_lists, 6 * n_probes + n_lists // 8)
    order = np.arange(n_groups)
    sort_pairs(group_scores, order)
    for place in range(n_groups):
        group = int(order[place])
        first, last = int(group_starts[group]), int(group_starts[group + 1])
        write_products(centroids, first, last, query, found, 0)
        for i in range(first, last):
            score = half_squares[i] - found[i - first]
            total += score
            used = insert_least(score, i, scores, lists, used, n_probes)
        seen += int(last - first)
        if seen >= wanted:
            break
    return used, np.float32(total / max(seen, 1))
