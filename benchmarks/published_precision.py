"""Mean average precision beside the published figures for SIFT-1M.

    python benchmarks/published_precision.py
    python benchmarks/published_precision.py --dataset sift1m      # where it can be had

libhash (github.com/jiaxiang-wu/libhash) publishes the mean average precision of Hamming rankings
of SIFT-1M whose right answers are the 1,000 true nearest neighbours: models learn from 100,000
vectors, and all of the base is ranked. This computes the same on SIFT photos, 500,000 descriptors
of other images, so figures are comparable in their picture, not in their digits: half as many
vectors are ranked for as many right answers, and the descriptors of one photograph resemble each
other more. Ties count in the order of rows.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import sghash
from sghash.evaluation import format_table, ground_truth, truth_folder

# At 32 and 64 bits; two revisions of libhash's README differ a little where both have a method.
PUBLISHED = {
    "LSH": (0.0493, 0.1136),
    "ITQ": (0.0899, 0.1931),
    "SpectralHashing": (0.1012, 0.1634),
    "SphericalHashing": (0.0787, 0.1729),
    "KMeansHashing": (0.1018, 0.2056),
    "GraphHashing": (0.0939, 0.1914),
}
BITS = (32, 64)
N_TRUE = 1000
TRAINING_ROWS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dataset", default="sift-photos")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    data = sghash.load_dataset(options.dataset)
    base = np.asarray(data.base, dtype=np.float32)
    queries = np.asarray(data.queries, dtype=np.float32)[: options.queries]
    rows = np.sort(np.random.default_rng(0).permutation(len(base))[:TRAINING_ROWS])
    truth = ground_truth(base, queries, N_TRUE, metric=data.metric, cache=truth_folder()).ids
    lines = []
    for method, published in PUBLISHED.items():
        cells = [method]
        for n_bits, figure in zip(BITS, published, strict=True):
            print(f"{method}, {n_bits} bits", file=sys.stderr)
            found = [
                mean_average_precision(method, n_bits, seed, base[rows], base, queries, truth)
                for seed in range(options.seeds)
            ]
            cells += [f"{np.mean(found):.4f}", f"{figure:.4f}"]
        lines.append(cells)
    headings = ["method", *(f"{n} bits {who}" for n in BITS for who in ("here", "published"))]
    print(format_table(headings, lines, markdown=True))


def mean_average_precision(
    method: str,
    n_bits: int,
    seed: int,
    training: np.ndarray,
    base: np.ndarray,
    queries: np.ndarray,
    truth: np.ndarray,
) -> float:
    model = sghash.models.model_class(method)(n_bits=n_bits, random_state=seed).fit(training)
    words, query_words = as_words(model.encode(base)), as_words(model.encode(queries))
    precisions = []
    for query, right in zip(query_words, truth, strict=True):
        distances = np.bitwise_count(words ^ query).sum(axis=1, dtype=np.uint8)
        ranks = np.empty(len(words), dtype=np.int64)
        ranks[np.argsort(distances, kind="stable")] = np.arange(1, len(words) + 1)
        found = np.sort(ranks[right[:N_TRUE]])
        precisions.append(np.mean(np.arange(1, N_TRUE + 1) / found))
    return float(np.mean(precisions))


def as_words(codes: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(codes).view(np.uint32)


if __name__ == "__main__":
    main()
