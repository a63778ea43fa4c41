"""Mean average precision beside the published figures for SIFT-1M."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sghash.experiments.comparisons import estimates, text_of
from sghash.experiments.experiment import Context, Drawing, Row, Table, Values
from sghash.experiments.sets import SIFT, SIFT_1M, BenchSet, load, truth
from sghash.experiments.studies.tables import sets_of, study
from sghash.models import model_class

STORE = "published_precision"
# At 32 and 64 bits; two revisions of libhash's README differ a little where both have a method.
PUBLISHED = {
    "LSH": (0.0493, 0.1136),
    "ITQ": (0.0899, 0.1931),
    "SpectralHashing": (0.1012, 0.1634),
    "SphericalHashing": (0.0787, 0.1729),
    "KMeansHashing": (0.1018, 0.2056),
    "GraphHashing": (0.0939, 0.1914),
}
LENGTHS = (32, 64)
N_TRUE, N_ROWS, N_QUERIES, SEEDS = 1000, 100_000, 500, 3


def run(context: Context) -> list[Row]:
    """Every method at both lengths, by seeds."""
    which = context.pick(
        sets_of(context, [])[0], (SIFT_1M if context.originals else SIFT)._replace(n_queries=500)
    )
    methods = context.pick(["LSH", "ITQ"], list(PUBLISHED))
    return [
        _row(context, which, method, n_bits, seed)
        for method in methods
        for n_bits in LENGTHS
        for seed in range(min(context.seeds, SEEDS))
    ]


def _row(context: Context, which: BenchSet, method: str, n_bits: int, seed: int) -> Row:
    n_true, n_rows = context.pick((100, 1000), (N_TRUE, N_ROWS))
    settings = {
        **which.settings(),
        "method": method,
        "n_bits": n_bits,
        "n_true": n_true,
        "learned_from": n_rows,
        "seed": seed,
    }

    def measure() -> Values:
        data = load(which)
        rows = np.sort(np.random.default_rng(0).permutation(len(data.base))[:n_rows])
        model = model_class(method)(n_bits=n_bits, random_state=seed)
        if "random_state" not in model.get_params(deep=False):
            model = model_class(method)(n_bits=n_bits)
        model.fit(np.asarray(data.base[rows], dtype=np.float32))
        codes, query_codes = model.encode(data.base), model.encode(data.queries)
        right = truth(which, n_true).ids[:, :n_true]
        return {"average_precision": mean_average_precision(codes, query_codes, right)}

    return context.measured(STORE, settings, measure)


def mean_average_precision(
    codes: NDArray[np.uint8], query_codes: NDArray[np.uint8], right: NDArray[np.int64]
) -> float:
    """Over a ranking of the whole base; ties count in the order of rows."""
    precisions = []
    counts = np.arange(1, right.shape[1] + 1)
    for query, ids in zip(query_codes, right, strict=True):
        distances = np.bitwise_count(codes ^ query).sum(axis=1, dtype=np.uint16)
        ranks = np.empty(len(codes), dtype=np.int64)
        ranks[np.argsort(distances, kind="stable")] = np.arange(1, len(codes) + 1)
        precisions.append(np.mean(counts / np.sort(ranks[ids])))
    return float(np.mean(precisions))


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Ours beside the published figure."""
    found = estimates(rows, "average_precision", ("method", "n_bits"))
    cells = []
    for method in dict.fromkeys(cell[0] for cell in found):
        line = [method]
        for n_bits, figure in zip(LENGTHS, PUBLISHED[method], strict=True):
            line += [text_of(found.get((method, n_bits)), 4), f"{figure:.4f}"]
        cells.append(line)
    headings = ["method", *(f"{n} bits, {who}" for n in LENGTHS for who in ("here", "published"))]
    return [Table(headings, cells, "Mean average precision of Hamming rankings")]


EXPERIMENT = study(
    "published_precision",
    title="Mean average precision beside published figures",
    question="Do our baselines reach what libhash (github.com/jiaxiang-wu/libhash) publishes?",
    setup=f"right answers are the {N_TRUE:,} true nearest neighbours, models learn from "
    f"{N_ROWS:,} vectors, {N_QUERIES} queries. The figures are for SIFT-1M, ours for SIFT photos, "
    "500,000 descriptors of other images (SIFT-1M itself with --originals): comparable in their "
    "picture, not in their digits: half as many vectors are ranked for as many right answers.",
    run=run,
    draw=draw,
)
