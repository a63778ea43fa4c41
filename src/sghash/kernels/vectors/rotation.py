"""A rotation that spreads what a vector holds over all its numbers, known by their count alone.

A round shuffles the numbers, flips the signs of some and puts a Hadamard transform over the first
2^m of them, as many as there can be; then it flips others and transforms the last 2^m, where those
are not the same. Nothing is learned and nothing stored: the order comes from the width, the signs
from a fixed generator. It must never change, for stored rows were rotated by it.
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
from sghash.kernels.lanes import OFFSET, addresses, constant, load, splat, store

# Shuffled numbers come from places about this share of the width apart.
_SHARE = 0.6180339887498949
_LANES = 8
_FLOATS = ir.VectorType(ir.FloatType(), _LANES)


@compiled
def stride_of(width: int) -> int:
    """How far apart two numbers stand that the shuffle makes neighbours; prime to the width."""
    stride = max(1, int(width * _SHARE))
    while True:
        a, b = stride, width
        while b:
            a, b = b, a % b
        if a == 1:
            return stride
        stride += 1


@compiled
def sign_word(place: int) -> np.uint64:
    """64 signs; the place-th number that the SplitMix64 generator gives."""
    word = np.uint64(place + 1) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@intrinsic
def _flip(typing_context: Any, x: Any, at: Any, signs: Any) -> Any:
    """Flip the signs of eight numbers where the lowest eight bits are set."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (here,) = addresses(context, builder, signature, arguments)
        whole = ir.VectorType(ir.IntType(32), _LANES)
        bits = splat(builder, builder.trunc(arguments[2], ir.IntType(32)), whole)
        chosen = builder.and_(bits, ir.Constant(whole, [1 << i for i in range(_LANES)]))
        found = load(builder, here, kind=_FLOATS, align=4)
        is_set = builder.icmp_unsigned("!=", chosen, ir.Constant(whole, [0] * _LANES))
        store(builder, builder.select(is_set, builder.fneg(found), found), here, align=4)
        return context.get_dummy_value()

    return types.void(x, OFFSET, types.uint64), emit


@intrinsic
def _mix_within(typing_context: Any, x: Any, at: Any, scale: Any) -> Any:
    """The Hadamard transform of eight numbers, times `scale`."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (here,) = addresses(context, builder, signature, arguments)
        found = load(builder, here, kind=_FLOATS, align=4)
        found = builder.fmul(found, splat(builder, arguments[2], _FLOATS))
        for step in (1, 2, 4):
            others = [i ^ step for i in range(_LANES)]
            index = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), others)
            signs = [-1.0 if i & step else 1.0 for i in range(_LANES)]
            other = builder.shuffle_vector(found, found, index)
            found = builder.fadd(other, builder.fmul(found, ir.Constant(_FLOATS, signs)))
        store(builder, found, here, align=4)
        return context.get_dummy_value()

    return types.void(x, OFFSET, types.float32), emit


@intrinsic
def _mix_across(typing_context: Any, x: Any, at: Any, half: Any) -> Any:
    """Sums and differences of `half` numbers and as many after them; a multiple of eight."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (here,) = addresses(context, builder, signature, arguments)
        step = constant(4 * _LANES)
        size = builder.mul(arguments[2], constant(4))
        with cgutils.for_range(builder, builder.udiv(size, step)) as loop:
            first = here.plus(builder.mul(loop.index, step))
            second = first.plus(size)
            a = load(builder, first, kind=_FLOATS, align=4)
            b = load(builder, second, kind=_FLOATS, align=4)
            store(builder, builder.fadd(a, b), first, align=4)
            store(builder, builder.fsub(a, b), second, align=4)
        return context.get_dummy_value()

    return types.void(x, OFFSET, types.int64), emit


@compiled
def _hadamard(x: NDArray[np.float32], start: int, size: int) -> None:
    """In place, of `size` numbers, a power of two; lengths stay as they are."""
    scale = np.float32(1 / np.sqrt(size))
    half = 1
    if size >= _LANES:
        for i in range(start, start + size, _LANES):
            _mix_within(x, 4 * i, scale)
        half = _LANES
    else:
        for i in range(start, start + size):
            x[i] *= scale
    while half < size:
        for first in range(start, start + size, 2 * half):
            if half >= _LANES:
                _mix_across(x, 4 * first, half)
            else:
                for i in range(first, first + half):
                    a, b = x[i], x[i + half]
                    x[i], x[i + half] = a + b, a - b
        half *= 2


@compiled
def _flip_signs(x: NDArray[np.float32], turn: int) -> None:
    """Before the transform of this number."""
    width = x.shape[0]
    n_words = (width + 63) // 64
    whole = width // _LANES * _LANES
    signs = np.uint64(0)
    for first in range(0, whole, _LANES):
        if first & 63 == 0:
            signs = sign_word(turn * n_words + (first >> 6))
        _flip(x, 4 * first, signs)
        signs >>= np.uint64(_LANES)
    signs = sign_word(turn * n_words + (whole >> 6)) >> np.uint64(whole & 63)
    for i in range(whole, width):
        if signs & np.uint64(1):
            x[i] = -x[i]
        signs >>= np.uint64(1)


@compiled
def _largest_power(width: int) -> int:
    size = 1
    while 2 * size <= width:
        size *= 2
    return size


@compiled
def _n_rounds(width: int, size: int) -> int:
    """Three transforms where one is over everything, else four."""
    return 3 if size == width else 2


@compiled
def rotate(x: NDArray[np.float32], spare: NDArray[np.float32]) -> None:
    """Rotate the numbers in place; `spare` is as long."""
    width = x.shape[0]
    stride, size = stride_of(width), _largest_power(width)
    turn = 0
    for _ in range(_n_rounds(width, size)):
        spare[:] = x
        place = 0
        for i in range(width):
            x[i] = spare[place]
            place += stride
            if place >= width:
                place -= width
        _flip_signs(x, turn)
        _hadamard(x, 0, size)
        turn += 1
        if size < width:
            # Without other signs, two transforms would undo each other where they overlap.
            _flip_signs(x, turn)
            _hadamard(x, width - size, size)
            turn += 1


@compiled
def rotate_back(x: NDArray[np.float32], spare: NDArray[np.float32]) -> None:
    """Undo `rotate`, up to rounding."""
    width = x.shape[0]
    stride, size = stride_of(width), _largest_power(width)
    n_rounds = _n_rounds(width, size)
    turn = n_rounds if size == width else 2 * n_rounds
    for _ in range(n_rounds):
        if size < width:
            turn -= 1
            _hadamard(x, width - size, size)
            _flip_signs(x, turn)
        turn -= 1
        _hadamard(x, 0, size)
        _flip_signs(x, turn)
        spare[:] = x
        place = 0
        for i in range(width):
            x[place] = spare[i]
            place += stride
            if place >= width:
                place -= width
