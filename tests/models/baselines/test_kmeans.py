"""K-means hashing: plain k-means as its limit, and the affinity that it adds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from sghash.errors import InvalidInput
from sghash.kernels.learning.clusters import move
from sghash.kernels.reference import learning as reference
from sghash.models.baselines.kmeans import (
    KMeansHashing,
    affinity_error,
    corners,
    hamming_lengths,
    numbers_as_bits,
)
from sghash.models.shared.centroids import assign, k_means, nearest, squared_distances


@pytest.fixture
def vectors(rng):
    return (rng.normal(size=(3000, 8)) * np.linspace(3, 0.5, 8) + 7).astype(np.float32)


def test_without_affinity_it_is_k_means(vectors):
    """The same start, the same iterations: the same centroids as scikit-learn's k-means."""
    model = KMeansHashing(n_bits=8, affinity_weight=0, n_iterations=30).fit(vectors)
    rotated = (vectors - model.mean_) @ model.rotation_
    for columns, _, centroids in model._parts():
        rows = rotated[:, columns]
        start, _ = corners(rows, 4)
        reference = KMeans(16, init=start, n_init=1, max_iter=30, tol=0, algorithm="lloyd")
        reference.fit(rows)
        assert np.allclose(centroids, reference.cluster_centers_, atol=1e-3)
    final = model.objective_history_[-1].sum()
    decoded = model.decode(model.encode(vectors))
    assert np.square(decoded - vectors).sum(axis=1).mean() == pytest.approx(final, rel=0.01)


def test_objective_never_rises_and_affinity_is_bought_with_quantization(vectors):
    plain = KMeansHashing(n_bits=8, affinity_weight=0).fit(vectors)
    model = KMeansHashing(n_bits=8, affinity_weight=10).fit(vectors)
    assert np.all(np.diff(model.objective_history_, axis=0) <= 1e-4)
    assert model.objective_history_[-1].sum() < 0.98 * model.objective_history_[0].sum()

    def errors(which: KMeansHashing) -> tuple[float, float]:
        rotated = (vectors - which.mean_) @ which.rotation_
        quantization = affinity = 0.0
        for columns, _, centroids in which._parts():
            rows = np.ascontiguousarray(rotated[:, columns])
            found = assign(rows, centroids)
            wanted = hamming_lengths(4, corners(rows, 4)[1])
            quantization += found.error
            affinity += affinity_error(
                centroids.astype(np.float64), found.sizes / len(rows), wanted
            )
        return quantization, affinity

    (plain_error, plain_affinity), (error, affinity) = errors(plain), errors(model)
    assert plain_error < error
    assert affinity < 0.5 * plain_affinity
    assert error + 10 * affinity == pytest.approx(model.objective_history_[-1].sum(), rel=0.01)


def test_start_is_pca_hashing(vectors):
    """Before any iteration a code is the signs of the part's components."""
    rows = vectors[:, :4] - vectors[:, :4].mean(axis=0)
    start, scale = corners(rows, 3)
    assert start.shape == (8, 4) and scale > 0
    found = numbers_as_bits(3)[nearest(rows, start.astype(np.float32))]
    values, axes = np.linalg.eigh(np.cov(rows.T))
    axes = axes[:, ::-1][:, :3]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), range(3)])
    assert np.mean(found == (rows @ axes > 0)) > 0.999
    assert values.min() > 0


def test_hamming_lengths():
    lengths = hamming_lengths(3, 2.0)
    assert lengths[0, 0] == 0
    assert lengths[0b000, 0b001] == pytest.approx(4)
    assert lengths[0b101, 0b010] == pytest.approx(4 * 3**0.5)


def test_move_equals_its_slow_twin_and_lowers_the_objective(rng):
    centroids, means = rng.normal(size=(8, 3)), rng.normal(size=(8, 3))
    weights = rng.dirichlet(np.ones(8))
    weights[5] = 0
    wanted = hamming_lengths(3, 0.5)

    def objective(c):
        return weights @ np.square(c - means).sum(axis=1) + 4 * affinity_error(c, weights, wanted)

    fast, slow = centroids.copy(), centroids.copy()
    move(fast, means, weights, wanted, 4.0, 20)
    reference.move(slow, means, weights, wanted, 4.0, 20)
    assert np.allclose(fast, slow, atol=1e-4)
    assert np.array_equal(fast[5], centroids[5])
    assert objective(fast) < objective(centroids)


def test_k_means_refills_empty_clusters(rng):
    rows = np.concatenate([rng.normal(size=(200, 2)), rng.normal(size=(200, 2)) + 50])
    rows = rows.astype(np.float32)
    far = np.asarray([[0, 0], [1000, 1000], [2000, 0], [0, 3000]], dtype=np.float32)
    found = k_means(rows, far, 15, np.random.RandomState(0))
    sizes = assign(rows, found).sizes
    assert np.all(sizes > 0) and sizes.sum() == 400


def test_assign_by_definition(rng):
    rows, centres = rng.normal(size=(20_000, 3)).astype(np.float32), rng.normal(size=(5, 3))
    centres = centres.astype(np.float32)
    squared = np.square(rows[:, None].astype(np.float64) - centres).sum(axis=2)
    assert np.allclose(squared_distances(rows, centres), squared, atol=1e-4)
    best = squared.argmin(axis=1)
    found = assign(rows, centres)
    assert np.abs(found.sizes - np.bincount(best, minlength=5)).sum() <= 4
    assert np.allclose(found.sums[0], rows[best == 0].sum(axis=0, dtype=np.float64), atol=1)
    assert found.error == pytest.approx(squared.min(axis=1).mean(), rel=1e-5)


def test_bits_that_no_part_divides(vectors):
    model = KMeansHashing(n_bits=7, bits_per_part=3, n_iterations=3).fit(vectors)
    assert model.part_bits_.tolist() == [3, 2, 2]
    assert sum(model.part_widths_) == 8


@pytest.mark.parametrize("option", [{"bits_per_part": 9}, {"affinity_weight": -1.0}])
def test_bad_options_are_refused(vectors, option):
    with pytest.raises(InvalidInput, match=next(iter(option))):
        KMeansHashing(n_bits=8, **option).fit(vectors)


def test_the_affinity_error_is_that_of_all_differences(rng):
    centroids, weights = 7 + rng.standard_normal((16, 5)), rng.random(16)
    centroids[3] = centroids[4]
    wanted = hamming_lengths(4, 0.7)
    gaps = np.linalg.norm(centroids[:, None] - centroids[None], axis=2) - wanted
    expected = weights @ np.square(gaps) @ weights
    assert affinity_error(centroids, weights, wanted) == pytest.approx(expected, rel=1e-6)
