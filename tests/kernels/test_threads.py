"""Work is cut into ranges that cover it once, and never into more threads than are of use."""

from __future__ import annotations

import threading
from itertools import chain

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.kernels import reference, threads as pieces
from sghash.kernels.hamming import search as hamming
from sghash.kernels.tables import best_rows, search as asymmetric
from sghash.kernels.tables.rescoring import nibble_tables
from sghash.validation import available_cores


@pytest.mark.parametrize("n", [0, 1, 2, 7, 64, 1000])
@pytest.mark.parametrize("threads", [1, 2, 7, 63, 10**6])
def test_ranges_cover_everything_once(n: int, threads: int) -> None:
    parts = pieces.cut(n, threads)
    assert list(chain.from_iterable(range(*part) for part in parts)) == list(range(n))
    assert len(parts) <= min(n, threads, max(pieces.MOST_THREADS, available_cores()))
    assert all(stop > start for start, stop in parts)


def test_cores_beyond_the_most_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "available_cores", lambda: 200)
    assert pieces.useful(10**6) == 200
    assert pieces.useful(150) == 150


def test_no_thread_at_all_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 1"):
        pieces.cut(5, 0)


@pytest.mark.parametrize("n_queries", [1, 40])
def test_a_million_threads_are_not_started(
    n_queries: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best_rows, "WORTH_A_THREAD", 1)
    begun = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: (begun.append(1), start(self))[1])
    codes = rng.integers(0, 256, (3000, 4), dtype=np.uint8)
    tables = nibble_tables(rng.standard_normal((n_queries, 32)), 4)
    queries = codes[:n_queries]
    expected = reference.hamming_neighbors(codes, queries, 5, n_bits=32)
    found = hamming.hamming_neighbors(codes, queries, 5, n_bits=32, threads=10**6)
    np.testing.assert_array_equal(found.ids, expected.ids)
    scored = asymmetric.asymmetric_neighbors(codes, tables, 5, threads=10**6)
    alone = asymmetric.asymmetric_neighbors(codes, tables, 5, threads=1)
    np.testing.assert_array_equal(scored.ids, alone.ids)
    assert 1 < len(begun) <= 2 * max(pieces.MOST_THREADS, available_cores())
