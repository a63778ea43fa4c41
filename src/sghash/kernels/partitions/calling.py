"""The compiled search, chosen once for a type of kept vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.np.numpy_support import from_dtype

from sghash.kernels.compiling import announce
from sghash.kernels.partitions.search import search_partitions
from sghash.kernels.vectors.stored import HALVES

_calls: dict[np.dtype[Any], Callable[..., None]] = {}


def searcher(kept: np.dtype[Any]) -> Callable[..., None]:
    """`search_partitions` for kept vectors of one type: float32, halves as uint16, a small kind.

    Compiled for it and chosen once: to find out the types of its many arguments at every call
    takes longer than some searches. All arrays must be contiguous; it writes to the last three.
    """
    call = _calls.get(kept)
    if call is None:
        announce(search_partitions, "partitioned search")
        centroids: Any = np.uint16 if HALVES else np.float32
        float_2d, int_1d = _array(np.float32, 2), _array(np.int64, 1)
        lists = (
            _array(centroids, 2), _array(np.float32, 1), _array(centroids, 2),
            _array(np.float32, 1), int_1d, _array(np.uint64, 2),
        )  # fmt: skip
        rows = (
            _array(np.uint8, 3), _array(np.uint32, 1), _array(np.float32, 1), types.float64,
            int_1d, int_1d,
        )  # fmt: skip
        signature = (
            int_1d, types.float64, float_2d, _array(np.uint8, 2), _array(np.uint64, 2), float_2d,
            _array(np.float32, 3), float_2d, _array(np.float32, 1), *lists, *rows,
            _array(kept, 2), _array(np.bool_, 1), float_2d, _array(np.int64, 2),
            _array(np.int64, 2),
        )  # fmt: skip
        dispatcher: Any = search_partitions
        dispatcher.compile(signature)
        call = _calls[kept] = dispatcher.get_overload(signature)
    return call


def _array(kind: Any, n_dims: int) -> Any:
    return types.Array(from_dtype(np.dtype(kind)), n_dims, "C")
