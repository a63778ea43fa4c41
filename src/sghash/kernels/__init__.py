"""Hamming and exact float k-NN kernels: fast ones, each with its obviously right twin.

`KERNELS` names the implementations; all have the same signatures. Fast kernels check that their
arguments agree, for compiled code would read foreign memory; what values mean, `sghash.index` and
`sghash.evaluation` check before they call.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.blocks import VectorSource
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.validation import Codes, Vectors, check_threads

#: name -> module with `hamming_neighbors` and `hamming_range`.
KERNELS: dict[str, str] = {
    "reference": "sghash.kernels.reference",
    "simd": "sghash.kernels.hamming.search",
}

# To load Numba takes longer than NumPy needs to compare so many pairs of codes of 16 bytes. A
# process that searches no more, such as one command in a shell, is better off without it.
MOST_PAIRS = 1 << 18
_pairs_done = 0


def kernel(name: str) -> Any:
    """Return the Hamming kernel called `name` in `KERNELS`."""
    return importlib.import_module(KERNELS[name])


def _is_soon_done(codes: Codes, query_codes: Codes) -> bool:
    """Whether NumPy is done before the compiled kernel is loaded; the answer is the same."""
    global _pairs_done
    # Codes of 128 bits are counted as one.
    pairs = len(codes) * len(query_codes) * codes.shape[1] / 16
    if KERNELS["simd"] in sys.modules or pairs > MOST_PAIRS - _pairs_done:
        return False
    _pairs_done += pairs
    return True


def hamming_neighbors(
    codes: Codes,
    query_codes: Codes,
    k: int,
    *,
    n_bits: int,
    mask: NDArray[np.bool_] | None = None,
    threads: int | None = None,
) -> Neighbors:
    """Return the k nearest rows of each query by (distance, row), through the fast kernel."""
    name = "reference" if _is_soon_done(codes, query_codes) else "simd"
    found: Neighbors = kernel(name).hamming_neighbors(
        codes, query_codes, k, n_bits=n_bits, mask=mask, threads=check_threads(threads)
    )
    return found


def hamming_shortlist(
    codes: Codes,
    query_codes: Codes,
    length: int,
    *,
    n_bits: int,
    mask: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> Neighbors:
    """Return the `length` nearest rows of each query, and some more where they tie."""
    from sghash.kernels.hamming import shortlist

    return shortlist.hamming_shortlist(
        codes, query_codes, length, n_bits=n_bits, mask=mask, threads=threads
    )


def hamming_range(
    codes: Codes,
    query_codes: Codes,
    radius: int,
    *,
    n_bits: int,
    mask: NDArray[np.bool_] | None = None,
    threads: int | None = None,
) -> RangeNeighbors:
    """Return all rows with distance <= radius of each query, through the fast kernel."""
    found: RangeNeighbors = kernel("simd").hamming_range(
        codes, query_codes, radius, n_bits=n_bits, mask=mask, threads=check_threads(threads)
    )
    return found


def exact_neighbors(
    vectors: Vectors | VectorSource,
    queries: Vectors,
    k: int,
    *,
    metric: str = "l2",
    threads: int | None = None,
) -> Neighbors:
    """Return the k nearest vectors (n, d) float32 of each query by (distance, row).

    `metric` is "l2" (squared Euclidean), "ip" (negative inner product) or "cosine" (1 - cosine).
    """
    from sghash.kernels.vectors import exact

    return exact.exact_neighbors(vectors, queries, k, metric=metric, threads=check_threads(threads))
