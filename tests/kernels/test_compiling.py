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


def run(environment):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
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
