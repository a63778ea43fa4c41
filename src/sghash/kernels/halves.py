"""float16 to float32 in vectors: NumPy does it one number at a time on most builds."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.kernels.compiling import compiled
from sghash.kernels.lanes import ADDRESS
from sghash.validation import Vectors

# Without the instruction LLVM would call a function that need not be there.
AVAILABLE = "+f16c" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")


def as_float32(array: NDArray[Any]) -> Vectors:
    """Convert an array of any kind of number to float32; float16 fast where the CPU can."""
    if array.dtype != np.float16 or not AVAILABLE:
        return array.astype(np.float32, copy=False)
    halves = np.ascontiguousarray(array).reshape(-1)
    floats = np.empty(array.shape, dtype=np.float32)
    whole = len(halves) // 8 * 8
    _widen(halves.view(np.uint16), floats.reshape(-1), whole)
    floats.reshape(-1)[whole:] = halves[whole:]
    return floats


@intrinsic
def _widen_eight(typing_context: Any, source: Any, target: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target = (builder.inttoptr(address, ir.PointerType()) for address in arguments)
        halves = builder.load(source, align=2, typ=ir.VectorType(ir.HalfType(), 8))
        floats = builder.fpext(halves, ir.VectorType(ir.FloatType(), 8))
        builder.store(floats, target, align=4)
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS), emit


@compiled
def _widen(halves: NDArray[np.uint16], floats: NDArray[np.float32], n: int) -> None:
    for i in range(0, n, 8):
        _widen_eight(halves.ctypes.data + 2 * i, floats.ctypes.data + 4 * i)
