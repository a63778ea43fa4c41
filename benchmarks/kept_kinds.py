"""Kinds of kept vectors: bytes, recall if they alone decide, and the time to score a row.

    python benchmarks/kept_kinds.py                    # MiniLM, SIFT, GIST, GloVe, MNIST
    python benchmarks/kept_kinds.py minilm-wordnet     # one set
    python benchmarks/kept_kinds.py --validation       # queries are held-out rows: for choices

Recall10@10 is the share of the ten nearest by float32 that are among the ten nearest by what is
kept, if every row is scored. Time is that of the processor on one thread: of all rows one after the
other, and of 400 rows anywhere, the query's own preparation included, as after a shortlist.
turbovec (a package of its own, left out where it is not installed) searches all rows, one query at
a time; it rounds to four or two bits after a rotation, too.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sghash
from sghash.evaluation import format_table
from sghash.evaluation.metrics import recall
from sghash.kernels import exact_neighbors
from sghash.kernels.vectors.kinds import KINDS, SMALL
from sghash.kernels.vectors.small import shrink
from sghash.kernels.vectors.stored import kept_distances

DATASETS = ["minilm-wordnet", "sift-photos", "cifar10-gist", "glove100", "mnist"]
K, N_QUERIES, SHORTLIST = 10, 200, 400
ROUNDS = 3


def timed(call: Callable[[], Any]) -> float:
    """Processor seconds of the best of a few rounds."""
    call()
    best = np.inf
    for _ in range(ROUNDS):
        started = time.process_time()
        call()
        best = min(best, time.process_time() - started)
    return best


def kept_as(vectors: np.ndarray, kind: str) -> np.ndarray:
    return shrink(vectors, kind) if kind in SMALL else vectors.astype(kind)


def measured(base: np.ndarray, queries: np.ndarray, metric: str, truth: Any, kind: str) -> dict:
    kept = kept_as(base, kind)
    made = timed(lambda: kept_as(base[:5000], kind)) / min(len(base), 5000)
    every = np.arange(len(base))[None]
    found = []
    for query in queries[:, None]:
        apart = kept_distances(kept, every, query, metric)[0]
        near = np.argpartition(apart, K)[:K]
        found.append(near[np.lexsort((near, apart[near]))])
    few = np.random.default_rng(0).integers(0, len(base), (len(queries), SHORTLIST))
    some = queries[:10]
    whole = np.ascontiguousarray(np.broadcast_to(every, (len(some), len(base))))
    scan = timed(lambda: kept_distances(kept, whole, some, metric)) / whole.size
    listed = timed(lambda: kept_distances(kept, few, queries, metric)) / few.size
    return {
        "kind": kind,
        "bytes/row": str(kept.shape[1] * kept.itemsize),
        "recall10@10": f"{recall(truth, found, k=K, n=K):.4f}",
        "ns/row, all": f"{scan * 1e9:.0f}",
        f"ns/row, {SHORTLIST} anywhere": f"{listed * 1e9:.0f}",
        "us to make a row": f"{made * 1e6:.2f}",
    }


def beside_turbovec(base: np.ndarray, queries: np.ndarray, truth: Any, bits: int) -> dict:
    import turbovec

    index = turbovec.TurboQuantIndex(base.shape[1], bits)
    index.add(base)
    index.search(queries[:1], K)
    started = time.process_time()
    found = np.vstack([index.search(query, K)[1] for query in queries[:, None]]).astype(np.int64)
    spent = time.process_time() - started
    return {
        "kind": f"turbovec, {bits} bits",
        "bytes/row": f"{len(index.to_bytes()) / len(base):.0f}",
        "recall10@10": f"{recall(truth, found, k=K, n=K):.4f}",
        "ns/row, all": f"{spent / found.shape[0] / len(base) * 1e9:.0f}",
    }


def run(name: str, validation: bool) -> None:
    data = sghash.load_dataset(name, fetch=False)
    base = np.ascontiguousarray(np.asarray(data.base)[:60_000], dtype=np.float32)
    queries = np.ascontiguousarray(np.asarray(data.queries)[:N_QUERIES], dtype=np.float32)
    if validation:
        chosen = np.random.default_rng(0).choice(len(base), N_QUERIES, replace=False)
        queries, base = base[chosen], np.delete(base, chosen, axis=0)
    truth = exact_neighbors(base, queries, K, metric=data.metric, threads=1).ids
    rows = [measured(base, queries, data.metric, truth, kind) for kind in KINDS]
    # It compares by inner products, which order unit vectors as every metric does.
    unit = np.abs(np.linalg.norm(base, axis=1) - 1).max() < 0.01
    if unit and base.shape[1] % 8 == 0 and importlib.util.find_spec("turbovec"):
        rows += [beside_turbovec(base, queries, truth, bits) for bits in (4, 2)]
    columns = list(rows[0])
    print(f"\n{name}: {len(base):,} rows of {base.shape[1]}, {data.metric}, {N_QUERIES} queries")
    print(format_table(columns, [[row.get(c, "") for c in columns] for row in rows]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=DATASETS, help="data sets")
    parser.add_argument("--validation", action="store_true", help="queries are held-out rows")
    asked = parser.parse_args()
    for name in asked.names:
        run(name, asked.validation)


if __name__ == "__main__":
    main()
