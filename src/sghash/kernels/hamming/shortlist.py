"""Shortlists by Hamming distance: many rows per query, with those that tie.

The nearest few among a sample of rows tell how near a row must be to have a chance, so most rows
that a search for so many neighbours would take and drop again are never taken.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from sghash.kernels.checks import check_codes_agree
from sghash.kernels.hamming import search as hamming
from sghash.kernels.hamming.selection import USED, new_selection, write_sorted
from sghash.kernels.threads import cut, run, useful
from sghash.neighbors import Neighbors, empty_neighbors
from sghash.validation import Codes, check_k

# One row in so many is looked at first.
STRIDE = 32
# Below so many rows wanted a sample costs more than it saves; below so many rows, and so many per
# row wanted, it tells too little.
_WORTH_A_SAMPLE = 64
_ENOUGH, _ENOUGH_EACH = 1 << 13, 8


def with_ties(length: int) -> int:
    """Rows that a shortlist of `length` may have if its last ones tie: a tenth more."""
    return length + length // 10


def hamming_shortlist(
    codes: Codes,
    query_codes: Codes,
    length: int,
    *,
    n_bits: int,
    mask: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> Neighbors:
    """The `length` nearest rows of each query by (distance, row), and some more where they tie.

    The result is what `hamming_neighbors` gives for `with_ties(length)` neighbours, except that
    rows farther than row number `length` may be missing.
    """
    check_codes_agree(codes, query_codes, n_bits, mask)
    length, threads = check_k(length), useful(threads)
    width = with_ties(length)
    n, n_queries = len(codes), len(query_codes)
    few = n_queries < threads * hamming.SLICED_FROM or length < _WORTH_A_SAMPLE
    too_few = n < max(_ENOUGH, _ENOUGH_EACH * length)
    if few or too_few or (mask is not None and np.count_nonzero(mask) < n // 2):
        return hamming.hamming_neighbors(
            codes, query_codes, width, n_bits=n_bits, mask=mask, threads=threads
        )
    result = empty_neighbors(n_queries, width, np.int32)
    sample = np.ascontiguousarray(codes[::STRIDE])
    expected = length / STRIDE
    # Enough to be right nearly always: who finds too few is searched again.
    n_seen = int(np.ceil(expected + 2 * np.sqrt(expected))) + 1

    def search(start: int, stop: int, stopped: threading.Event) -> None:
        part = slice(start, stop)
        near = hamming.hamming_neighbors(sample, query_codes[part], n_seen, n_bits=n_bits)
        state = new_selection(stop - start, width, n_bits, n)
        state.limits[:] = np.minimum(near.distances[:, -1] + 1, n_bits + 1)
        scan = hamming.scanner(codes, query_codes[part], n_bits, mask)
        hamming.scan_all(scan, state, stop - start, (0, n), stopped)
        write_sorted(state.records, width, result.distances[part], result.ids[part])
        short = start + np.flatnonzero(state.records[:, USED] < length)
        if len(short):
            # The sample was not like the rest: search for these without it.
            again = hamming.hamming_neighbors(
                codes, query_codes[short], width, n_bits=n_bits, mask=mask
            )
            result.distances[short], result.ids[short] = again

    run([(search, part) for part in cut(n_queries, threads)])
    return result
