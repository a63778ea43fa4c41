"""One query over few codes, by counting: the same answer as the obvious way, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sghash import HammingIndex
from sghash.bits import pack_bits
from sghash.kernels import reference
from sghash.kernels.hamming import single


def same(codes, query, k, n_bits, mask=None):
    found = single.nearest_to_one(codes, query, k, n_bits, mask)
    right = reference.hamming_neighbors(codes, query, k, n_bits=n_bits, mask=mask)
    np.testing.assert_array_equal(found.ids, right.ids)
    np.testing.assert_array_equal(found.distances, right.distances)
    assert found.distances.dtype == np.int32


@pytest.mark.parametrize("n_bits", [3, 8, 13, 16, 32, 64, 77, 128, 192, 256, 320, 1000])
def test_every_width_and_more_rows_than_a_piece(n_bits, rng):
    codes = pack_bits(rng.random((single.PIECE_ROWS + 777, n_bits)) < 0.5)
    for k in (1, 10, 500):
        same(codes, codes[7:8], k, n_bits)
    same(codes, codes[9:10], 20, n_bits, rng.random(len(codes)) < 0.01)


@settings(max_examples=60)
@given(
    n=st.integers(1, 300), n_bits=st.integers(1, 40), k=st.integers(1, 400), seed=st.integers(0, 99)
)
def test_ties_masks_and_more_neighbours_than_rows(n, n_bits, k, seed):
    rng = np.random.default_rng(seed)
    codes = pack_bits(rng.random((n, n_bits)) < 0.1)
    query = pack_bits(rng.random((1, n_bits)) < 0.1)
    same(codes, query, k, n_bits)
    same(codes, query, k, n_bits, rng.random(n) < 0.3)


def test_duplicates_only_and_nothing_allowed(rng):
    codes = np.repeat(pack_bits(rng.random((1, 24)) < 0.5), single.PIECE_ROWS * 2 + 5, axis=0)
    same(codes, codes[:1], 30, 24)
    same(codes, codes[:1], 30, 24, np.zeros(len(codes), dtype=bool))
    same(codes, codes[:1] ^ np.uint8(255), 30, 24)


def test_rows_that_do_not_begin_at_a_word(rng):
    raw = rng.integers(0, 256, 16 * 500 + 3, dtype=np.uint8)
    for shift in (0, 1, 3):
        codes = raw[shift : shift + 16 * 500].reshape(500, 16)
        same(codes, codes[4:5], 20, 128)


def test_one_query_equals_the_same_among_many(rng):
    index = HammingIndex(96)
    codes = pack_bits(rng.random((3000, 96)) < 0.5)
    index.add(codes, ids=np.arange(3000) * 3)
    many = index.search(codes[:9], 50)
    for i in range(9):
        one = index.search(codes[i], 50)
        np.testing.assert_array_equal(one.ids[0], many.ids[i])
