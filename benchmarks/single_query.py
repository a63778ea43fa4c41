"""Microseconds of one query over few codes: the whole call, the kernel alone, FAISS beside them.

    python benchmarks/single_query.py

What a call adds to its kernel (checks, buffers, the answer) is the same for every size. Times are
those of the processor, the best of several rounds that take turns, one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
from measuring.verdicts import at_most, line

import sghash
from sghash.evaluation import format_table
from sghash.kernels.hamming import single
from sghash.kernels.hamming.staging import words_of

#: Rows and neighbours -> microseconds that a search of 128 bits may take.
TARGETS = {(4_000, 200): 30.0, (16_000, 200): 45.0}
CASES = [*TARGETS, (1_000, 10), (4_000, 10), (16_000, 10), (32_000, 10), (32_000, 200)]
BEYOND = 25.0
N_BITS = 128
ROUNDS, CALLS = 9, 300


def microseconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The best round of each, rounds taking turns."""
    best = dict.fromkeys(calls, np.inf)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            started = time.process_time()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], (time.process_time() - started) / CALLS * 1e6)
    return best


def measure(n: int, k: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (n, N_BITS // 8), dtype=np.uint8)
    query = rng.integers(0, 256, (1, N_BITS // 8), dtype=np.uint8)
    index, rival = sghash.HammingIndex(N_BITS), faiss.IndexBinaryFlat(N_BITS)
    index.add(codes)
    rival.add(codes)
    words, query_words = codes.view(np.uint64), words_of(query)[0]
    distances, rows = np.empty(k, np.int32), np.empty(k, np.int64)
    nothing = np.empty(0, np.bool_)
    return microseconds({
        "search": lambda: index.search(query, k, threads=1),
        "kernel": lambda: single.count_nearest(
            words, query_words, k, N_BITS, nothing, distances, rows
        ),
        "FAISS": lambda: rival.search(query, k),
    })  # fmt: skip


def main() -> None:
    faiss.omp_set_num_threads(1)
    lines, verdicts = [], []
    for n, k in CASES:
        found = measure(n, k)
        beyond = found["search"] - found["kernel"]
        lines.append([f"{n:,}", str(k), *(f"{found[name]:.1f}" for name in found), f"{beyond:.1f}"])
        if (n, k) in TARGETS:
            name = f"microseconds over {n:,} codes, k = {k}"
            verdicts.append(line(name, found["search"], at_most(TARGETS[n, k])))
        verdicts.append(line(f"beyond the kernel, {n:,} codes, k = {k}", beyond, at_most(BEYOND)))
    print(f"one query over codes of {N_BITS} bits, microseconds, one thread")
    heads = ["codes", "k", "search", "kernel alone", "FAISS IndexBinaryFlat", "beyond the kernel"]
    print(format_table(heads, lines))
    print("\n".join(verdicts))


if __name__ == "__main__":
    main()
