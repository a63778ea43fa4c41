"""Codes searched by tables, beside FAISS: time to learn, vectors encoded per second, recall.

    SGHASH_DATA=... python benchmarks/quantizers.py                 # MiniLM, 8, 16 and 32 bytes
    ... quantizers.py --sets SIFT GloVe MNIST --bytes 8 --rows 100000
    ... quantizers.py --validation   # queries are rows held out of the base: for choices
    ... quantizers.py --quick        # built-in data, seconds: does it run?

One core, one thread. Times are processor seconds after a small fit that compiles what is needed;
encoding is the fastest of three, for neighbours on the machine slow it down and nothing speeds it
up. `products` is the rate of plain float32 products in the same minute, in 10⁹ operations a second:
where it is low, the machine was busy and the times are too long. Means over seeds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import faiss
import numpy as np
from measuring.fits import on_threads
from measuring.splits import QUICK_SETS, SETS, Split, split_of, truth_of
from measuring.verdicts import Target, at_least, at_most, line

from sghash.evaluation import metrics
from sghash.experiments.sets import BenchSet
from sghash.index import TableIndex
from sghash.models.quantizers.generative import GenerativeQuantizer
from sghash.models.sgh.training.scaling import unit_rows
from sghash.validation import Vectors

OURS = "GenerativeQuantizer"
DEPTH, NEIGHBORS = 100, 10
WARM_ROWS, TURNS = 5000, 3
#: On MiniLM, by bytes: seconds of a fit, vectors encoded per second, and the recall of the training
#: that began with SGH's codes (docs/results.md).
TARGETS: dict[int, tuple[Target, Target, Target]] = {
    8: (at_most(12), at_least(30_000), at_least(0.899)),
    16: (at_most(20), at_least(20_000), at_least(0.974)),
    32: (at_most(40), at_least(10_000), at_least(0.997)),
}
TARGET_SET = "MiniLM"


class Figures(NamedTuple):
    """Seconds of a fit, vectors per second, Recall10@100, and the rate of plain products."""

    fit: float
    rate: float
    recall: float
    products: float


class Codec(NamedTuple):
    """How a method learns, encodes, and finds so many neighbours among encoded rows."""

    fit: Callable[[Vectors], Any]
    encode: Callable[[Vectors], Any]
    search: Callable[[Any, Vectors, int], Any]


def ours(n_bytes: int, metric: str, seed: int) -> Codec:
    model = GenerativeQuantizer(n_bytes, metric=metric, random_state=seed)

    def search(codes: Any, queries: Vectors, k: int) -> Any:
        index = TableIndex.for_model(model)
        index.add(codes)
        return index.search(model.query_tables(queries), k).ids

    return Codec(model.fit, model.encode, search)


def of_faiss(n_bytes: int, metric: str, seed: int, width: int, *, rotate: bool) -> Codec:
    """FAISS's own, vectors padded with zeros to a multiple of the number of bytes."""
    padded = -(-width // n_bytes) * n_bytes
    kind = faiss.METRIC_INNER_PRODUCT if metric == "ip" else faiss.METRIC_L2
    inner = faiss.IndexPQ(padded, n_bytes, 8, kind)
    inner.pq.cp.seed = seed + 1
    index: Any = inner
    if rotate:
        index = faiss.IndexPreTransform(faiss.OPQMatrix(padded, n_bytes), inner)

    def ready(rows: Vectors) -> Vectors:
        rows = unit_rows(rows) if metric == "cosine" else rows
        return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, padded - width))))

    def search(codes: Any, queries: Vectors, k: int) -> Any:
        index.add_sa_codes(codes) if not rotate else inner.add_sa_codes(codes)
        index.ntotal = inner.ntotal
        return index.search(ready(queries), k)[1]

    return Codec(
        lambda rows: index.train(ready(rows)), lambda rows: index.sa_encode(ready(rows)), search
    )


def codec_of(name: str, n_bytes: int, split: Split, seed: int) -> Codec:
    if name == OURS:
        return ours(n_bytes, split.metric, seed)
    width = split.train.shape[1]
    return of_faiss(n_bytes, split.metric, seed, width, rotate=name == "FAISS OPQ")


def seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def product_rate() -> float:
    """Plain products of the shape that a sweep over codes has, in 10⁹ operations a second."""
    left, right = np.ones((512, 256), np.float32), np.ones((256, 256), np.float32)
    taken, _ = seconds_of(lambda: [left @ right for _ in range(200)])
    return 200 * 2 * 512 * 256 * 256 / taken / 1e9


def measured(name: str, which: BenchSet, n_bytes: int, seed: int, validation: bool) -> Figures:
    split = split_of(which, validation=validation)
    base = np.asarray(split.train, dtype=np.float32)
    if name == OURS:
        small = codec_of(name, n_bytes, split, seed)
        small.fit(base[:WARM_ROWS])
        small.encode(base[:WARM_ROWS])
    codec = codec_of(name, n_bytes, split, seed)
    fit, _ = seconds_of(lambda: codec.fit(base))
    turns = [seconds_of(lambda: codec.encode(base)) for _ in range(TURNS)]
    found = codec.search(turns[0][1], split.queries, DEPTH)
    true = truth_of(which, "", NEIGHBORS, validation=validation)
    recall = metrics.recall(true.ids, found, k=NEIGHBORS, n=DEPTH)
    return Figures(fit, len(base) / min(taken for taken, _ in turns), recall, product_rate())


def mean_of(runs: Sequence[Figures]) -> Figures:
    return Figures(*(float(np.mean(values)) for values in zip(*runs, strict=True)))


def judged(which: BenchSet, n_bytes: int, found: Figures) -> list[str]:
    if which.label != TARGET_SET or n_bytes not in TARGETS:
        return []
    names = ("fit, CPU seconds", "vectors encoded per second", "Recall10@100")
    values = (found.fit, found.rate, found.recall)
    return [
        line(f"{which.label}, {n_bytes} bytes: {name}", value, target)
        for name, value, target in zip(names, values, TARGETS[n_bytes], strict=True)
    ]


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[TARGET_SET])
    parser.add_argument("--bytes", type=int, nargs="+", default=list(TARGETS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, help="at most so many rows of every set")
    parser.add_argument("--methods", nargs="+", default=[OURS, "FAISS OPQ", "FAISS PQ"])
    parser.add_argument("--validation", action="store_true", help="queries out of the base")
    parser.add_argument("--quick", action="store_true", help="small built-in data")
    return parser.parse_args(arguments)


def main() -> None:
    options = parsed()
    sets = list(QUICK_SETS.values()) if options.quick else [SETS[name] for name in options.sets]
    if options.rows is not None:
        sets = [which._replace(n_vectors=min(which.n_vectors, options.rows)) for which in sets]
    verdicts: list[str] = []
    faiss.omp_set_num_threads(1)
    print(f"{'set':<9} {'bytes':>5} {'method':<20} {'fit s':>7} {'vectors/s':>10} "
          f"{'R10@100':>8} {'products':>8}")  # fmt: skip
    with on_threads(1):
        for which in sets:
            for n_bytes in [4] if options.quick else options.bytes:
                for name in options.methods:
                    runs = [
                        measured(name, which, n_bytes, seed, options.validation)
                        for seed in range(options.seeds)
                    ]
                    found = mean_of(runs)
                    print(f"{which.label:<9} {n_bytes:>5} {name:<20} {found.fit:>7.1f} "
                          f"{found.rate:>10,.0f} {found.recall:>8.4f} "
                          f"{found.products:>8.0f}", flush=True)  # fmt: skip
                    if name == OURS and not options.validation:
                        verdicts += judged(which, n_bytes, found)
    print("\n".join(["", *verdicts]))


if __name__ == "__main__":
    main()
