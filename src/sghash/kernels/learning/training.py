"""The work of one training step between its matrix products, fused into few passes.

Every loop runs along the contiguous axis and keeps one sum per column, so that it is vectorised
without changing the order of additions: results repeat to the last bit. The NumPy twins stand in
`reference.learning`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, register_jitable

from sghash.kernels.compiling import compiled

#: At which h a step looks at the decoder: a random draw, the mean, or the likelier value.
DRAW, MEAN, ROUND = 0, 1, 2

_LOG2_E = np.float32(1.4426950408889634)
_LARGEST = np.float32(30.0)
_STRIDE = np.uint32(0x9E3779B9)
_TO_UNIT = np.float32(2.0**-24)
# 2^f on [-1/2, 1/2]: the Taylor coefficients ln(2)^k / k! are exact enough for float32.
_C1 = np.float32(0.6931471805599453)
_C2 = np.float32(0.2402265069591007)
_C3 = np.float32(0.05550410866482158)
_C4 = np.float32(0.009618129107628477)
_C5 = np.float32(0.0013333558146428443)
_C6 = np.float32(0.00015403530393381608)
_ONE, _HALF = np.float32(1.0), np.float32(0.5)


# Numba's own division checks for zero, which forbids vectors.
_fused = partial(compiled, error_model="numpy")


@intrinsic
def _as_float(typing_context: Any, word: Any) -> Any:
    """Read a 32-bit integer's bits as a float32."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), emit


@register_jitable
def _power_of_two(power: Any) -> Any:
    """2^t for t between -126 and 126, without a branch and without calling exp."""
    whole = np.floor(power + _HALF)
    f = np.float32(power - whole)
    fraction = _ONE + f * (_C1 + f * (_C2 + f * (_C3 + f * (_C4 + f * (_C5 + f * _C6)))))
    return fraction * _as_float(np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)))


@register_jitable
def exponential(value: Any) -> Any:
    """e^x of a float32 x that is not positive; below e^-80 it stays there."""
    return _power_of_two(max(value, np.float32(-80.0)) * _LOG2_E)


@register_jitable
def _sigmoid(logit: Any) -> Any:
    """1 / (1 + 2^t), t = -z / ln 2."""
    return _ONE / (_ONE + _power_of_two(-min(max(logit, -_LARGEST), _LARGEST) * _LOG2_E))


@register_jitable
def _mixed(word: Any) -> Any:
    """Scramble 32 bits (the finaliser of MurmurHash3)."""
    word = np.uint32(word ^ (word >> np.uint32(16)))
    word = np.uint32(word * np.uint32(0x85EBCA6B))
    word = np.uint32(word ^ (word >> np.uint32(13)))
    word = np.uint32(word * np.uint32(0xC2B2AE35))
    return np.uint32(word ^ (word >> np.uint32(16)))


@_fused
def draw_codes(
    logits: Any,
    bias: Any,
    mode: int,
    signed: bool,
    keys: Any,
    first_row: int,
    probabilities: Any,
    codes: Any,
) -> None:
    """Add `bias` to `logits` (m, l), and fill `probabilities` and `codes` h of the same shape.

    Draws come from a counter scrambled with `keys` (2,) uint32: the same keys, the same draws,
    also for a part of the rows that begins at `first_row`.
    """
    n_rows, n_bits = logits.shape
    step = np.float32(2.0) if signed else np.float32(1.0)
    low = np.float32(-1.0) if signed else np.float32(0.0)
    first_key, second_key = keys[0], keys[1]
    for i in range(n_rows):
        row_key = _mixed(np.uint32(_mixed(np.uint32(first_row + i) ^ first_key) + second_key))
        for k in range(n_bits):
            logit = logits[i, k] + bias[k]
            p = _sigmoid(logit)
            logits[i, k] = logit
            probabilities[i, k] = p
            if mode == DRAW:
                word = _mixed(np.uint32(row_key + np.uint32(np.uint32(k) * _STRIDE)))
                uniform = np.float32(np.int32(word >> np.uint32(8))) * _TO_UNIT
                bit = _ONE if uniform < p else np.float32(0.0)
            elif mode == MEAN:
                bit = p
            else:
                bit = _ONE if p >= _HALF else np.float32(0.0)
            codes[i, k] = low + step * bit


@_fused
def finish_residual(residual: Any, bias: Any, vectors: Any, sums: Any, squares: Any) -> None:
    """Turn h U (m, d) into r = alpha + h U - x in place; add up r and r² by column."""
    n_rows, width = residual.shape
    sums[:] = 0
    squares[:] = 0
    for i in range(n_rows):
        for j in range(width):
            r = residual[i, j] + bias[j] - vectors[i, j]
            residual[i, j] = r
            sums[j] += r
            squares[j] += r * r


@_fused
def logit_gradient(
    slopes: Any,
    logits: Any,
    probabilities: Any,
    codes: Any,
    prior_logits: Any,
    linear: float,
    quadratic: Any,
    signed: bool,
    kl_weight: float,
    scale: float,
    variance_sums: Any,
    bias_gradient: Any,
    prior_gradient: Any,
) -> None:
    """Turn r U^T (m, l) into `scale` times the objective's gradient by the logits, in place.

    D = linear * slope + quadratic_k * (1 - 2 above / step) as in `models.sgh.paper.gradients`, with
    `quadratic` (l,) zero for the estimators that leave that term out. Also adds up the variances
    of the bits by column, and fills this part of the gradients (l,) by the encoder's bias and by
    the prior (for which -`scale` p: sigmoid(beta) is still to be added). The prior stands in the
    divergence alone, so its optimum, and its gradient here, do not depend on the weight.
    """
    n_rows, n_bits = slopes.shape
    variance_sums[:] = 0
    bias_gradient[:] = 0
    prior_gradient[:] = 0
    turn = np.float32(-1.0) if signed else np.float32(-2.0)
    offset = np.float32(0.0) if signed else np.float32(1.0)
    spread = np.float32(4.0) if signed else np.float32(1.0)
    by_slope, weight, by_row = np.float32(linear), np.float32(kl_weight), np.float32(scale)
    for i in range(n_rows):
        for k in range(n_bits):
            p = probabilities[i, k]
            variance = p * (_ONE - p)
            change = by_slope * slopes[i, k] + quadratic[k] * (offset + turn * codes[i, k])
            change += weight * (logits[i, k] - prior_logits[k])
            slope = by_row * variance * change
            slopes[i, k] = slope
            bias_gradient[k] += slope
            variance_sums[k] += spread * variance
            prior_gradient[k] -= by_row * p


@_fused
def adam_update(
    values: Any, gradient: Any, first: Any, second: Any, rate: float, beta1: float, beta2: float
) -> None:
    """One step of Adam on flat float32 vectors; `rate` already holds the bias correction."""
    small = np.float32(1e-8)
    b1, b2, step = np.float32(beta1), np.float32(beta2), np.float32(rate)
    for i in range(values.shape[0]):
        g = gradient[i]
        m = b1 * first[i] + (_ONE - b1) * g
        v = b2 * second[i] + (_ONE - b2) * g * g
        first[i], second[i] = m, v
        values[i] -= step * m / (np.sqrt(v) + small)


@_fused
def gather_rows(vectors: Any, rows: Any, shift: Any, factor: float, out: Any) -> None:
    """Fill `out` (m, d) float32 with (row - `shift`) * `factor` of the chosen `rows`."""
    by = np.float32(factor)
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(out.shape[1]):
            out[i, j] = (np.float32(vectors[row, j]) - shift[j]) * by


# Sums along a row in vectors: their order of additions is the compiler's, the same for every run.
_summing = partial(compiled, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


@_summing
def unit_lengths(vectors: Any, out: Any) -> None:
    """Fill `out` (n, d) with the rows of `vectors` divided by their length; zero rows stay zero."""
    for i in range(vectors.shape[0]):
        square = 0.0
        for j in range(vectors.shape[1]):
            value = np.float64(vectors[i, j])
            square += value * value
        inverse = 1.0 / np.sqrt(square) if square > 0.0 else 1.0
        for j in range(vectors.shape[1]):
            out[i, j] = np.float32(np.float64(vectors[i, j]) * inverse)


@_fused
def hidden_units(values: Any, bias: Any) -> None:
    """Turn x V into relu(x V + `bias`) in place; what is no number stays none.

    `bias` (h,) may be shorter than the rows of `values`: the columns beyond stay as they are.
    """
    n_rows, n_units = len(values), len(bias)
    for i in range(n_rows):
        for j in range(n_units):
            value = values[i, j] + bias[j]
            values[i, j] = np.float32(0.0) if value < np.float32(0.0) else value


@_fused
def hidden_gradient(slopes: Any, units: Any, bias_gradient: Any) -> None:
    """Set `slopes` (m, h) to zero in place where `units` are zero; sum the others by column."""
    n_rows, n_units = slopes.shape
    bias_gradient[:] = 0
    for i in range(n_rows):
        for j in range(n_units):
            slope = slopes[i, j] if units[i, j] > np.float32(0.0) else np.float32(0.0)
            slopes[i, j] = slope
            bias_gradient[j] += slope
