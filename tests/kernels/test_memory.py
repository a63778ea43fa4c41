"""Compiled code reaches memory through arrays alone, so that no array is freed while it is read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from sghash import kernels
from sghash.kernels.lanes import BOUNDARY, addresses, load, to_boundary, word_at

SOURCES = sorted(Path(kernels.__file__).parent.rglob("*.py"))
# Whatever turns an array into a number that outlives it, or a number into memory.
LEAKS = re.compile(r"\.ctypes|__array_interface__|\bcarray\b|\bfarray\b|ptrtoint|inttoptr")


def test_one_helper_alone_takes_addresses() -> None:
    assert len(SOURCES) > 20
    found = [
        (source.name, match) for source in SOURCES for match in LEAKS.findall(source.read_text())
    ]
    allowed = [("lanes.py", "inttoptr"), ("lanes.py", "ptrtoint")]
    assert found == allowed, "pass the array and an offset to an intrinsic instead (see lanes.py)"


def test_an_intrinsic_cannot_read_at_a_number() -> None:
    @intrinsic
    def wrong(typing_context: Any, address: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return load(builder, arguments[0])

        return types.int64(types.int64), emit

    with pytest.raises((NumbaError, AttributeError), match="plus"):
        njit(lambda number: wrong(number))(1 << 20)


def test_an_array_without_offset_is_refused_when_compiling() -> None:
    @intrinsic
    def wrong(typing_context: Any, array: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return addresses(context, builder, signature, arguments)

        return types.int64(array), emit

    with pytest.raises((NumbaError, TypeError), match="offset in bytes"):
        njit(lambda array: wrong(array))(np.zeros(4))


@njit
def word(array: Any, offset: int) -> Any:
    return word_at(array, offset)


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.float32, np.uint64, np.bool_])
@pytest.mark.parametrize("writable", [True, False])
def test_words_of_any_dtype_are_read_where_they_lie(kind: Any, writable: bool) -> None:
    array = np.arange(64).astype(kind)
    array.flags.writeable = writable
    raw = array.view(np.uint8)
    for offset in (0, 1, 7, raw.size - 8):
        assert word(array, offset) == raw[offset : offset + 8].copy().view(np.uint64)[0]


def test_strided_memory_is_refused_when_compiling() -> None:
    with pytest.raises((NumbaError, TypeError), match="contiguous"):
        word(np.zeros((8, 8), dtype=np.uint8)[:, ::2], 0)


def test_the_next_boundary_is_found_from_anywhere() -> None:
    array = np.zeros(4 * BOUNDARY, dtype=np.uint8)
    to = njit(lambda values, offset: to_boundary(values, offset))
    for offset in range(2 * BOUNDARY):
        gap = to(array, offset)
        assert 0 <= gap < BOUNDARY
        assert (array.ctypes.data + offset + gap) % BOUNDARY == 0


AT_THE_EDGE = """
import ctypes, mmap
import numpy as np
from sghash.kernels.hamming.search import hamming_neighbors
from sghash.kernels.tables import byte_lanes, bytes as by_bytes
from sghash.kernels.tables.rescoring import nibble_tables
from sghash.kernels.tables.search import asymmetric_neighbors

page = mmap.PAGESIZE
memory = mmap.mmap(-1, 2 * page)
held = np.frombuffer(memory, dtype=np.uint8)
protect = ctypes.CDLL(None, use_errno=True).mprotect
protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
assert protect(held.ctypes.data + page, page, 0) == 0
rng = np.random.default_rng(0)
held[:page] = rng.integers(0, 256, page)
ways = {byte_lanes.ROWS_AVAILABLE, False}
for n_bytes in (1, 3, 5, 8, 9, 16, 19):
    for n in (1, 64, 128, 130):
        codes = held[page - n * n_bytes : page].reshape(n, n_bytes)
        for n_queries in (1, 9, 70):
            queries = rng.integers(0, 256, (n_queries, n_bytes), dtype=np.uint8)
            hamming_neighbors(codes, queries, 3, n_bits=8 * n_bytes)
            slopes = rng.standard_normal((n_queries, 8 * n_bytes))
            asymmetric_neighbors(codes, nibble_tables(slopes, n_bytes), 3)
            tables = rng.random((n_queries, n_bytes, 256), dtype=np.float32)
            for byte_lanes.ROWS_AVAILABLE in ways:
                by_bytes.byte_table_neighbors(codes, tables, 3)
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="takes a page away by a call of Linux")
def test_no_search_reads_beyond_the_last_code() -> None:
    """Codes end where a page begins that nobody may read: one byte further ends the process."""
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_EDGE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2000:]
