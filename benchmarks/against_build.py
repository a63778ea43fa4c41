"""Searching, encoding and fitting of this checkout beside another one, processes taking turns.

    python benchmarks/against_build.py /path/to/other/src [--rounds 5]

For each case the quickest process's quickest quarter, and new / old: what a machine does beside it
only ever makes a process slower. Processes differ in where their arrays lie in memory, by far more
than a few percent for a single query: look at the spread before you believe a ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[1] / "src"
CASES = [(bits, n, k) for bits in (64, 128, 256) for n in (400, 1) for k in (10, 100)]


def measure() -> dict[str, float]:
    from sghash.kernels import hamming_neighbors

    rng, seconds = np.random.default_rng(0), {}
    for bits, n_queries, k in CASES:
        codes = rng.integers(0, 256, (400_000, bits // 8), dtype=np.uint8)
        queries = rng.integers(0, 256, (n_queries, bits // 8), dtype=np.uint8)
        times = []
        for _ in range(6 if n_queries > 1 else 100):
            start = time.perf_counter()
            hamming_neighbors(codes, queries, k, n_bits=bits, threads=1)
            times.append(time.perf_counter() - start)
        seconds[f"{bits} bits, {n_queries} queries, k = {k}"] = float(np.quantile(times[1:], 0.25))
    return seconds


def measure_models() -> dict[str, float]:
    """Fitting and encoding, and collections searched in every way; processor time of one thread."""
    import sghash

    rng, seconds = np.random.default_rng(0), {}
    vectors = rng.standard_normal((60_000, 128)).astype(np.float32)
    queries = rng.standard_normal((64, 128)).astype(np.float32)

    def timed(name: str, call: Callable[[], object], times: int) -> None:
        found = []
        for _ in range(times + 1):
            start = time.process_time()
            call()
            found.append(time.process_time() - start)
        seconds[name] = float(np.quantile(found[1:], 0.25))

    model = sghash.SGH(n_bits=64, n_steps=200, random_state=0)
    timed("fit, 200 steps", lambda: model.fit(vectors), 3)
    timed("encode 60,000 rows", lambda: model.encode(vectors), 8)
    with (
        tempfile.TemporaryDirectory() as folder,
        sghash.Collection.create(Path(folder) / "c", model, keep_vectors="float16") as collection,
    ):
        collection.add(vectors)
        collection.compact()
        for rerank, shortlist in (("none", None), ("decoder", None), ("decoder", "all"),
                                  ("vectors", None)):  # fmt: skip
            for some, times in ((queries, 8), (queries[:1], 60)):
                timed(
                    f"collection, {rerank} {shortlist or ''}, {len(some)} queries",
                    lambda some=some, rerank=rerank, shortlist=shortlist: collection.search(
                        some, rerank=rerank, shortlist=shortlist, threads=1
                    ),
                    times,
                )
    return seconds


def run(source: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure"]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, nargs="?", help="the `src` folder of the other build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", action="store_true", help="measure this process only")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure() | measure_models()))
        return
    if options.other is None or not (options.other / "sghash").is_dir():
        parser.error("give the src folder of another checkout, which holds sghash/")
    runs: dict[Path, list[dict[str, float]]] = {options.other.resolve(): [], HERE: []}
    for number in range(options.rounds):
        for source in list(runs)[:: 1 if number % 2 else -1]:
            runs[source].append(run(source))
    ratios = []
    for case in runs[HERE][0]:
        old, new = ([found[case] for found in each] for each in runs.values())
        ratios.append(float(np.min(new) / np.min(old)))
        spread = max(max(side) / min(side) for side in (old, new))
        print(f"{case:32s} old {1e3 * np.min(old):8.3f} ms  new {1e3 * np.min(new):8.3f} ms  "
              f"ratio {ratios[-1]:.2f}  spread {spread:.2f}")  # fmt: skip
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.3f}")


if __name__ == "__main__":
    main()
