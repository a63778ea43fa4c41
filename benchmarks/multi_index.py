"""Exact search through tables of keys beside scans: speed, memory, and how they grow with rows.

    python benchmarks/multi_index.py                   # 1 and 10 million codes of a stream
    python benchmarks/multi_index.py --large           # 100 million as well: 5 GB of memory
    python benchmarks/multi_index.py --quick           # 200,000 and 1 million, does it run?

Codes of 64 bits by SGH of SIFT photos, perturbed as in `sghash reproduce`; queries are photos that
nobody learned from. One thread, processor time, rounds that take turns; each figure is the best of
its rounds. Every answer is compared with the scan's. An exponent is the slope of log time over log
rows between the smallest and the largest: 1 is linear. Codes stay in build/multi-index: a later run
reads them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
from measuring.verdicts import at_least, line

import sghash
from sghash.evaluation import format_table
from sghash.experiments.streams import PerturbedStream
from sghash.index import HammingIndex, MultiIndex

N_BITS, K = 64, 10
FOLDER = Path("build/multi-index")
BLOCK_ROWS = 100_000
ROWS, QUICK_ROWS, LARGE_ROWS = [10**6, 10**7], [200_000, 10**6], 10**8
RADII = (0, 2, 4, 6)
JOIN_ROWS, JOIN_RADII = 10**6, (0, 2)
#: Times the scan of one query at 100 million codes.
TARGET = 5.0
ROUNDS, N_QUERIES, FEW = 3, 200, 10


class Measured(NamedTuple):
    """Microseconds by what was done, seconds of building, bytes per code."""

    micros: dict[str, float]
    seconds: float
    n_bytes: float


def stream_codes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The first n codes of the stream, made once, and codes of queries."""
    data = sghash.load_dataset("sift-photos", fetch=False)
    folder, path = FOLDER / "model", FOLDER / "codes.bin"
    if not folder.exists():
        model = sghash.SGH(N_BITS, random_state=0).fit(np.asarray(data.base, dtype=np.float32))
        model.save(folder)
    model = sghash.load_model(folder)
    row_bytes = N_BITS // 8
    done = path.stat().st_size // (row_bytes * BLOCK_ROWS) if path.exists() else 0
    with open(path, "r+b" if path.exists() else "w+b") as file:
        file.seek(done * row_bytes * BLOCK_ROWS)
        stream = PerturbedStream(np.asarray(data.base), n, BLOCK_ROWS)
        for _, rows in stream.blocks(done):
            file.write(model.encode(rows).tobytes())
    codes = np.fromfile(path, dtype=np.uint8, count=n * row_bytes).reshape(n, row_bytes)
    return codes, model.encode(np.asarray(data.queries, dtype=np.float32)[:N_QUERIES])


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    found = call()
    return time.process_time() - started, found


def one_by_one(search: Callable[..., Any], queries: np.ndarray) -> Callable[[], Any]:
    return lambda: [search(query[None]) for query in queries]


def best_rounds(calls: dict[str, tuple[int, Callable[[], Any]]]) -> dict[str, float]:
    """Microseconds of a query by name, the best round of each; rounds take turns."""
    best = dict.fromkeys(calls, np.inf)
    for number in range(ROUNDS + 1):
        for name, (n_queries, call) in calls.items():
            seconds, _ = timed(call)
            if number:  # the first one compiles, and wakes the memory
                best[name] = min(best[name], seconds / n_queries * 1e6)
    return best


def measure(n: int) -> Measured:
    codes, queries = stream_codes(n)
    flat, multi = HammingIndex(N_BITS), MultiIndex(N_BITS)
    rival = faiss.IndexBinaryFlat(N_BITS)
    flat.add(codes)
    multi.add(codes)
    rival.add(codes)
    MultiIndex(N_BITS).similarity_join(1)  # compiles
    seconds, _ = timed(multi.build)
    few = queries[:FEW]
    calls: dict[str, tuple[int, Callable[[], Any]]] = {
        "scan, one query": (FEW, one_by_one(lambda q: flat.search(q, K, threads=1), few)),
        "FAISS IndexBinaryFlat, one query": (FEW, one_by_one(lambda q: rival.search(q, K), few)),
        "MultiIndex, one query": (
            N_QUERIES, one_by_one(lambda q: multi.search(q, K, threads=1), queries)
        ),
        "scan, all queries": (N_QUERIES, lambda: flat.search(queries, K, threads=1)),
        "MultiIndex, all queries": (N_QUERIES, lambda: multi.search(queries, K, threads=1)),
    }  # fmt: skip
    for radius in RADII:
        calls[f"scan, radius {radius}"] = (
            FEW, one_by_one(lambda q, r=radius: flat.range_search(q, r, threads=1), few)
        )  # fmt: skip
        calls[f"MultiIndex, radius {radius}"] = (
            N_QUERIES,
            one_by_one(lambda q, r=radius: multi.range_search(q, r, threads=1), queries),
        )
    check(flat, multi, queries)
    found = best_rounds(calls)
    explained = multi.explain(queries[0], K)
    print(f"\n{n:,} codes; the first query:\n{explained}", flush=True)
    return Measured(found, seconds, multi.nbytes / n)


def check(flat: HammingIndex, multi: MultiIndex, queries: np.ndarray) -> None:
    """Both answer the same, ties included, or the figures mean nothing."""
    for got, right in zip(multi.search(queries, K), flat.search(queries, K), strict=True):
        np.testing.assert_array_equal(got, right)
    for radius in RADII:
        found, right = (index.range_search(queries, radius) for index in (multi, flat))
        np.testing.assert_array_equal(found.ids, right.ids)


def join(n: int) -> None:
    """All pairs of n codes, through tables and by scans of some of them."""
    codes, _ = stream_codes(n)
    index = MultiIndex(N_BITS)
    index.add(codes)
    index.build()
    rows, some, flat = [], codes[:2000], HammingIndex(N_BITS)
    flat.add(codes)
    for radius in JOIN_RADII:
        index.similarity_join(radius, threads=1)
        seconds, pairs = timed(lambda r=radius: index.similarity_join(r, threads=1))
        scan, _ = timed(lambda r=radius: flat.range_search(some, r, threads=1))
        scan *= n / len(some) / 2  # a pair is looked for once
        rows.append([str(radius), f"{len(pairs):,}", f"{seconds:.1f}", f"{scan:.0f}",
                     f"{scan / seconds:.0f}"])  # fmt: skip
    print(f"\nall pairs of {n:,} codes, seconds (the scan's from 2,000 rows)")
    print(format_table(["radius", "pairs", "MultiIndex", "scan", "times"], rows))


def report(sizes: list[int], found: list[Measured]) -> None:
    names = list(found[0].micros)
    growth = np.log(sizes[-1] / sizes[0]) if len(sizes) > 1 else np.nan
    rows = []
    for name in names:
        times = [measured.micros[name] for measured in found]
        slope = np.log(times[-1] / times[0]) / growth
        rows.append([name, *(f"{value:,.0f}" for value in times), f"{slope:.2f}"])
    rows.append(["seconds to build", *(f"{measured.seconds:.1f}" for measured in found), ""])
    rows.append(["bytes per code, all", *(f"{measured.n_bytes:.1f}" for measured in found), ""])
    print(f"\n{N_BITS} bits, k = {K}, microseconds of a query, one thread")
    print(format_table(["codes", *(f"{n:,}" for n in sizes), "exponent"], rows))
    for n, (micros, _, _) in zip(sizes, found, strict=True):
        factor = micros["scan, one query"] / micros["MultiIndex, one query"]
        name = f"times our scan of one query, {n:,} codes"
        print(
            line(name, factor, at_least(TARGET)) if n == LARGE_ROWS else f"{name:<58} {factor:8.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--large", action="store_true", help="100 million codes as well")
    parser.add_argument("--quick", action="store_true", help="fewer codes: does it run?")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    sizes = (QUICK_ROWS if options.quick else ROWS) + [LARGE_ROWS] * options.large
    found = [measure(n) for n in sizes]
    report(sizes, found)
    join(QUICK_ROWS[0] if options.quick else JOIN_ROWS)


if __name__ == "__main__":
    main()
