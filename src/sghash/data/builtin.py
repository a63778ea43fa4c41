"""Data sets that are always here: sentences, scikit-learn's digits, seeded synthetic vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sghash.data.dataset import DataSet
from sghash.data.readers import npz
from sghash.data.sources import ArraySource
from sghash.errors import InvalidInput

#: Made by `tools/make_sentences.py`; its origin and licence stand beside it, in `sentences.txt`.
SENTENCES = Path(__file__).with_name("shipped") / "sentences.npz"


def sentences() -> DataSet:
    """3,000 English sentences and 200 more as queries, embedded by all-MiniLM-L6-v2."""
    base, base_texts = _embedded("base")
    queries, query_texts = _embedded("query")
    return DataSet(
        name="sentences",
        base=ArraySource(base),
        queries=ArraySource(queries),
        metric="cosine",
        base_texts=base_texts,
        query_texts=query_texts,
        about="English sentences embedded by all-MiniLM-L6-v2, shipped with sghash",
        licence="WordNet 3.0 (sentences), Apache-2.0 (the model that embedded them)",
    )


def _embedded(side: str) -> tuple[NDArray[np.float32], list[str]]:
    """Vectors of length one, and the sentence of each."""
    numbers = npz.read_array(SENTENCES, side).astype(np.float32)
    vectors = numbers * npz.read_array(SENTENCES, f"{side}_factors")[:, None]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    text = npz.read_array(SENTENCES, f"{side}_texts").tobytes().decode("ascii")
    return vectors, text.split("\n")


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
