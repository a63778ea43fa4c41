from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from sghash import InvalidInput, bits
from sghash.errors import InvalidDtype

any_bits = st.integers(1, 200).flatmap(
    lambda n_bits: hnp.arrays(np.bool_, st.tuples(st.integers(0, 9), st.just(n_bits)))
)

CONVERTERS = {
    "faiss": (bits.to_faiss, bits.from_faiss),
    "ubinary": (bits.to_ubinary, bits.from_ubinary),
    "binary int8": (bits.to_binary_int8, bits.from_binary_int8),
    "vespa": (bits.to_vespa, bits.from_vespa),
    "bit strings": (bits.to_bit_strings, bits.from_bit_strings),
    "milvus": (bits.to_milvus, bits.from_milvus),
    "hex": (bits.to_hex, bits.from_hex),
}


@given(any_bits)
def test_unpacking_undoes_packing(array):
    codes = bits.pack_bits(array)
    assert codes.dtype == np.uint8 and codes.shape == (len(array), -(-array.shape[1] // 8))
    np.testing.assert_array_equal(bits.unpack_bits(codes, array.shape[1]), array)


@given(any_bits)
def test_packing_is_numpys(array):
    np.testing.assert_array_equal(bits.pack_bits(array), np.packbits(array, axis=1))


@given(any_bits)
def test_zero_one_and_plus_minus_one_mean_the_same(array):
    expected = bits.pack_bits(array)
    np.testing.assert_array_equal(bits.pack_bits(array.astype(np.int8)), expected)
    np.testing.assert_array_equal(bits.pack_bits(np.where(array, 1.0, -1.0)), expected)


@pytest.mark.parametrize("name", CONVERTERS)
@given(array=any_bits)
def test_every_layout_round_trips(name, array):
    to, back = CONVERTERS[name]
    codes, n_bits = bits.pack_bits(array), array.shape[1]
    np.testing.assert_array_equal(back(to(codes, n_bits), n_bits), codes)


def test_layouts_by_hand():
    codes = bits.pack_bits([1, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    assert codes.tolist() == [[128, 192]]
    assert bits.to_faiss(codes, 10).tolist() == [[1, 3]]
    assert bits.to_binary_int8(codes, 10).tolist() == [[0, 64]]
    assert bits.to_vespa(codes, 10).tolist() == [[-128, -64]]
    assert bits.to_bit_strings(codes, 10) == ["1000000011"]
    assert bits.to_milvus(codes, 10) == [b"\x80\xc0"]
    assert bits.to_hex(codes, 10) == ["80c0"]


def test_faiss_order_is_that_of_faiss(rng):
    faiss = pytest.importorskip("faiss")
    vectors = rng.standard_normal((20, 24)).astype(np.float32)
    codes = np.empty((20, 3), dtype=np.uint8)
    faiss.fvecs2bitvecs(faiss.swig_ptr(vectors), faiss.swig_ptr(codes), 24, 20)
    np.testing.assert_array_equal(bits.from_faiss(codes, 24), bits.pack_bits(vectors >= 0))


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([[0, 2]], InvalidInput),
        ([[0, 1, -1]], InvalidInput),
        ([[0.5]], InvalidInput),
        ([[np.nan, 1.0]], InvalidInput),
        ([["0", "1"]], InvalidDtype),
        (np.zeros((2, 3, 4)), InvalidInput),
        (np.zeros((2, 0)), InvalidInput),
        (np.zeros((1, 4097)), InvalidInput),
    ],
)
def test_what_is_not_bits_is_refused(value, error):
    with pytest.raises(error):
        bits.pack_bits(value)


def test_set_padding_is_refused():
    with pytest.raises(InvalidInput, match="padding"):
        bits.unpack_bits(np.array([[0b00000001]], dtype=np.uint8), 7)
    with pytest.raises(InvalidInput, match="padding"):
        bits.from_faiss(np.array([[0b10000000]], dtype=np.uint8), 7)


@pytest.mark.parametrize("bad", ["012", "0101", ""])
def test_bad_bit_strings_are_refused(bad):
    with pytest.raises(InvalidInput, match="3 characters"):
        bits.from_bit_strings([bad], 3)


def test_bad_hex_and_bytes_are_refused():
    with pytest.raises(InvalidInput, match="hexadecimal"):
        bits.from_hex(["zz"], 8)
    with pytest.raises(InvalidInput, match="expected 1 bytes"):
        bits.from_milvus([b"ab"], 8)
    with pytest.raises(InvalidDtype, match="int8"):
        bits.from_vespa(np.zeros((1, 1), dtype=np.uint8), 8)
