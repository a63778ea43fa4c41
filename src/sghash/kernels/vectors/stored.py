"""Exact distances of queries to a few kept vectors each, read where they lie.

float16 is widened in registers, so nothing is copied; the rows that come next are asked of the
memory while the present one is computed. Rows of eight and four bits a number are those of `small`.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.kernels.checks import FLOAT16, FLOAT32, check_array, check_rows
from sghash.kernels.compiling import announce, compiled
from sghash.kernels.lanes import OFFSET, Address, addresses, constant, load, prefetch
from sghash.kernels.threads import cut, run
from sghash.kernels.vectors.comparing import small_distances
from sghash.kernels.vectors.kinds import is_small
from sghash.kernels.vectors.small import check_small, grow
from sghash.validation import Ids, Vectors

# Without the instruction LLVM would call a function that need not be there.
HALVES = "+f16c" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")
_AHEAD = 3
# Rows that are widened at a time where the CPU cannot do it.
_WIDENED_ROWS = 1 << 12
_FLOAT = ir.FloatType()
_LANES = 8
_SUMS = 4


def kept_distances(
    vectors: NDArray[Any], rows: Ids, queries: Vectors, metric: str, *, threads: int = 1
) -> Vectors:
    """Distances (n_queries, m) float32 of the `rows` (n_queries, m) of `vectors` (n, d).

    `vectors` are float16, float32, or rows of a small kind (`kinds`), to which distances are
    estimates; a negative row has an infinite distance. `metric` is "l2" (squared), "ip" (negative)
    or "cosine".
    """
    _check(vectors, rows, queries)
    if not len(vectors):
        return np.full(rows.shape, np.inf, dtype=np.float32)
    out = np.empty(rows.shape, dtype=np.float32)
    if vectors.dtype == np.float16 and not HALVES:
        for query, chosen in enumerate(rows):
            for first in range(0, len(chosen), _WIDENED_ROWS):
                some = chosen[first : first + _WIDENED_ROWS]
                wide = vectors[np.maximum(some, 0)].astype(np.float32)
                local = np.where(some < 0, -1, np.arange(len(some)))[None]
                here = slice(query, query + 1), slice(first, first + len(some))
                _fill(wide, local, queries[query : query + 1], metric, out[here])
        return out
    stored = vectors.view(np.uint16) if vectors.dtype == np.float16 else vectors
    fill = small_distances if is_small(vectors) else _fill

    def compute(start: int, stop: int, stopped: threading.Event) -> None:
        if not stopped.is_set():
            part = slice(start, stop)
            fill(stored, rows[part], queries[part], metric, out[part])

    run([(compute, part) for part in cut(len(rows), threads)])
    return out


def as_vectors(kept: NDArray[Any], width: int) -> Vectors:
    """Kept vectors of any kind as float32; those of a small kind as near as they tell."""
    if is_small(kept):
        return grow(np.ascontiguousarray(kept), width)
    return np.ascontiguousarray(kept, dtype=np.float32)


def _check(vectors: NDArray[Any], rows: Ids, queries: Vectors) -> None:
    if isinstance(vectors, np.ndarray) and is_small(vectors):
        check_array(queries, FLOAT32, 2, "queries")
        check_small(vectors, queries.shape[1])
        check_rows(rows, len(vectors), len(queries))
        return
    halves = getattr(vectors, "dtype", None) == FLOAT16
    check_array(vectors, FLOAT16 if halves else FLOAT32, 2, "vectors")
    check_array(queries, FLOAT32, 2, "queries")
    check_rows(rows, len(vectors), len(queries))
    if vectors.shape[1] != queries.shape[1]:
        raise InvalidInput(
            f"queries have {queries.shape[1]} columns, the kept vectors {vectors.shape[1]}: "
            "use vectors of the same kind"
        )


def _fill(
    stored: NDArray[Any], rows: Ids, queries: Vectors, metric: str, out: NDArray[np.float32]
) -> None:
    announce(_distances, "rescoring")
    lengths = np.ones(len(queries), dtype=np.float32)
    if metric == "cosine":
        lengths = np.linalg.norm(queries, axis=1).astype(np.float32)
    _distances(stored, rows, queries, lengths, metric == "l2", metric == "cosine", out)


@intrinsic
def row_sums(
    typing_context: Any,
    vectors: Any,
    row_at: Any,
    queries: Any,
    query_at: Any,
    width: Any,
    squares: Any,
) -> Any:
    """Over the numbers x of a row and q of a query: sums of q x and of x x, as a pair.

    With `squares` not None, the sum of (q - x)^2 and zero. Row and query begin at bytes of their
    arrays; halves come as uint16.
    """
    halves, squared = vectors.dtype == types.uint16, not isinstance(squares, types.NoneType)
    scalar, size = (ir.HalfType(), 2) if halves else (_FLOAT, 4)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, query = addresses(context, builder, signature, arguments)
        width = arguments[4]

        def numbers(start: Address, place: Any, scalar: Any, size: int, count: int) -> Any:
            at = start.plus(builder.mul(place, constant(size)))
            kind = scalar if count == 1 else ir.VectorType(scalar, count)
            found = load(builder, at, kind=kind, align=size)
            if size == 4:
                return found
            return builder.fpext(found, _FLOAT if count == 1 else ir.VectorType(_FLOAT, count))

        def add(sums: tuple[Any, Any], place: Any, count: int) -> None:
            x = numbers(row, place, scalar, size, count)
            q = numbers(query, place, _FLOAT, 4, count)
            pairs = [(q, x), (x, x)]
            if squared:
                difference = builder.fsub(q, x)
                pairs = [(difference, difference)]
            for target, (a, b) in zip(sums, pairs, strict=False):
                product = builder.fmul(a, b, flags=("contract",))
                total = builder.fadd(builder.load(target), product, flags=("contract",))
                builder.store(total, target)

        sums = [_sum_pair(builder, ir.VectorType(_FLOAT, _LANES)) for _ in range(_SUMS)]
        rest = _sum_pair(builder, _FLOAT)
        step = _LANES * _SUMS
        n_steps = builder.udiv(width, constant(step))
        with cgutils.for_range(builder, n_steps) as loop:
            first = builder.mul(loop.index, constant(step))
            for i, pair in enumerate(sums):
                add(pair, builder.add(first, constant(_LANES * i)), _LANES)
        done = builder.mul(n_steps, constant(step))
        with cgutils.for_range(builder, builder.sub(width, done)) as loop:
            add(rest, builder.add(done, loop.index), 1)
        totals = []
        for which in (0, 1):
            parts = [builder.load(pair[which]) for pair in sums]
            totals.append(builder.fadd(_total(builder, parts), builder.load(rest[which])))
        return context.make_tuple(builder, signature.return_type, totals)

    pair = types.UniTuple(types.float32, 2)
    kind = types.boolean if squared else types.none
    return pair(vectors, OFFSET, queries, OFFSET, types.int64, kind), emit


def _sum_pair(builder: Any, kind: Any) -> tuple[Any, Any]:
    zero = ir.Constant(kind, [0.0] * kind.count if isinstance(kind, ir.VectorType) else 0.0)
    return cgutils.alloca_once_value(builder, zero), cgutils.alloca_once_value(builder, zero)


def _total(builder: Any, parts: list[Any]) -> Any:
    """All lanes of four vectors together."""
    total = builder.fadd(builder.fadd(parts[0], parts[1]), builder.fadd(parts[2], parts[3]))
    for width in (4, 2, 1):
        places = [i + width if i < width else i for i in range(_LANES)]
        index = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), places)
        total = builder.fadd(total, builder.shuffle_vector(total, total, index))
    return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))


@compiled
def _distances(
    vectors: NDArray[Any],
    rows: NDArray[np.int64],
    queries: NDArray[np.float32],
    lengths: NDArray[np.float32],
    l2: bool,
    cosine: bool,
    out: NDArray[np.float32],
) -> None:
    width, m = vectors.shape[1], rows.shape[1]
    row_bytes = width * vectors.itemsize
    for query in range(rows.shape[0]):
        query_at = query * width * 4
        for i in range(m):
            ahead = rows[query, min(i + _AHEAD, m - 1)]
            if ahead >= 0:
                for offset in range(0, row_bytes, 64):
                    prefetch(vectors, ahead * row_bytes + offset)
            row = rows[query, i]
            if row < 0:
                out[query, i] = np.inf
                continue
            at = row * row_bytes
            if l2:
                out[query, i] = row_sums(vectors, at, queries, query_at, width, True)[0]
                continue
            product, square = row_sums(vectors, at, queries, query_at, width, None)
            out[query, i] = -product
            if cosine:
                length = np.sqrt(square) * lengths[query]
                # A vector of no length has no direction: it is as far as a right angle.
                out[query, i] = 1 - product / length if length > 0 else np.float32(1)
