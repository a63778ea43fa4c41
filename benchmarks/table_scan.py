"""Scans by tables beside FAISS: 256 numbers per byte, sixteen per half byte, one per bit.

    OMP_NUM_THREADS=1 python benchmarks/table_scan.py            # about a minute and a half
    OMP_NUM_THREADS=1 python benchmarks/table_scan.py --quick    # small, for a look

One thread, equal bytes per code. Contenders take turns, medians of CPU seconds count, and making
the tables counts too. `bytes` is our scan and `PQ 8` FAISS `IndexPQ`, of the same codes and
centroids; `PQ 4` is FAISS `IndexPQFastScan`, whose codes are coarser and whose answers are rounded;
`bits` is our scan of SGH's codes. Read the ratios: rates depend on the machine and its neighbours.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

import sghash
from sghash.kernels.tables.byte_lanes import ROWS_AVAILABLE
from sghash.kernels.tables.bytes import byte_table_neighbors
from sghash.kernels.tables.rescoring import nibble_tables
from sghash.kernels.tables.search import asymmetric_neighbors
from sghash.neighbors import Neighbors

# FAISS looks at one query after the other, so so many of a batch tell its rate.
FAISS_QUERIES = 64
# What `bytes` must reach, as a multiple of the rate of FAISS: for batches, and for one query.
TARGET, TARGET_ONE = 1.5, 1.0

Floats = NDArray[np.float32]
#: What a contender does for a batch of queries and a k.
Contender = Callable[[Floats, int], object]


class Cell(NamedTuple):
    """One row of the table."""

    n_bytes: int
    n_queries: int
    k: int


CELLS = [Cell(*cell) for cell in product((8, 16), (1, 64, 1000), (10, 100))]


class Bench:
    """Codes of all contenders, from the same vectors."""

    def __init__(self, n: int, n_bytes: int) -> None:
        rng = np.random.default_rng(n_bytes)
        width = 8 * n_bytes
        # Clusters, and variances that fall: nothing as easy as noise, nothing as real as data.
        spread = np.linspace(2, 0.3, width, dtype=np.float32)
        centres = rng.standard_normal((200, width), dtype=np.float32) * spread
        rows = rng.integers(0, len(centres), n + 1000)
        vectors = centres[rows] + rng.standard_normal((n + 1000, width), dtype=np.float32) * spread
        self.queries, base = vectors[:1000], vectors[1000:]
        self.index = faiss.IndexPQ(width, n_bytes, 8)
        self.fast = faiss.IndexPQFastScan(width, 2 * n_bytes, 4)
        for index in (self.index, self.fast):
            index.train(base[:20_000])
            index.add(base)
        self.codes = faiss.vector_to_array(self.index.codes).reshape(n, n_bytes)
        self.bits = rng.integers(0, 256, (n, n_bytes), dtype=np.uint8)
        self.slopes = rng.standard_normal((1000, width))

    def tables(self, queries: Floats) -> Floats:
        """What each byte adds to the distance (n_queries, n_bytes, 256), as FAISS computes it."""
        out = np.empty((len(queries), self.codes.shape[1], 256), dtype=np.float32)
        where = faiss.swig_ptr(np.ascontiguousarray(queries)), faiss.swig_ptr(out)
        self.index.pq.compute_distance_tables(len(queries), *where)
        return out

    def by_bytes(self, queries: Floats, k: int) -> Neighbors:
        return byte_table_neighbors(self.codes, self.tables(queries), k)

    def by_bits(self, queries: Floats, k: int) -> Neighbors:
        tables = nibble_tables(self.slopes[: len(queries)], self.bits.shape[1])
        return asymmetric_neighbors(self.bits, tables, k)

    def contenders(self) -> dict[str, tuple[Contender, int]]:
        """By name: what is timed, and for how many queries at most."""
        return {
            "bytes": (self.by_bytes, 1000),
            "PQ 8": (self.index.search, FAISS_QUERIES),
            "PQ 4": (self.fast.search, 1000),
            "bits": (self.by_bits, 1000),
        }


def check_equal(bench: Bench, k: int) -> float:
    """Share of neighbours equal to FAISS's; its sums are rounded in another order."""
    expected, ids = bench.index.search(bench.queries[:20], k)
    found = bench.by_bytes(bench.queries[:20], k)
    np.testing.assert_allclose(found.distances, expected, rtol=1e-5)
    same = float((found.ids == ids).mean())
    if same < 0.99:
        sys.exit(f"only {same:.1%} of the neighbours are those of FAISS: the benchmark is void")
    return same


def rates(bench: Bench, cell: Cell, repetitions: int) -> dict[str, list[float]]:
    """Codes x queries per CPU second of each contender, once per repetition, in turns."""
    found: dict[str, list[float]] = {name: [] for name in bench.contenders()}
    for repetition in range(repetitions + 1):
        for name, (search, most) in bench.contenders().items():
            queries = bench.queries[: min(cell.n_queries, most)]
            started = time.process_time()
            search(queries, cell.k)
            seconds = time.process_time() - started
            if repetition:
                found[name].append(len(bench.codes) * len(queries) / seconds / 1e9)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="200,000 codes, three repetitions")
    options = parser.parse_args()
    n, repetitions = (200_000, 3) if options.quick else (1_000_000, 5)
    faiss.omp_set_num_threads(1)
    print(f"sghash {sghash.__version__}, FAISS {faiss.__version__} "
          f"({faiss.get_compile_options().strip()}), rows at once: {ROWS_AVAILABLE}")  # fmt: skip
    print(f"{n:,} codes, one thread; 10^9 codes x queries per CPU second")
    print(f"{'bytes':>5}{'queries':>9}{'k':>5}{'bytes':>9}{'PQ 8':>9}{'PQ 4':>9}{'bits':>9}"
          f"{'x PQ 8':>9}{'target':>8}{'same ids':>10}")  # fmt: skip
    missed, bench = [], None
    for cell in CELLS:
        if bench is None or bench.codes.shape[1] != cell.n_bytes:
            bench = Bench(n, cell.n_bytes)
        same = check_equal(bench, cell.k)
        found = rates(bench, cell, repetitions if cell.n_queries < 1000 else 3)
        ratio = float(np.median(np.divide(found["bytes"], found["PQ 8"])))
        target = TARGET_ONE if cell.n_queries == 1 else TARGET
        columns = "".join(f"{np.median(values):9.3f}" for values in found.values())
        print(f"{cell.n_bytes:>5}{cell.n_queries:>9}{cell.k:>5}{columns}"
              f"{ratio:8.1f}x{target:7.1f}x{same:10.1%}", flush=True)  # fmt: skip
        if ratio < target:
            missed.append(
                f"{cell.n_bytes} bytes, {cell.n_queries} queries, k={cell.k}: {ratio:.1f}x"
            )
    print("every target met" if not missed else "missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
