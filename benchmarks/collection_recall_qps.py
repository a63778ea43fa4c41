"""Recall against queries per second of the whole pipeline, beside FAISS, with bytes per vector.

    python benchmarks/collection_recall_qps.py                         # both data sets
    python benchmarks/collection_recall_qps.py --datasets minilm-wordnet
    python benchmarks/collection_recall_qps.py --plot recall_qps.png   # draw it as well

The collection keeps float16 vectors and ends with exact distances; what varies is how many rows
its shortlist has. FAISS: IVFFlat by `nprobe`, HNSWFlat by `efSearch`, RaBitQ with float16 refine by
`k_factor`. One thread, all queries in one call, the best of three. Recall10@10. Data sets are
looked for in the folder SGHASH_DATA; models learn from the base, never from queries.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import faiss
import numpy as np

import sghash
from sghash import Collection

K = 10
DATASETS = ["sift-photos", "minilm-wordnet"]


class Point(NamedTuple):
    """One setting of one method."""

    method: str
    setting: str
    recall: float
    qps: float
    n_bytes: float


def measure(search: Callable[[], np.ndarray], truth: np.ndarray) -> tuple[float, float]:
    ids, best = search(), np.inf
    for _ in range(3):
        started = time.perf_counter()
        search()
        best = min(best, time.perf_counter() - started)
    hits = [len(set(a) & set(b)) for a, b in zip(ids.tolist(), truth.tolist(), strict=True)]
    return float(np.mean(hits)) / K, len(truth) / best


def ours(base, queries, truth, metric, n_bits) -> Iterator[Point]:
    model = sghash.SGH(n_bits=n_bits, metric=metric, random_state=0).fit(base)
    with tempfile.TemporaryDirectory() as folder:
        collection = Collection.create(
            Path(folder) / "c", model, keep_vectors="float16", metric=metric
        )
        for start in range(0, len(base), 50_000):
            collection.add(base[start : start + 50_000])
        collection.compact()
        n_bytes = collection.stats()["bytes_per_row"]
        for shortlist in (20, 50, 100, 200, 500, 1000, (2000, 500), ("all", 100), ("all", 500)):
            recall, qps = measure(
                lambda s=shortlist: (
                    collection.search(queries, K, rerank="vectors", shortlist=s, threads=1).ids
                ),
                truth,
            )
            yield Point(f"sghash {n_bits} bits", f"shortlist {shortlist}", recall, qps, n_bytes)


def rivals(base, queries, truth, metric) -> Iterator[Point]:
    n, width = base.shape
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    if metric == "cosine":
        base, queries = _unit(base), _unit(queries)
    lists = int(4 * np.sqrt(n))
    index = faiss.IndexIVFFlat(faiss.IndexFlat(width, kind), width, lists, kind)
    index.train(base[:: max(1, n // (40 * lists))])
    index.add(base)
    for nprobe in (1, 2, 4, 8, 16, 32, 64):
        index.nprobe = nprobe
        recall, qps = measure(lambda i=index: i.search(queries, K)[1], truth)
        yield Point("FAISS IVFFlat", f"nprobe {nprobe}", recall, qps, 4 * width + 8)
    index = faiss.IndexHNSWFlat(width, 32, kind)
    index.hnsw.efConstruction = 80
    index.add(base)
    for ef in (10, 20, 40, 80, 160, 320):
        index.hnsw.efSearch = ef
        recall, qps = measure(lambda i=index: i.search(queries, K)[1], truth)
        yield Point("FAISS HNSWFlat", f"efSearch {ef}", recall, qps, 4 * width + 32 * 2 * 4 + 12)
    coarse = faiss.IndexRaBitQ(width, kind)
    exact = faiss.IndexScalarQuantizer(width, faiss.ScalarQuantizer.QT_fp16, kind)
    index = faiss.IndexRefine(coarse, exact)
    index.train(base)
    index.add(base)
    n_bytes = coarse.code_size + 2 * width
    for factor in (1, 2, 5, 10, 20, 50):
        index.k_factor = factor
        recall, qps = measure(lambda i=index: i.search(queries, K)[1], truth)
        yield Point("FAISS RaBitQ+refine", f"k_factor {factor}", recall, qps, n_bytes)


def _unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def draw(points: dict[str, list[Point]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(points), figsize=(6 * len(points), 4.5), squeeze=False)
    for place, (name, of_set) in zip(axes[0], points.items(), strict=True):
        for method in dict.fromkeys(point.method for point in of_set):
            line = sorted((p.recall, p.qps) for p in of_set if p.method == method)
            place.plot(*zip(*line, strict=True), marker="o", label=method)
        place.set(xlabel="Recall10@10", ylabel="queries per second", yscale="log", title=name)
        place.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--plot", help="file to draw into")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    points: dict[str, list[Point]] = {}
    for name in options.datasets:
        data = sghash.load_dataset(name, fetch=False)
        base, queries = (np.asarray(a, dtype=np.float32) for a in (data.base, data.queries))
        queries = queries[:1000]
        truth = sghash.ground_truth(data.base, queries, K, metric=data.metric).ids
        print(f"\n{name}: {base.shape[0]:,} x {base.shape[1]}, {data.metric}, one thread")
        print(
            f"{'method':<22}{'setting':<24}{'Recall10@10':>12}{'queries/s':>12}{'bytes/vector':>14}"
        )
        points[name] = []
        sources = [ours(base, queries, truth, data.metric, bits) for bits in options.bits]
        for source in [*sources, rivals(base, queries, truth, data.metric)]:
            for point in source:
                points[name].append(point)
                print(f"{point.method:<22}{point.setting:<24}{point.recall:12.3f}{point.qps:12,.0f}"
                      f"{point.n_bytes:14.0f}", flush=True)  # fmt: skip
    if options.plot:
        draw(points, options.plot)


if __name__ == "__main__":
    main()
