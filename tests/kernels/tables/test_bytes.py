"""The scan by tables of 256 entries gives what scoring every code and sorting gives, exactly."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from sghash.kernels import reference
from sghash.kernels.tables import best_rows, byte_lanes, bytes as by_bytes
from sghash.kernels.tables.bytes import byte_table_neighbors

#: Which of the three loops a call takes, forced by (rows are to be had, most queries by rows).
WAYS = {"by rows": (True, 1000), "side by side or one by one": (False, 0)}


@pytest.fixture(params=list(WAYS))
def way(request, monkeypatch):
    available, most = WAYS[request.param]
    if available and not byte_lanes.ROWS_AVAILABLE:
        pytest.skip("this CPU cannot choose from 256 bytes")
    monkeypatch.setattr(byte_lanes, "ROWS_AVAILABLE", available)
    monkeypatch.setattr(by_bytes, "MOST_BY_ROWS", most)


def make(rng, n, n_bytes, n_queries, size=256):
    codes = rng.integers(0, size, (n, n_bytes), dtype=np.uint8)
    return codes, rng.standard_normal((n_queries, n_bytes, size)).astype(np.float32)


def check(codes, tables, k, mask=None):
    expected = reference.byte_table_neighbors(codes, tables, k, mask=mask)
    for threads in (1, 2):
        found = byte_table_neighbors(codes, tables, k, mask=mask, threads=threads)
        assert found.distances.dtype == np.float32
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.distances, expected.distances)


@pytest.mark.parametrize("n_bytes", [1, 3, 7, 8, 9, 16, 33])
@pytest.mark.parametrize("n_queries", [1, 2, 17, pytest.param(70, marks=pytest.mark.slow)])
def test_neighbours_equal_a_full_sort(n_bytes, n_queries, way, rng):
    for n in (1, 63, 64, 130, 900):
        codes, tables = make(rng, n, n_bytes, n_queries)
        check(codes, tables, 10)
        check(codes, tables, n + 2)
        check(codes, tables, 3, mask=rng.random(n) < 0.5)
        check(codes, tables, 3, mask=rng.random(n) < 0.05)


@pytest.mark.parametrize("size", [1, 2, 16, 255])
def test_smaller_tables_are_never_read_beyond_their_end(size, way, rng):
    codes, tables = make(rng, 500, 8, 5, size)
    # What would be read beyond the end, the next table, is far better than anything inside.
    tables[1:] += 1000
    check(codes, tables, 10)
    check(codes, tables[:1], 10)


@pytest.mark.parametrize("n_queries", [1, 7, 40])
def test_equal_scores_come_in_the_order_of_rows(n_queries, way, rng):
    codes, tables = make(rng, 3000, 8, n_queries, 3)
    check(codes, np.round(tables), 50)
    check(codes, np.zeros_like(tables), 50)


@pytest.mark.parametrize("n_queries", [1, 7, 40])
@pytest.mark.parametrize("offset", [0, 1e4, -1e6, 1e30, 1e-40])
def test_rounding_never_costs_a_neighbour(offset, n_queries, way, rng):
    """Far from zero the entries of a table are nearly equal, and float32 sums are mostly noise."""
    codes, tables = make(rng, 4000, 8, n_queries)
    check(codes, tables + np.float32(offset), 20)
    check(codes, tables * np.float32(offset), 20)


@pytest.mark.parametrize("n_queries", [1, 40])
def test_scores_that_fall_along_the_rows_are_found(n_queries, way):
    """The worst case for the bar: every row is better than those before it."""
    codes = np.sort(np.random.default_rng(3).integers(0, 256, (6000, 1), dtype=np.uint8), axis=0)
    codes = np.repeat(codes[::-1], 8, axis=1).copy()
    tables = np.broadcast_to(np.arange(256, dtype=np.float32), (n_queries, 8, 256)).copy()
    check(codes, tables, 100)


@pytest.mark.parametrize("n_queries", [1, 7, 40])
@pytest.mark.parametrize("kind", ["like the rest", "too good", "all equal"])
def test_a_sample_changes_nothing(kind, n_queries, way, rng, monkeypatch):
    monkeypatch.setattr(best_rows, "ENOUGH", 8)
    monkeypatch.setattr(best_rows, "WORTH_A_SAMPLE", 1)
    n, k, stride = 6000, 20, 256 if n_queries == 1 else 64
    codes, tables = make(rng, n, 8, n_queries)
    if kind == "too good":
        order = np.argsort(reference.byte_table_scores(codes, tables[:1])[0], kind="stable")
        codes[::stride] = codes[order[: len(codes[::stride])]]
    elif kind == "all equal":
        codes[:] = codes[0]
    check(codes, tables, k)
    check(codes, tables, k, mask=rng.random(n) < 0.7)


def test_no_codes_and_no_queries(way, rng):
    codes, tables = make(rng, 5, 4, 2)
    assert (byte_table_neighbors(codes[:0], tables, 3).ids == -1).all()
    assert byte_table_neighbors(codes, tables[:0], 3).ids.shape == (0, 3)
    assert (byte_table_neighbors(codes, tables, 3, mask=np.zeros(5, bool)).ids == -1).all()


def test_a_mapped_file_is_searched_where_it_lies(tmp_path, way, rng):
    codes, tables = make(rng, 500, 5, 3)
    codes.tofile(tmp_path / "codes")
    mapped = np.memmap(tmp_path / "codes", dtype=np.uint8, mode="r", shape=codes.shape)
    check(mapped, tables, 4)
    check(mapped, tables[:1], 4)


@pytest.mark.slow
def test_the_other_width_of_vectors_agrees(tmp_path):
    """With four lanes, 32 queries lie side by side: force it in a process of its own."""
    program = (
        "import numpy as np; import importlib.util as u; "
        f"s = u.spec_from_file_location('t', {__file__!r}); m = u.module_from_spec(s); "
        "s.loader.exec_module(m); rng = np.random.default_rng(1); "
        "assert m.byte_lanes.GROUP == 32 and not m.byte_lanes.ROWS_AVAILABLE; "
        "[m.check(*m.make(rng, 900, b, q), 10) for b in (5, 8, 16) for q in (1, 32, 33, 70)]"
    )
    forced = {"SGHASH_LANES": "4", "SGHASH_SHUFFLE": "0", "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **forced}, check=True)
