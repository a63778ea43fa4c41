"""Exact Hamming search beside FAISS, usearch, NumPy and the raw loop, in one run.

    python benchmarks/hamming_scan.py            # the whole table (about five minutes)
    python benchmarks/hamming_scan.py --quick    # small, for a look

Contenders take turns on the same codes with the same number of threads; the best of several
repetitions counts. Read the ratios: absolute rates depend on the machine and its neighbours.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import faiss
import numpy as np
import usearch.index

import sghash
from sghash.kernels import reference
from sghash.kernels.hamming import direct
from sghash.kernels.hamming.search import hamming_neighbors
from sghash.kernels.hamming.staging import words_of

Contender = Callable[[], object]


@dataclass
class Cell:
    """One row of the first table and the ratio to FAISS it must reach."""

    n_bits: int
    k: int
    target: float
    one_at_a_time: bool = False


CELLS = [
    Cell(64, 10, 7),
    Cell(64, 100, 7),
    Cell(64, 1000, 4),
    Cell(128, 100, 4),
    Cell(256, 100, 3),
    Cell(32, 100, 5),
    Cell(64, 10, 2, one_at_a_time=True),
]


def random_codes(rng: np.random.Generator, n: int, n_bits: int) -> np.ndarray:
    return rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)


def clustered_codes(rng: np.random.Generator, n: int, n_bits: int) -> np.ndarray:
    """Codes like those of real data: a thousand centres, one bit in eight flipped."""
    centres = random_codes(np.random.default_rng(1), 1000, n_bits)
    codes = centres[rng.integers(0, len(centres), n)]
    for start in range(0, n, 1 << 16):
        block = codes[start : start + (1 << 16)]
        flips = rng.random((len(block), n_bits), dtype=np.float32) < 0.125
        block ^= np.packbits(flips, axis=1)
    return codes


KINDS = {"random": random_codes, "clustered": clustered_codes}


def best_of(contenders: dict[str, Contender], repetitions: int) -> dict[str, float]:
    """Shortest time of each; they take turns, so that a busy moment hits all."""
    for run in contenders.values():
        run()
    best = dict.fromkeys(contenders, np.inf)
    for _ in range(repetitions):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - started)
    return best


def contenders_of(codes: np.ndarray, queries: np.ndarray, cell: Cell) -> dict[str, Contender]:
    index = faiss.IndexBinaryFlat(cell.n_bits)
    index.add(codes)
    limits = np.full(len(queries), cell.n_bits // 8, dtype=np.int64)
    words, width = words_of(queries), (0,) * codes.shape[1]

    def ours(batch: np.ndarray) -> object:
        return hamming_neighbors(codes, batch, cell.k, n_bits=cell.n_bits, threads=1)

    if cell.one_at_a_time:
        rows = [queries[i : i + 1] for i in range(len(queries))]
        return {
            "ours": lambda: [ours(row) for row in rows],
            "faiss": lambda: [index.search(row, cell.k) for row in rows],
        }
    return {
        "ours": lambda: ours(queries),
        "faiss": lambda: index.search(queries, cell.k),
        "raw": lambda: direct.raw_scan(width, codes, words, limits),
    }


def check_equal(codes: np.ndarray, queries: np.ndarray, cell: Cell) -> None:
    """The answers must be the same before speed means anything."""
    index = faiss.IndexBinaryFlat(cell.n_bits)
    index.add(codes)
    expected, _ = index.search(queries[:20], cell.k)
    found = hamming_neighbors(codes, queries[:20], cell.k, n_bits=cell.n_bits, threads=1)
    if not np.array_equal(expected, found.distances):
        sys.exit("distances differ from FAISS: the benchmark is void")


def main_table(n: int, n_queries: int, repetitions: int) -> list[str]:
    missed = []
    print(f"\n{n:,} codes, {n_queries} queries, one thread; 10^9 comparisons per second")
    print(f"{'codes':<21}{'bits':>5}{'k':>6}{'ours':>8}{'FAISS':>8}{'raw':>8}"
          f"{'x FAISS':>9}{'target':>8}{'of raw':>8}")  # fmt: skip
    for kind, make in KINDS.items():
        for cell in CELLS:
            rng = np.random.default_rng(cell.n_bits)
            codes, queries = make(rng, n, cell.n_bits), make(rng, n_queries, cell.n_bits)
            check_equal(codes, queries, cell)
            used = queries[:40] if cell.one_at_a_time else queries
            best = best_of(contenders_of(codes, used, cell), repetitions)
            work = n * len(used) / 1e9
            ratio = best["faiss"] / best["ours"]
            raw = f"{work / best['raw']:8.2f}" if "raw" in best else " " * 8
            share = f"{best['raw'] / best['ours']:8.0%}" if "raw" in best else " " * 8
            label = f"{kind}{' one by one' if cell.one_at_a_time else ''}"
            rates = f"{work / best['ours']:8.2f}{work / best['faiss']:8.2f}{raw}"
            print(f"{label:<21}{cell.n_bits:>5}{cell.k:>6}{rates}"
                  f"{ratio:8.1f}x{cell.target:7.0f}x{share}")  # fmt: skip
            if ratio < cell.target:
                missed.append(f"{label} {cell.n_bits} bits k={cell.k}: {ratio:.1f}x")
            if cell.n_bits == 64 and cell.k == 10 and best.get("raw", np.inf) < 0.6 * best["ours"]:
                missed.append(f"{label}: {best['raw'] / best['ours']:.0%} of the raw loop")
    return missed


def other_rivals(n: int) -> None:
    """Usearch and NumPy are slow: fewer queries, the same unit."""
    rng = np.random.default_rng(3)
    codes, queries = random_codes(rng, n, 64), random_codes(rng, 8, 64)
    contenders: dict[str, Contender] = {
        "ours": lambda: hamming_neighbors(codes, queries, 10, n_bits=64, threads=1),
        "usearch exact": lambda: usearch.index.search(
            codes, queries, 10, metric="hamming", exact=True, threads=1
        ),
        "NumPy": lambda: reference.hamming_neighbors(codes, queries, 10, n_bits=64),
    }
    best = best_of(contenders, 2)
    print("\n64 bits, k=10, 8 queries; 10^9 comparisons per second")
    for name, seconds in best.items():
        print(f"  {name:<16}{n * len(queries) / seconds / 1e9:8.3f}")


def threads_and_adversaries(n: int, n_queries: int, repetitions: int) -> list[str]:
    missed = []
    rng = np.random.default_rng(4)
    codes, queries = random_codes(rng, n, 64), random_codes(rng, n_queries, 64)

    def search(base: np.ndarray, batch: np.ndarray, threads: int) -> Contender:
        return lambda: hamming_neighbors(base, batch, 10, n_bits=64, threads=threads)

    best = best_of({"1": search(codes, queries, 1), "2": search(codes, queries, 2)}, repetitions)
    gain = best["1"] / best["2"]
    print(f"\ntwo threads: {gain:.2f} x one (target 1.7)")
    if gain < 1.7:
        missed.append(f"two threads: {gain:.2f}x")
    # Distances that fall along the scan: every row beats all before it.
    distance = 64 - (np.arange(n) * 65 // n)
    falling = np.packbits(np.arange(64) < distance[:, None], axis=1)
    zero_queries = np.zeros_like(queries)
    equal = np.repeat(codes[:1], n, axis=0)
    best = best_of(
        {
            "random": search(codes, queries, 1),
            "all codes equal": search(equal, queries, 1),
            "distances falling": search(falling, zero_queries, 1),
        },
        repetitions,
    )
    for name in ("all codes equal", "distances falling"):
        slower = best[name] / best["random"]
        print(f"{name}: {slower:.2f} x the time of random codes (at most 4)")
        if slower > 4:
            missed.append(f"{name}: {slower:.1f}x")
    return missed


def memory_and_import(n: int) -> list[str]:
    missed = []
    index = sghash.HammingIndex(n_bits=64)
    rng = np.random.default_rng(5)
    for _ in range(20):
        index.add(random_codes(rng, n // 20, 64))
    share = index.nbytes / (n * 8)
    explicit = sghash.HammingIndex(n_bits=64)
    explicit.add(random_codes(rng, n, 64), ids=rng.permutation(n) * 3)
    extra = (explicit.nbytes - n * 8) / n
    print(f"\nmemory at rest: {share:.3f} x the packed codes (at most 1.15); "
          f"explicit ids {extra:.1f} bytes each, looked up by bisection")  # fmt: skip
    command = [sys.executable, "-X", "importtime", "-c", "import sghash"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    seconds = int(lines[-1].split("|")[1]) / 1e6
    loaded = [
        name for name in ("numba", "sklearn", "faiss") if any(f"| {name}" in li for li in lines)
    ]
    print(f"import sghash: {seconds:.3f} s (at most 0.3), loads {loaded or 'no heavy package'}")
    if share > 1.15 or seconds > 0.3 or loaded:
        missed.append("memory or import")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100,000 codes, two repetitions")
    options = parser.parse_args()
    n, n_queries, repetitions = (100_000, 100, 2) if options.quick else (1_000_000, 400, 5)
    faiss.omp_set_num_threads(1)
    rival = f"FAISS {faiss.__version__} ({faiss.get_compile_options().strip()})"
    print(f"sghash {sghash.__version__}, {rival}, NumPy {np.__version__}, {direct.LANES} lanes")
    missed = main_table(n, n_queries, repetitions)
    other_rivals(n)
    missed += threads_and_adversaries(n, n_queries, repetitions)
    missed += memory_and_import(n)
    print("\n" + ("every target met" if not missed else "missed: " + "; ".join(missed)))


if __name__ == "__main__":
    main()
