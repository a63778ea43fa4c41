"""Compiled kernels on other CPUs and where nothing can be cached."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sghash

PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
import numpy as np
from sghash.kernels import kernel, reference, lanes
rng = np.random.default_rng(0)
for n_bits in (64, 200):
    codes, queries = (np.packbits(rng.random((n, n_bits)) < 0.5, axis=1) for n in (900, 9))
    for part in (queries, queries[:2]):
        expected = reference.hamming_neighbors(codes, part, 30, n_bits=n_bits)
        for _ in range(2):
            found = kernel("simd").hamming_neighbors(codes, part, 30, n_bits=n_bits)
        assert (found.ids == expected.ids).all() and (found.distances == expected.distances).all()
from sghash.kernels.tables.bytes import byte_table_neighbors
codes, tables = rng.integers(0, 256, (900, 11), dtype=np.uint8), rng.random((70, 11, 256))
for n_queries in (1, 9, 70):
    part = tables[:n_queries].astype(np.float32)
    expected = reference.byte_table_neighbors(codes, part, 30)
    found = byte_table_neighbors(codes, part, 30)
    assert (found.ids == expected.ids).all() and (found.distances == expected.distances).all()
print("lanes", lanes.LANES)
"""

LISTS_PROGRAM = """
import numpy as np
from sghash.index import HammingIndex, MultiIndex, PartitionedIndex, TableIndex
from sghash.kernels import reference
from sghash.kernels.partitions.block_lanes import BYTES_AVAILABLE, HALVES_AVAILABLE
from sghash.kernels.vectors.stored import HALVES
from sghash.tables import QueryTables
rng = np.random.default_rng(0)
def same(found, right):
    assert all(np.array_equal(a, b) for a, b in zip(found, right, strict=True))
vectors, queries = (rng.integers(-9, 10, (n, 19)).astype(np.float32) for n in (900, 7))
for n_bits in (64, 77):
    codes, asked = (np.packbits(rng.random((n, n_bits)) < 0.5, axis=1) for n in (900, 7))
    flat, multi = HammingIndex(n_bits), MultiIndex(n_bits, n_parts=5)
    lists = PartitionedIndex(codes.shape[1], n_bits=n_bits, n_lists=9, spill=0.2)
    flat.add(codes)
    multi.add(codes)
    lists.add(codes, vectors=vectors)
    right = reference.hamming_neighbors(codes, asked, 30, n_bits=n_bits)
    same(multi.search(asked, 30, way="tables"), right)
    same(lists.search(asked, 30), right)
    near = n_bits // 3
    same(multi.range_search(asked, near, way="tables"), flat.range_search(asked, near))
    pairs = [multi.similarity_join(9, way=way) for way in ("tables", "scan")]
    assert np.array_equal(*pairs)
    kept = vectors.astype(np.float16) if HALVES else vectors
    exact = reference.exact_neighbors(vectors, queries, 10, metric="l2")
    same(lists.search(asked, 10, vectors=queries, kept=kept, shortlist=900), exact)
    some = lists.search(asked, 10, vectors=queries, kept=kept, shortlist=900, probes=4)
    assert (some.distances[:, 0] >= exact.distances[:, 0]).all() and (some.ids >= 0).all()
    gram = np.eye(n_bits)
    for size, own in (((7, n_bits), gram), ((7, codes.shape[1], 256), None)):
        tables = rng.integers(-9, 10, size).astype(np.float32)
        options = {"n_bits": n_bits, "gram": gram} if own is not None else {}
        ours = PartitionedIndex(codes.shape[1], n_lists=9, **options)
        table_index = TableIndex(codes.shape[1], **options)
        ours.add(codes, vectors=vectors)
        table_index.add(codes)
        asked_by = QueryTables(tables, np.zeros(7, np.float32))
        same(ours.search(asked_by, 30), table_index.search(asked_by, 30))
print("shuffles", int(HALVES_AVAILABLE), int(BYTES_AVAILABLE), "halves", int(HALVES))
"""


def run(environment, program=PROGRAM):
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )


# The name of a CPU alone leaves the features of this one switched on.
HASWELL = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt",
}


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for one kind of CPU")
def test_avx2_gives_the_same_answers_and_says_that_it_compiles(tmp_path):
    out = run({**HASWELL, "NUMBA_CACHE_DIR": str(tmp_path)})
    assert out.stdout.split() == ["lanes", "4"]
    assert out.stderr.count("preparing the Hamming search kernel") == 1


@pytest.mark.slow
def test_a_plain_cpu_gives_the_same_answers(tmp_path):
    out = run({"NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path)})
    assert out.stdout.split() == ["lanes", "4"]


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for one kind of CPU")
def test_lists_and_tables_of_keys_give_the_same_answers_by_avx2(tmp_path):
    out = run({**HASWELL, "NUMBA_CACHE_DIR": str(tmp_path)}, LISTS_PROGRAM)
    assert out.stdout.split() == ["shuffles", "1", "0", "halves", "1"]


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{"NUMBA_CPU_NAME": "generic"}, {"SGHASH_SHUFFLE": "0"}])
def test_lists_and_tables_of_keys_give_the_same_answers_plainly(tmp_path, environment):
    out = run({**environment, "NUMBA_CACHE_DIR": str(tmp_path)}, LISTS_PROGRAM)
    assert out.stdout.split()[:3] == ["shuffles", "0", "0"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SGHASH_SHUFFLE": "0", "SGHASH_LANES": "4"}, ["256", "plain", "by", "plain", "plain"]),
        ({"NUMBA_CPU_NAME": "generic"}, ["256", "plain", "by", "plain", "plain"]),
    ],
)
def test_the_ways_that_kernels_go_are_told(environment, expected):
    program = "from sghash.kernels.ways import ways; print(*ways().values(), sep='\\n')"
    first, *others = run(environment, program).stdout.splitlines()
    assert first == f"vectors of {expected[0]} bits"
    assert [line.split()[0] for line in others] == expected[1:]


@pytest.mark.slow
def test_eight_lanes_give_the_same_answers(tmp_path):
    """The width for AVX-512; where registers are narrower, LLVM splits the vectors."""
    out = run({"SGHASH_LANES": "8", "NUMBA_CACHE_DIR": str(tmp_path)})
    assert out.stdout.split() == ["lanes", "8"]


@pytest.mark.slow
def test_a_read_only_installation_works_and_says_so_once(tmp_path):
    """Without any folder for compiled code every process compiles anew, with one warning."""
    source = Path(sghash.__file__).parent
    copy = tmp_path / "lib" / "sghash"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    block = tmp_path / "blocked"
    block.write_text("a file where a folder is wanted")
    out = run(
        {
            "PYTHONPATH": str(copy.parent),
            "NUMBA_CACHE_DIR": str(block / "sub"),
            "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
        }
    )
    assert out.stderr.count("no cache folder is writable") == 1
