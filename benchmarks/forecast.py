"""What `sghash plan` says beside what happens: bytes, seconds of a build, microseconds of a query.

    SGHASH_DATA=... python benchmarks/forecast.py [--rows 20000 60000 200000 500000]
    python benchmarks/forecast.py --quick

Rows of SIFT (128 numbers) and of MiniLM (384) are built into collections of int8 vectors, and where
FAISS is installed into `HNSWFlat`, each on one thread; queries come one at a time. The constants of
`sghash/collection/planning/forecast.py` are those of which this prints ratios near one: another
machine multiplies all of them by about the same factor.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from sghash import Collection
from sghash.collection.planning.forecast import forecast
from sghash.experiments.sets import QUICK_DIGITS, SIFT, TEXTS, load

ROWS, TIMED, K = (20_000, 60_000, 200_000, 500_000), 200, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    print(
        f"{'set':8s} {'rows':>8s}  {'what':18s} {'measured':>12s} {'forecast':>12s} {'ratio':>6s}"
    )
    sets = {"digits": QUICK_DIGITS} if options.quick else {"SIFT": SIFT, "MiniLM": TEXTS}
    for name, which in sets.items():
        loaded = load(which)
        base = np.asarray(loaded.base, np.float32)
        queries = np.asarray(loaded.queries[:TIMED], np.float32)
        for n in [len(base)] if options.quick else options.rows:
            if n <= 1.1 * len(base):
                compare(name, base[:n], queries)


def compare(name: str, base: Any, queries: Any) -> None:
    """One size of one set: our own lines, then the graph's."""
    n, width = base.shape
    said = {line.name: line for line in forecast(n, width, 0.95)}
    line = said["sghash, int8 vectors"]
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        with Collection.build(Path(folder) / "c", base, keep_vectors="int8") as collection:
            built = time.process_time() - started
            per_row = collection.stats()["bytes_per_row"]
            spent = median_of(lambda q: collection.search(q, K, threads=1), queries)
    tell(name, n, "bytes", per_row * n, line.memory_bytes)
    tell(name, n, "build seconds", built, 60 * line.build_minutes)
    tell(name, n, "microseconds", spent, 1000 * line.milliseconds)
    try:
        import faiss
    except ImportError:
        return
    line = said["HNSW over float32"]
    faiss.omp_set_num_threads(1)
    graph = faiss.IndexHNSWFlat(width, 32)
    graph.hnsw.efConstruction = 100
    started = time.process_time()
    graph.add(base)
    built = time.process_time() - started
    graph.hnsw.efSearch = 64
    spent = median_of(lambda q: graph.search(q, K), queries)
    tell(name, n, "HNSW build seconds", built, 60 * line.build_minutes)
    tell(name, n, "HNSW microseconds", spent, 1000 * line.milliseconds)
    flat = faiss.IndexFlatL2(width)
    flat.add(base)
    spent = median_of(lambda q: flat.search(q, K), queries[:20])
    scan = 1000 * said["float32, every row compared"].milliseconds
    tell(name, n, "scan microseconds", spent, scan)


def median_of(search: Any, queries: Any) -> float:
    """Microseconds of one query, the median."""
    search(queries[:1])
    times = []
    for place in range(len(queries)):
        started = time.perf_counter()
        search(queries[place : place + 1])
        times.append(time.perf_counter() - started)
    return float(np.median(times)) * 1e6


def tell(name: str, n: int, what: str, measured: float, said: float) -> None:
    """One line."""
    print(
        f"{name:8s} {n:8d}  {what:18s} {measured:12.1f} {said:12.1f} {measured / said:6.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
