"""Every Hamming kernel gives, bit for bit, what the reference gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sghash.kernels import KERNELS, kernel, reference

FAST = [name for name in KERNELS if name != "reference"]
# Every width the kernels treat apart: bytes, words, odd widths, several words, beyond four words.
# One for each loop (a word, words, bytes left over); the others are slow only for their number.
LENGTHS = [13, 32, 64, 257]
MORE = [1, 5, 8, 16, 24, 40, 47, 61, 65, 96, 128, 150, 192, 256, 511, 1000]


def make(rng, n, n_bits, kind):
    if kind == "few distinct":
        bits = (rng.random((4, n_bits)) < 0.5)[rng.integers(0, 4, n)]
    elif kind == "equal":
        bits = np.repeat(rng.random((1, n_bits)) < 0.5, n, axis=0)
    else:
        bits = rng.random((n, n_bits)) < 0.5
    return np.packbits(bits, axis=1)


def assert_same(found, expected):
    for got, wanted in zip(found, expected, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize(
    "n_bits", [*LENGTHS, *(pytest.param(n, marks=pytest.mark.slow) for n in MORE)]
)
@pytest.mark.parametrize("n_queries", [1, 3, 9])
def test_neighbours_equal_the_reference(name, n_bits, n_queries, rng):
    queries = make(rng, n_queries, n_bits, "random")
    for n, kind in [(1, "random"), (600, "random"), (600, "few distinct"), (300, "equal")]:
        codes = make(rng, n, n_bits, kind)
        masks = [None, rng.random(n) < 0.7, rng.random(n) < 0.05, np.zeros(n, dtype=bool)]
        for k in (1, 10, n, n + 3):
            for mask in masks:
                expected = reference.hamming_neighbors(codes, queries, k, n_bits=n_bits, mask=mask)
                for threads in (1, 2, 3):
                    found = kernel(name).hamming_neighbors(
                        codes, queries, k, n_bits=n_bits, mask=mask, threads=threads
                    )
                    assert_same(found, expected)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("n_bits", [7, 32, 64, 100, 300])
@pytest.mark.parametrize("n_queries", [1, 9])
def test_ranges_equal_the_reference(name, n_bits, n_queries, rng):
    codes, queries = make(rng, 500, n_bits, "random"), make(rng, n_queries, n_bits, "random")
    for radius in (0, n_bits // 3, n_bits // 2, n_bits, 5 * n_bits):
        for mask in (None, rng.random(500) < 0.5):
            expected = reference.hamming_range(codes, queries, radius, n_bits=n_bits, mask=mask)
            for threads in (1, 2):
                found = kernel(name).hamming_range(
                    codes, queries, radius, n_bits=n_bits, mask=mask, threads=threads
                )
                assert_same(found, expected)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("n_queries", [1, 20])
def test_falling_distances_and_small_buffers(name, n_queries):
    """The worst case for the threshold: every row is nearer than those before it."""
    n = 20_000
    codes = np.packbits(np.arange(64) < (64 - np.arange(n) * 65 // n)[:, None], axis=1)
    queries = np.zeros((n_queries, 8), dtype=np.uint8)
    expected = reference.hamming_neighbors(codes, queries[:1], 100, n_bits=64)
    found = kernel(name).hamming_neighbors(codes, queries, 100, n_bits=64)
    for row in range(n_queries):
        np.testing.assert_array_equal(found.ids[row], expected.ids[0])
        np.testing.assert_array_equal(found.distances[row], expected.distances[0])


@pytest.mark.parametrize("name", FAST)
def test_range_over_several_chunks(name, rng):
    codes = make(rng, 70_000, 16, "random")
    expected = reference.hamming_range(codes, codes[:9], 3, n_bits=16)
    assert_same(kernel(name).hamming_range(codes, codes[:9], 3, n_bits=16), expected)


@pytest.mark.parametrize("name", FAST)
def test_no_codes_and_no_queries(name):
    none, one = np.empty((0, 2), dtype=np.uint8), np.zeros((1, 2), dtype=np.uint8)
    assert (kernel(name).hamming_neighbors(none, one, 3, n_bits=16).ids == -1).all()
    assert kernel(name).hamming_neighbors(one, none, 3, n_bits=16).ids.shape == (0, 3)
    assert kernel(name).hamming_range(none, one, 3, n_bits=16).limits.tolist() == [0, 0]
    assert kernel(name).hamming_range(one, none, 3, n_bits=16).limits.tolist() == [0]


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 90), st.integers(1, 40), st.integers(1, 12))
def test_any_shape(seed, n, k, n_queries):
    rng = np.random.default_rng(seed)
    codes, queries = make(rng, n, 64, "random"), make(rng, n_queries, 64, "few distinct")
    expected = reference.hamming_neighbors(codes, queries, k, n_bits=64)
    assert_same(kernel("simd").hamming_neighbors(codes, queries, k, n_bits=64), expected)
