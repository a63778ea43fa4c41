"""Codes searched by tables of a real query, at equal bytes on five sets, beside FAISS's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sghash.experiments.claims.inner_product import TABLES, measure_tables
from sghash.experiments.experiment import Context, Drawing, Row, Table, Values
from sghash.experiments.hashing import make_model, recalls, reconstructing, spec_for
from sghash.experiments.sets import BenchSet, load
from sghash.experiments.studies.tables import ALL_SETS, sets_of, study, table_of
from sghash.kernels import exact_neighbors
from sghash.optional import require
from sghash.validation import Vectors

STORE = "quantizers"
SIZES, QUICK_SIZES = (8, 16), (4,)
DEPTH = 100
Measure = Callable[[Context, BenchSet, int, int], Values]


def faiss_quantizer(*, rotate: bool) -> Measure:
    """FAISS's own PQ or OPQ, vectors padded to a multiple of the number of parts."""

    def measure(context: Context, which: BenchSet, size: int, seed: int) -> Values:
        faiss = require("faiss", extra="faiss")
        base, queries = (_padded(rows, size, which.metric) for rows in _vectors(which))
        kind = faiss.METRIC_INNER_PRODUCT if which.metric == "ip" else faiss.METRIC_L2
        index = faiss.IndexPQ(base.shape[1], size, 8, kind)
        index.pq.cp.seed = seed + 1
        if rotate:
            index = faiss.IndexPreTransform(faiss.OPQMatrix(base.shape[1], size), index)
        start = time.perf_counter()
        rows = np.random.default_rng(seed).permutation(len(base))[: 256 * 256]
        index.train(base[rows])
        seconds = time.perf_counter() - start
        index.add(base)
        return _values(which, index.search(queries, DEPTH)[1], seconds)

    return measure


def sharpened(context: Context, which: BenchSet, size: int, seed: int) -> Values:
    """SGH's linear decoder on codes from coordinate descent.

    The score of a code is that of the vector it stands for, so this is the scan by tables.
    """
    data = load(which)
    spec = spec_for(context, reconstructing())
    start = time.perf_counter()
    model: Any = make_model(spec, 8 * size, seed, which.metric).fit(data.base)
    seconds = time.perf_counter() - start
    decoded = model.decode(model.encode(data.base, sweeps=3))
    metric, queries = which.metric, data.queries
    if metric == "cosine":  # what codes stand for is not brought to length one
        metric, queries = "ip", _unit(queries)
    found = exact_neighbors(decoded, queries, DEPTH, metric=metric)
    return _values(which, found.ids, seconds)


METHODS: dict[str, Measure] = {
    "FAISS PQ": faiss_quantizer(rotate=False),
    "FAISS OPQ": faiss_quantizer(rotate=True),
    "SGH, sharpened": sharpened,
    TABLES: measure_tables,
}
_SLOW = (TABLES,)


def run(context: Context) -> list[Row]:
    """Every method at every number of bytes, one seed."""
    rows = []
    for which in sets_of(context, ALL_SETS):
        for size in context.pick(QUICK_SIZES, SIZES):
            for name, method in METHODS.items():
                if context.quick and name in _SLOW:
                    continue
                settings = {**which.settings(), "method": name, "bytes": size, "seed": 0}

                def measure(how: Measure = method, which: Any = which, size: int = size) -> Values:
                    return how(context, which, size, 0)

                rows.append(context.measured(STORE, settings, measure))
    return rows


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Recall and training time."""
    return [table_of(rows, ("set", "bytes", "method"), ("recall10@100", "train_seconds"))]


def _vectors(which: BenchSet) -> tuple[Vectors, Vectors]:
    data = load(which)
    return np.asarray(data.base, dtype=np.float32), data.queries


def _padded(rows: Vectors, n_parts: int, metric: str) -> Vectors:
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % n_parts)))
    return _unit(padded) if metric == "cosine" else padded


def _unit(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), dtype=np.float32)


def _values(which: BenchSet, ids: Any, seconds: float) -> Values:
    return {"train_seconds": seconds, **recalls(which, ids.astype(np.int64), neighbors=(10,))}


EXPERIMENT = study(
    "quantizers",
    title="Tables of a real query, beside FAISS's quantizers",
    question="How do codes searched by tables compare with FAISS's PQ and OPQ at equal bytes?",
    setup="8 and 16 bytes on five whole sets, every byte that is stored for a vector counted, one "
    "seed. SGH's codes are sharpened by three sweeps of coordinate descent.",
    run=run,
    draw=draw,
)
