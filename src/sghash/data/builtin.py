"""Data sets that need no file: scikit-learn's digits, and seeded synthetic vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sghash.data.dataset import DataSet
from sghash.data.sources import ArraySource
from sghash.errors import InvalidInput


def digits() -> DataSet:
    """1,797 handwritten digits of 8 x 8 pixels; 197 of them, drawn once, are the queries."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(pixels))
    base, queries = np.sort(order[197:]), np.sort(order[:197])
    vectors = pixels.astype(np.float32)
    return DataSet(
        name="digits",
        base=ArraySource(vectors[base]),
        queries=ArraySource(vectors[queries]),
        base_labels=labels[base],
        query_labels=labels[queries],
        about="handwritten digits of 8 x 8 pixels, shipped with scikit-learn",
        licence="CC BY 4.0 (UCI Machine Learning Repository)",
    )


def gaussian(
    *, n_vectors: int = 20_000, width: int = 64, n_queries: int = 500, random_state: int = 0
) -> DataSet:
    """Independent standard normal numbers: the hardest set there is, nothing can be learned."""
    _check_sizes(n_vectors, width, n_queries)
    rng = np.random.default_rng(random_state)
    vectors = rng.standard_normal((n_vectors + n_queries, width), dtype=np.float32)
    return _split("gaussian", vectors, n_queries, None, "independent standard normal numbers")


def clusters(
    *,
    n_vectors: int = 20_000,
    width: int = 64,
    n_queries: int = 500,
    n_clusters: int = 50,
    random_state: int = 0,
) -> DataSet:
    """Clusters, each stretched along a few directions of its own, as in real embeddings.

    Labels are the clusters.
    """
    _check_sizes(n_vectors, width, n_queries, n_clusters)
    rng = np.random.default_rng(random_state)
    n, rank = n_vectors + n_queries, max(1, width // 4)
    centers = rng.standard_normal((n_clusters, width))
    spreads = rng.standard_normal((n_clusters, rank, width)) * np.sqrt(1 / rank)
    labels = rng.integers(n_clusters, size=n)
    vectors = rng.standard_normal((n, width)) * 0.1 + centers[labels]
    latent = rng.standard_normal((n, rank))
    for label in range(n_clusters):
        members = labels == label
        vectors[members] += latent[members] @ spreads[label]
    about = f"{n_clusters} clusters, each stretched along {rank} directions of its own"
    return _split("clusters", vectors.astype(np.float32), n_queries, labels, about)


def _split(
    name: str,
    vectors: NDArray[np.float32],
    n_queries: int,
    labels: NDArray[np.int64] | None,
    about: str,
) -> DataSet:
    return DataSet(
        name=name,
        base=ArraySource(vectors[n_queries:]),
        queries=ArraySource(vectors[:n_queries]),
        base_labels=None if labels is None else labels[n_queries:],
        query_labels=None if labels is None else labels[:n_queries],
        about=about,
        licence="none needed: drawn from a seeded generator",
    )


def _check_sizes(*sizes: int) -> None:
    if min(sizes) < 1:
        raise InvalidInput(f"sizes of a synthetic set must be at least 1, got {min(sizes)}")
