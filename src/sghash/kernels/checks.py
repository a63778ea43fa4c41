"""What compiled code trusts, asked before it runs: shapes, dtypes and rows that agree.

Compiled code reads wherever its arguments point, so arguments that disagree would read foreign
memory. The public functions validate what users give; these checks are for whoever calls a kernel
directly, and take about a microsecond.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidDtype, InvalidInput
from sghash.kernels.compiling import compiled
from sghash.validation import Codes, Ids, Vectors, n_bytes_of

# The largest distance whose neighbours still fit the entries and the sort of a selection.
MOST_BITS = 8189

# Kept, for to make one takes longer than to compare.
UINT8, BOOL = np.dtype(np.uint8), np.dtype(np.bool_)
FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)


def check_array(array: Any, kind: np.dtype[Any], n_dims: int, name: str) -> None:
    """Refuse another dtype, another number of dimensions, and gaps in memory."""
    if not isinstance(array, np.ndarray) or array.dtype != kind:
        came = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise InvalidDtype(f"{name} must be an array of {kind}, got {came}: convert it")
    if array.ndim != n_dims:
        raise InvalidInput(f"{name} must have {n_dims} dimensions, got {array.ndim}: reshape it")
    if not array.flags.c_contiguous:
        raise InvalidInput(
            f"{name} must be contiguous in memory, got strides {array.strides}: "
            "pass np.ascontiguousarray of it"
        )


def _refuse_shape(array: NDArray[Any], shape: tuple[int, ...], name: str, why: str) -> NoReturn:
    raise InvalidInput(f"{name} must have shape {shape} for {why}, got {array.shape}")


def check_codes_agree(
    codes: Codes, query_codes: Codes, n_bits: int, mask: NDArray[np.bool_] | None
) -> None:
    """Refuse codes and queries of another width than `n_bits` bits take, or a mask of others."""
    check_array(codes, UINT8, 2, "codes")
    check_array(query_codes, UINT8, 2, "query codes")
    if not 1 <= n_bits <= MOST_BITS:
        raise InvalidInput(f"n_bits must lie between 1 and {MOST_BITS}, got {n_bits}")
    width = n_bytes_of(n_bits)
    if not codes.shape[1] == query_codes.shape[1] == width:
        raise InvalidInput(
            f"codes are {codes.shape[1]} bytes wide and query codes {query_codes.shape[1]}, "
            f"{n_bits}-bit codes take {width}: encode codes and queries with the same model"
        )
    if mask is not None:
        check_mask_of(mask, len(codes))


def check_mask_of(mask: NDArray[np.bool_], n: int) -> None:
    """Refuse a mask that does not have a boolean for each of `n` codes."""
    check_array(mask, BOOL, 1, "mask")
    if len(mask) != n:
        _refuse_shape(mask, (n,), "mask", f"{n} codes")


def check_tables(tables: Vectors, n_queries: int, n_bytes: int) -> None:
    """Refuse tables of scores that are not of these queries and this width of codes."""
    check_array(tables, FLOAT32, 3, "tables")
    shape = n_queries, 2 * n_bytes, 16
    if tables.shape != shape:
        why = f"{n_queries} queries and codes of {n_bytes} bytes"
        _refuse_shape(tables, shape, "tables", why)


def check_gram(gram: Vectors, n_bytes: int) -> None:
    """Refuse tables of codes' own terms that are not of this width of codes."""
    check_array(gram, FLOAT32, 3, "gram")
    n_words = -(-n_bytes // 8)
    shape = n_words * (n_words + 1) // 2, 256, 64
    if gram.shape != shape:
        _refuse_shape(gram, shape, "gram", f"codes of {n_bytes} bytes")


def check_rows(rows: Ids, n: int, n_queries: int) -> None:
    """Refuse rows (n_queries, m) that name a row beyond `n`; negative ones mean none."""
    if not isinstance(rows, np.ndarray) or rows.dtype != np.int64 or rows.ndim != 2:
        raise InvalidDtype("rows must be an array of int64 with two dimensions: convert it")
    if len(rows) != n_queries:
        raise InvalidInput(f"got rows for {len(rows)} queries, there are {n_queries}")
    last = _largest(rows)
    if last >= n:
        raise InvalidInput(f"rows name row {last}, there are {n}: rows count from 0")


@compiled
def _largest(rows: NDArray[np.int64]) -> Any:
    """The largest of all rows, -1 at least; NumPy takes longer for a few."""
    largest = -1
    for query in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            largest = max(largest, rows[query, i])
    return largest
