"""Kept vectors of a small kind: the rotation, the rows, and distances by them."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from sghash.errors import InvalidDtype, InvalidInput
from sghash.kernels.reference import small as twin, vector_distances
from sghash.kernels.vectors.kinds import KINDS, SMALL, row_columns, tails_of
from sghash.kernels.vectors.small import grow, shrink
from sghash.kernels.vectors.stored import as_vectors, kept_distances

METRICS = ("l2", "ip", "cosine")
WIDTHS = (1, 2, 3, 16, 31, 32, 33, 64, 65, 100, 128, 384, 1023, 4096)


def all_distances(kept, queries, metric, threads=1):
    rows = np.tile(np.arange(len(kept)), (len(queries), 1))
    return kept_distances(kept, rows, queries, metric, threads=threads)


def some(rng, n, width):
    return rng.standard_normal((n, width), dtype=np.float32)


@pytest.mark.parametrize(
    "width", [pytest.param(w, marks=pytest.mark.slow) if w > 2000 else w for w in WIDTHS]
)
def test_the_rotation_is_one_and_spreads(width, rng):
    matrix = twin.rotated(np.eye(width, dtype=np.float32)).astype(np.float64)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(width), atol=3e-6)
    x = some(rng, 3, width)
    np.testing.assert_allclose(twin.rotated_back(twin.rotated(x)), x, atol=1e-5)
    if width >= 31:
        # A vector with one number, and one whose numbers are equal, are long in no direction.
        assert np.abs(matrix).max() < 6 / np.sqrt(width)
        assert np.abs(matrix.sum(axis=0)).max() < 5


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("width", WIDTHS)
def test_distances_are_to_the_bit_those_of_the_twin(kind, metric, width, rng):
    vectors, queries = some(rng, 40, width), some(rng, 3, width)
    vectors[0], vectors[1], queries[2] = 0, 7, 0
    vectors[3, 1:] = 0
    kept = shrink(vectors, kind)
    assert kept.dtype == KINDS[kind]
    assert kept.shape == (40, row_columns(kept.dtype, width))
    rows = rng.integers(-1, 40, (3, 50))
    expected = twin.small_distances(kept, rows, queries, metric)
    for threads in (1, 3):
        found = kept_distances(kept, rows, queries, metric, threads=threads)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("kind", "error"), [("int8", 0.01), ("int4", 0.11)])
@pytest.mark.parametrize("width", [64, 100, 385, 4096])
def test_vectors_come_back_about_as_they_were(kind, error, width, rng):
    vectors = some(rng, 30, width) * rng.uniform(0.1, 10, (30, 1)).astype(np.float32) + 5
    back = grow(shrink(vectors, kind), width)
    np.testing.assert_array_equal(as_vectors(shrink(vectors, kind), width), back)
    left = vectors - vectors.mean(axis=1, keepdims=True)
    apart = np.linalg.norm(vectors - back, axis=1) / np.linalg.norm(left, axis=1)
    assert apart.max() < error * 1.2
    np.testing.assert_allclose(
        np.linalg.norm(back, axis=1), np.linalg.norm(vectors, axis=1), rtol=0.01
    )


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("metric", METRICS)
def test_distances_estimate_the_exact_ones_without_bias(kind, metric, rng):
    vectors, queries = some(rng, 2000, 96) + 1, some(rng, 20, 96) + 1
    exact = vector_distances(vectors, queries, metric)
    found = all_distances(shrink(vectors, kind), queries, metric)
    errors = (found - exact).ravel()
    assert errors.std() < (0.01 if kind == "int8" else 0.15) * exact.std()
    assert abs(errors.mean()) < 6 * errors.std() / np.sqrt(len(errors)) + 1e-4 * exact.std()


@pytest.mark.parametrize("kind", SMALL)
def test_a_vector_is_at_no_distance_from_itself(kind, rng):
    vectors = some(rng, 50, 130)
    rows = np.arange(50)[:, None]
    kept = shrink(vectors, kind)
    squares = np.square(vectors).sum(axis=1)
    assert (kept_distances(kept, rows, vectors, "l2")[:, 0] < 1e-3 * squares).all()
    assert (kept_distances(kept, rows, vectors, "cosine")[:, 0] < 1e-3).all()
    np.testing.assert_allclose(kept_distances(kept, rows, vectors, "ip")[:, 0], -squares, rtol=1e-3)


@pytest.mark.parametrize("kind", SMALL)
def test_rows_of_equal_numbers_are_exact(kind):
    vectors = np.repeat(np.float32([[0], [3], [-2.5], [1e30]]), 70, axis=1)
    kept = shrink(vectors, kind)
    np.testing.assert_array_equal(grow(kept, 70), vectors)
    queries = np.full((1, 70), 2, dtype=np.float32)
    for metric in METRICS:
        np.testing.assert_allclose(
            all_distances(kept[:3], queries, metric),
            vector_distances(vectors[:3], queries, metric),
            atol=1e-5,
        )


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e15, 1e30])
def test_huge_and_tiny_vectors_keep_their_direction(kind, scale, rng):
    vectors = (some(rng, 20, 64) * np.float64(scale)).astype(np.float32)
    back = grow(shrink(vectors, kind), 64)
    assert np.isfinite(back).all()
    if scale > 1e-40:
        assert np.abs(back - vectors).max() < 0.5 * np.abs(vectors).max()
    found = all_distances(shrink(vectors, kind), vectors, "cosine")
    assert ((found >= 0) & (found <= 2)).all()


@pytest.mark.parametrize("kind", SMALL)
def test_values_beyond_float32_are_refused(kind):
    vectors = np.full((2, 50), 3e38, dtype=np.float32)
    vectors[:, ::2] *= -1
    with pytest.raises(InvalidInput, match=r"too large .* rescale"):
        shrink(vectors, kind)


def test_wrong_arguments_are_refused(rng):
    vectors = some(rng, 4, 10)
    with pytest.raises(InvalidInput, match="kind"):
        shrink(vectors, "float16")
    with pytest.raises(InvalidDtype, match="vectors"):
        shrink(vectors.astype(np.float64), "int8")
    kept = shrink(vectors, "int4")
    with pytest.raises(InvalidInput, match="17 bytes"):
        grow(kept[:, :16].copy(), 10)
    with pytest.raises(InvalidDtype, match="int8 or uint8"):
        grow(vectors, 10)
    with pytest.raises(InvalidInput, match="same kind"):
        kept_distances(kept, np.zeros((1, 1), np.int64), vectors[:1, :7].copy(), "l2")
    with pytest.raises(InvalidInput, match="row 4"):
        kept_distances(kept, np.full((1, 1), 4), vectors[:1], "l2")
    assert shrink(vectors[:0], "int8").shape == (0, 22)
    assert grow(kept[:0], 10).shape == (0, 10)
    assert tails_of(kept[:0]).shape == (0, 3)


PROGRAM = """
import numpy as np
from sghash.kernels.reference import small as twin
from sghash.kernels.vectors.small import shrink
from sghash.kernels.vectors.stored import kept_distances
rng = np.random.default_rng(0)
for width in (5, 100, 384):
    vectors = rng.standard_normal((60, width), dtype=np.float32)
    rows = rng.integers(-1, 60, (4, 30))
    for kind in ("int8", "int4"):
        kept = shrink(vectors, kind)
        assert (kept == twin.shrink(vectors, kind)).all()
        for metric in ("l2", "ip", "cosine"):
            found = kept_distances(kept, rows, vectors[:4], metric)
            assert (found == twin.small_distances(kept, rows, vectors[:4], metric)).all()
print("the same")
"""

OTHER_CPUS = {
    "plain": {"SGHASH_SHUFFLE": "0"},
    "generic": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
}


@pytest.mark.slow
@pytest.mark.parametrize("cpu", list(OTHER_CPUS))
def test_other_cpus_give_the_same_bits(cpu, tmp_path):
    environment = {**os.environ, **OTHER_CPUS[cpu], "NUMBA_CACHE_DIR": str(tmp_path)}
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment
    )
    assert out.stdout.split() == ["the", "same"]
