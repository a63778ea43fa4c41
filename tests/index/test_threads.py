"""One index, many threads: each call sees one moment of it."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sghash import HammingIndex

N_BITS = 64
SECONDS = 1.0


def code_of(ids):
    """The code that an id has in these tests, whenever it is there."""
    mixed = np.asarray(ids, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed.astype("<u8").view(np.uint8).reshape(-1, 8)


@pytest.fixture
def many_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def change(index, stopped):
    """Every kind of change: within spare room, with more room, between rows, deletion."""
    rng = np.random.default_rng(1)
    known = index.ids
    while not stopped.is_set():
        free = np.setdiff1d(rng.integers(0, 4000, 5), known)
        index.add(code_of(free), ids=free)
        top = int(max(known.max(initial=0), free.max(initial=0))) + 1 + rng.integers(0, 3)
        for i in range(top, top + 8):
            index.add(code_of([i]), ids=[i])
        known = index.ids
        gone = rng.choice(known, min(len(known), 14), replace=False)
        index.delete(np.concatenate([gone, known[known > 6000]]))
        known = index.ids


def search(index, stopped, path):
    """Answers must belong to codes that their ids have, ordered as they should be."""
    queries = code_of(np.arange(3))
    n = 0
    while not stopped.is_set():
        found = index.search(queries, 20, threads=1)
        for query, distances, ids in zip(queries, found.distances, found.ids, strict=True):
            there = ids[ids >= 0]
            expected = np.bitwise_count(code_of(there) ^ query).sum(axis=1)
            np.testing.assert_array_equal(distances[: len(there)], expected)
            assert len(set(there.tolist())) == len(there)
            pairs = list(zip(distances[: len(there)].tolist(), there.tolist(), strict=True))
            assert pairs == sorted(pairs)
        within = index.range_search(queries[:1], 28, threads=1)
        expected = np.bitwise_count(code_of(within.ids) ^ queries[0]).sum(axis=1)
        np.testing.assert_array_equal(within.distances, expected)
        assert len(index) >= 0 and index.codes.shape[1] == 8
        if n % 20 == 0:
            index.save(path)
            saved = HammingIndex.load(path)
            np.testing.assert_array_equal(saved.codes, code_of(saved.ids))
        n += 1
    return n


def test_searches_while_another_thread_changes_the_index(tmp_path, many_switches):
    index = HammingIndex(n_bits=N_BITS)
    index.add(code_of(np.arange(0, 4000, 2)), ids=np.arange(0, 4000, 2))
    index.search(code_of([1]), 3)
    stopped = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(search, index, stopped, tmp_path / str(i)) for i in range(2)]
        writer = pool.submit(change, index, stopped)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and not any(f.done() for f in (*readers, writer)):
            time.sleep(0.01)
        stopped.set()
        assert all(reader.result() > 0 for reader in readers)
        writer.result()
    np.testing.assert_array_equal(index.codes, code_of(index.ids))


def test_threads_that_add_get_ids_of_their_own(many_switches):
    index = HammingIndex(n_bits=N_BITS)

    def add(worker):
        rows = np.full((3, 8), worker, dtype=np.uint8)
        return np.concatenate([index.add(rows) for _ in range(100)])

    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(add, range(4)))
    assert sorted(np.concatenate(given).tolist()) == list(range(1200))
    for worker, ids in enumerate(given):
        assert (index.codes_of(ids) == worker).all()
