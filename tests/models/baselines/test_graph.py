"""Graph hashing: the feature transformation, and learning against the explicit graph."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.kernels import exact_neighbors, hamming_neighbors
from sghash.models.baselines.graph import GraphHashing, _graph_and_gram, transformed
from sghash.models.baselines.lsh import LSH


@pytest.fixture
def vectors(rng):
    centres = rng.normal(size=(12, 10)) * 3
    return (centres[rng.integers(12, size=900)] + rng.normal(size=(900, 10))).astype(np.float32)


def unit(rng, n: int, width: int = 6) -> np.ndarray:
    rows = rng.normal(size=(n, width))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_transformed_features_multiply_to_the_similarity(rng):
    """P(x) . Q(y) is the published line in x . y, near 2 exp(-|x - y|² / 2) - 1."""
    rows = unit(rng, 60)
    left = transformed(rows)
    right = left.copy()
    right[:, -1] *= -1
    products = left @ right.T
    inner = rows.astype(np.float64) @ rows.T
    line = 2 * ((np.e**2 - 1) / (2 * np.e) * inner + (np.e**2 + 1) / (2 * np.e)) / np.e - 1
    assert np.allclose(products, line, atol=1e-6)
    squared = np.square(rows[:, None] - rows[None]).sum(axis=2)
    similarity = 2 * np.exp(-squared / 2) - 1
    assert np.corrcoef(products.ravel(), similarity.ravel())[0, 1] > 0.95
    # At inner product 1 and -1 the line meets the exponential.
    assert products.diagonal() == pytest.approx(1.0, abs=1e-6)


def test_graph_of_all_pairs_is_used_without_being_built(rng):
    rows, kernels = unit(rng, 80), rng.normal(size=(80, 7)).astype(np.float32)
    left = transformed(rows)
    explicit = left[:, :-1] @ left[:, :-1].T - 1
    graph, gram = _graph_and_gram(kernels, rows)
    wide = kernels.astype(np.float64)
    assert np.allclose(graph, wide.T @ explicit @ wide, rtol=1e-4, atol=1e-3)
    assert np.allclose(gram, wide.T @ wide, rtol=1e-5)


def explicit_bits(model: GraphHashing, vectors: np.ndarray, n_bits: int) -> np.ndarray:
    """The published first pass with the n x n graph and a general eigenvalue solver."""
    from scipy.linalg import eigh

    rows = model._unit(vectors).astype(np.float64)
    squared = np.square(rows[:, None] - model.anchors_[None]).sum(axis=2)
    kernels = np.exp(-squared / (2 * model.width_)) - model.kernel_mean_
    left = transformed(rows.astype(np.float32))
    residual = n_bits * (left[:, :-1] @ left[:, :-1].T - 1)
    constraint = kernels.T @ kernels + 1e-6 * np.eye(kernels.shape[1])
    bits = []
    for _ in range(n_bits):
        weights = eigh(kernels.T @ residual @ kernels, constraint)[1][:, -1]
        signs = np.where(kernels @ weights > 0, 1.0, -1.0)
        residual -= np.outer(signs, signs)
        bits.append(signs > 0)
    return np.stack(bits, axis=1)


def test_first_pass_equals_the_explicit_graph(vectors):
    model = GraphHashing(n_bits=6, n_anchors=20, refine=False, random_state=0).fit(vectors)
    bits, expected = model.transform(vectors), explicit_bits(model, vectors, 6)
    agreement = np.mean(bits == expected, axis=0)
    # An eigenvector's sign is free, so a whole bit may be inverted.
    assert np.all(np.maximum(agreement, 1 - agreement) > 0.99)


def graph_error(model: GraphHashing, vectors: np.ndarray) -> float:
    """|n_bits S - B B.T|², what learning minimises."""
    left = transformed(model._unit(vectors))
    similarity = left[:, :-1] @ left[:, :-1].T - 1
    signs = np.where(model.transform(vectors), 1.0, -1.0)
    return float(np.square(model.n_bits * similarity - signs @ signs.T).mean())


def test_second_pass_explains_the_graph_better(vectors):
    options = {"n_bits": 16, "n_anchors": 60, "random_state": 0}
    once = GraphHashing(refine=False, **options).fit(vectors)
    twice = GraphHashing(**options).fit(vectors)
    assert graph_error(twice, vectors) < graph_error(once, vectors)


def test_anchors_shrink_to_the_rows(vectors):
    model = GraphHashing(n_bits=8, n_anchors=300, random_state=0).fit(vectors[:40])
    assert model.anchors_.shape == (40, 10)


def test_sample_limits_the_rows(vectors):
    model = GraphHashing(n_bits=8, n_anchors=300, sample=50, random_state=0).fit(vectors)
    assert model.anchors_.shape == (50, 10)
    with pytest.raises(InvalidInput, match="n_anchors"):
        GraphHashing(n_anchors=0).fit(vectors)


@pytest.mark.slow
def test_beats_centred_lsh_on_sift_at_32_bits(data_folder):
    with np.load(data_folder / "sift_photos_500k.npz") as archive:
        base, queries = archive["base"][:100_000], archive["query"][:500]
    base, queries = base.astype(np.float32), queries.astype(np.float32)
    truth = exact_neighbors(base, queries, 10).ids

    def recall(model) -> float:
        model.fit(base)
        found = hamming_neighbors(model.encode(base), model.encode(queries), 100, n_bits=32).ids
        return np.mean([np.isin(t, f).mean() for t, f in zip(truth, found, strict=True)])

    ours = np.mean([recall(GraphHashing(n_bits=32, random_state=seed)) for seed in range(3)])
    theirs = np.mean([recall(LSH(n_bits=32, random_state=seed)) for seed in range(3)])
    assert ours > 1.3 * theirs
