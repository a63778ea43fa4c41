"""The best k of many 16-bit scores by counting: no heap, no histogram, no branch per row.

Scores lie in a buffer that stays in the cache. How many of them are at most some value is a count
of vector comparisons, a few hundred for ten thousand scores, so the k-th smallest is found by
bisection, and only the rows that are taken cost a step each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import (
    I64,
    OFFSET,
    addresses,
    count_ones,
    load,
    splat,
)

#: Scores that one comparison looks at; a buffer is filled up to a multiple of it with FULL.
AT_ONCE = 64
#: No score: beyond all that can be asked for.
FULL = 65535

_SCORE = ir.IntType(16)
_SCORES = ir.VectorType(_SCORE, AT_ONCE)


@intrinsic
def at_most(typing_context: Any, scores: Any, at: Any, limit: Any) -> Any:
    """Bits of the AT_ONCE scores from byte `at` on: which are at most `limit`."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (address,) = addresses(context, builder, signature, arguments)
        found = load(builder, address, kind=_SCORES, align=2)
        bound = splat(builder, builder.trunc(arguments[2], _SCORE), _SCORES)
        return builder.bitcast(builder.icmp_unsigned("<=", found, bound), I64)

    return types.uint64(scores, OFFSET, types.int64), emit


@intrinsic
def _ones(typing_context: Any, word: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return count_ones(builder, arguments[0])

    return types.int64(types.uint64), emit


@compiled
def count_at_most(scores: NDArray[np.uint16], n: int, limit: int) -> int:
    """How many of the first n scores, a multiple of AT_ONCE, are at most `limit`."""
    count = 0
    for start in range(0, n, AT_ONCE):
        count += _ones(at_most(scores, 2 * start, limit))
    return count


@compiled
def kth_score(scores: NDArray[np.uint16], n: int, k: int, low: int, high: int) -> int:
    """The least value from `low` to `high` that k of n scores do not exceed, else `high`.

    No score may be below `low`.
    """
    while low < high:
        middle = (low + high) >> 1
        if count_at_most(scores, n, middle) >= k:
            high = middle
        else:
            low = middle + 1
    return low
