"""Signs of projections, packed eight to a byte: what follows the matrix product of an encoder."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.kernels.checks import FLOAT32, UINT8, check_array
from sghash.kernels.compiling import announce, compiled
from sghash.kernels.lanes import OFFSET, addresses, load
from sghash.validation import Codes, Vectors, n_bytes_of

# Rows projected at a time: block, scores and weights stay in the second-level cache.
BLOCK_ROWS = 1024

_EIGHT = ir.VectorType(ir.FloatType(), 8)


class Projection(NamedTuple):
    """Weights (d, 8 * n_bytes) and bias with columns arranged for `pack_signs`."""

    weights: Vectors
    bias: Vectors


def arrange(weights: NDArray[Any], bias: NDArray[Any]) -> Projection:
    """Pad (d, n_bits) to whole bytes and reverse the columns of each.

    A comparison of eight lanes gives lane 0 as the lowest bit of a byte, and bit 0 of a code is
    the highest. Padding scores zero, which is not positive.
    """
    width, n_bits = weights.shape
    n_bytes = n_bytes_of(n_bits)
    padded = np.zeros((width + 1, 8 * n_bytes), dtype=np.float32)
    padded[:width, :n_bits] = weights
    padded[width, :n_bits] = bias
    turned = padded.reshape(width + 1, n_bytes, 8)[:, :, ::-1].reshape(width + 1, -1)
    return Projection(np.ascontiguousarray(turned[:width]), turned[width].copy())


@intrinsic
def _signs_of_eight(typing_context: Any, scores: Any, at: Any, bias: Any, bias_at: Any) -> Any:
    """Compare eight sums of score and bias with zero: signs in bits 0-7, not finite in 8-15."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        places = addresses(context, builder, signature, arguments)
        total = builder.fadd(*(load(builder, place, kind=_EIGHT, align=4) for place in places))
        word = ir.IntType(64)
        positive = builder.fcmp_ordered(">", total, ir.Constant(_EIGHT, [0.0] * 8))
        # x - x is zero for a finite x and NaN otherwise.
        lost = builder.fcmp_unordered("uno", builder.fsub(total, total), total)
        low, high = (
            builder.zext(builder.bitcast(flags, ir.IntType(8)), word) for flags in (positive, lost)
        )
        return builder.or_(low, builder.shl(high, ir.Constant(word, 8)))

    return types.int64(scores, OFFSET, bias, OFFSET), emit


@compiled
def _pack_signs(scores: Any, bias: Any, codes: Any) -> bool:
    n, n_bytes = codes.shape
    lost = 0
    for i in range(n):
        row = i * n_bytes * 32
        for j in range(n_bytes):
            flags = _signs_of_eight(scores, row + 32 * j, bias, 32 * j)
            codes[i, j] = np.uint8(flags & 255)
            lost |= flags
    return lost >> 8 == 0


def pack_signs(scores: Vectors, bias: Vectors, codes: Codes) -> bool:
    """Write [score + bias > 0] of (n, 8 * n_bytes) to `codes` (n, n_bytes); say if all are finite.

    All arrays are contiguous, with the columns of `arrange`.
    """
    check_array(scores, FLOAT32, 2, "scores")
    check_array(bias, FLOAT32, 1, "bias")
    check_array(codes, UINT8, 2, "codes")
    n, n_bytes = codes.shape
    if scores.shape != (n, 8 * n_bytes) or len(bias) != 8 * n_bytes:
        raise InvalidInput(
            f"{n} codes of {n_bytes} bytes take scores ({n}, {8 * n_bytes}) and a bias for each "
            f"column, got scores {scores.shape} and {len(bias)} biases: arrange them first"
        )
    announce(_pack_signs, "sign packing")
    return bool(_pack_signs(scores, bias, codes))
