"""All pairs of codes within a radius, through tables of keys or by a scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sghash.index.costs import Costs
from sghash.kernels import hamming_range
from sghash.validation import Codes

if TYPE_CHECKING:
    from sghash.kernels.multi.layout import Tables

#: Rows of one side that a scan compares with everything behind them at a time.
JOIN_ROWS = 1024
_Mask = NDArray[np.bool_]


def tables_pay(tables: Tables, codes: Codes, radius: int, costs: Costs) -> bool:
    """Whether all pairs cost less through tables than by a scan."""
    from sghash.kernels.multi.joining import join_cost

    scan = costs.scan_pairs(len(codes), codes.shape[1])
    return join_cost(tables, codes, radius, scan) < scan


def tabled_pairs(
    tables: Tables, codes: Codes, radius: int, *, mask: _Mask | None = None, threads: int
) -> NDArray[np.int64]:
    """Pairs of allowed rows within a radius, (n_pairs, 3): rows and distance, by rows."""
    from sghash.kernels.multi.joining import multi_pairs

    found = multi_pairs(tables, codes, radius, threads=threads)
    pairs = np.stack(found, axis=1).astype(np.int64, copy=False)
    return pairs if mask is None else pairs[mask[pairs[:, 0]] & mask[pairs[:, 1]]]


def scanned_pairs(
    codes: Codes,
    radius: int,
    n_bits: int,
    *,
    mask: _Mask | None = None,
    threads: int,
    callback: Callable[[int], None] | None = None,
) -> NDArray[np.int64]:
    """The same by a scan; `callback` receives how many rows more have met all others."""
    n, found = len(codes), [np.empty((0, 3), dtype=np.int64)]
    for start in range(0, n, JOIN_ROWS):
        own = np.arange(start, min(start + JOIN_ROWS, n))
        own = own if mask is None else own[mask[own]]
        allowed = None if mask is None else mask[start:]
        some = np.ascontiguousarray(codes[own])
        near = hamming_range(
            codes[start:], some, radius, n_bits=n_bits, mask=allowed, threads=threads
        )
        firsts = np.repeat(own, np.diff(near.limits))
        pairs = np.stack([firsts, near.ids + start, near.distances], axis=1)
        pairs = pairs[pairs[:, 1] > firsts]
        found.append(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))])
        if callback is not None:
            callback(min(JOIN_ROWS, n - start))
    return np.concatenate(found)
