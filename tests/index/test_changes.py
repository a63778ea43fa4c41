"""What a change leaves alone, and what it returns."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import sghash
from sghash import HammingIndex, InvalidInput
from sghash.kernels import reference

N_BITS = 64


def test_what_was_taken_before_a_change_stays_as_it_was(rng):
    index = HammingIndex(n_bits=N_BITS)
    rows = rng.integers(0, 256, (200, 8), dtype=np.uint8)
    taken = []
    for start in range(0, 200, 3):
        index.add(rows[start : start + 3])
        taken.append(index.codes)
    index.delete([0, 7])
    for i, codes in enumerate(taken):
        np.testing.assert_array_equal(codes, rows[: 3 * i + 3])
        assert not codes.flags.writeable


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda i: pickle.loads(pickle.dumps(i))]
)
def test_a_copy_shares_no_change(clone, rng):
    index = HammingIndex(n_bits=N_BITS)
    rows = rng.integers(0, 256, (30, 8), dtype=np.uint8)
    index.add(rows[:10])
    index.add(rows[10:11])  # there is spare room now
    other = clone(index)
    assert index.add(rows[11]).tolist() == other.add(rows[12]).tolist() == [11]
    np.testing.assert_array_equal(index.codes, rows[:12])
    np.testing.assert_array_equal(other.codes[:11], rows[:11])
    np.testing.assert_array_equal(other.codes[11], rows[12])
    assert other.search(rows[12], 1).ids.tolist() == [[11]]


def test_add_returns_the_ids_in_the_order_given(rng):
    index = HammingIndex(n_bits=N_BITS)
    rows = rng.integers(0, 256, (6, 8), dtype=np.uint8)
    given = np.asarray([5, 3, 9])
    found = index.add(rows[:3], ids=given)
    assert found.tolist() == [5, 3, 9] and found.dtype == np.int64
    found[:] = 0  # neither ours nor the caller's array
    assert given.tolist() == [5, 3, 9] and index.ids.tolist() == [3, 5, 9]
    assert index.add(rows[3:5]).tolist() == [10, 11]
    assert index.add(rows[:0]).tolist() == []
    np.testing.assert_array_equal(index.codes_of([5, 3, 9, 10, 11]), rows[:5])


def test_ids_end_where_the_next_one_is_still_a_number(tmp_path):
    index = HammingIndex(n_bits=8)
    most = 2**63 - 2
    row = np.zeros((1, 1), dtype=np.uint8)
    with pytest.raises(InvalidInput, match=f"at most {most}"):
        index.add(row, ids=[most + 1])
    assert index.add(row, ids=[most]).tolist() == [most]
    index.save(tmp_path / "index")
    for opened in (index, HammingIndex.load(tmp_path / "index")):
        with pytest.raises(InvalidInput, match="cannot be numbered"):
            opened.add(row)
        assert opened.add(row, ids=[4]).tolist() == [4]
        assert opened.search(row, 3).ids.tolist() == [[4, most, -1]]
        opened.delete([most])
        assert opened.ids.tolist() == [4]


def test_an_index_that_was_emptied_answers_with_padding():
    index = HammingIndex(n_bits=8)
    index.add(np.zeros((2, 1), dtype=np.uint8))
    index.delete([0, 1])
    assert index.search(np.zeros((1, 1), dtype=np.uint8), 2).ids.tolist() == [[-1, -1]]
    assert len(index.range_search(np.zeros((1, 1), dtype=np.uint8), 8).ids) == 0
    assert index.add(np.zeros((1, 1), dtype=np.uint8)).tolist() == [2]


def test_mapped_codes_are_searched_as_they_are(tmp_path, rng):
    """Their padding is not checked when they are mapped: it counts, but nothing breaks."""
    index = HammingIndex(n_bits=9)
    index.add(sghash.pack_bits(rng.random((300, 9)) < 0.5))
    index.save(tmp_path / "index")
    raw = bytearray((tmp_path / "index").read_bytes())
    start = raw.find(index.codes.tobytes())
    raw[start : start + 600] = rng.integers(0, 256, 600, dtype=np.uint8).tobytes()
    (tmp_path / "index").write_bytes(raw)
    mapped = HammingIndex.load(tmp_path / "index", mmap=True)
    for n_queries in (1, 20):
        queries = index.codes[:n_queries]
        expected = reference.hamming_neighbors(mapped.codes, queries, 300, n_bits=16)
        found = mapped.search(queries, 300)
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.distances, expected.distances)
