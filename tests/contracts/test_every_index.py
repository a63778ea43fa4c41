"""What every index must do, whatever it is built on."""

from __future__ import annotations

import numpy as np
import pytest

from sghash import BadFile, InvalidInput, pack_bits
from sghash.errors import InvalidDtype, NewerFormat
from sghash.index import INDEXES
from sghash.kernels import reference

pytestmark = pytest.mark.parametrize("make", INDEXES.values(), ids=INDEXES)


def random_codes(rng, n, n_bits):
    return pack_bits(rng.random((n, n_bits)) < 0.5)


@pytest.mark.parametrize("n_bits", [16, 32, 64, 77, 128, 256])
def test_search_is_exact(make, n_bits, rng):
    index, codes = make(n_bits=n_bits), random_codes(rng, 500, n_bits)
    for start in range(0, 500, 90):
        index.add(codes[start : start + 90])
    assert len(index) == 500
    queries = random_codes(rng, 12, n_bits)
    expected = reference.hamming_neighbors(codes, queries, 20, n_bits=n_bits)
    distances, ids = index.search(queries, k=20)
    assert distances.dtype == np.int32 and ids.dtype == np.int64
    np.testing.assert_array_equal(distances, expected.distances)
    np.testing.assert_array_equal(ids, expected.ids)


def test_ties_go_to_the_smaller_id_whatever_the_order_of_adding(make, rng):
    index, codes = make(n_bits=4), random_codes(rng, 300, 4)
    ids = rng.permutation(300) * 7
    for start in range(0, 300, 77):
        given = index.add(codes[start : start + 77], ids=ids[start : start + 77])
        np.testing.assert_array_equal(given, ids[start : start + 77])
    order = np.argsort(ids)
    expected = reference.hamming_neighbors(codes[order], codes[:9], 40, n_bits=4)
    found = index.search(codes[:9], k=40)
    np.testing.assert_array_equal(found.ids, ids[order][expected.ids])
    np.testing.assert_array_equal(found.distances, expected.distances)
    np.testing.assert_array_equal(index.codes_of(ids), codes)


def test_deleting_shifts_no_id(make, rng):
    index, codes = make(n_bits=32), random_codes(rng, 50, 32)
    index.add(codes)
    index.delete([3, 49, 10])
    assert len(index) == 47
    assert index.search(codes[20], k=1).ids[0, 0] == 20
    assert 3 not in index.search(codes[3], k=47).ids
    index.add(codes[:2])
    assert index.ids[-2:].tolist() == [50, 51]  # numbers of deleted rows are not used again
    index.add(codes[3], ids=[3])
    np.testing.assert_array_equal(index.codes_of([3])[0], codes[3])


def test_range_search_includes_the_radius(make):
    index = make(n_bits=8)
    index.add(pack_bits(np.tril(np.ones((8, 8), dtype=int))), ids=np.arange(8) + 100)
    found = index.range_search(pack_bits([[0] * 8, [1] * 8]), 2)
    assert found.limits.tolist() == [0, 2, 5]
    assert found.ids.tolist() == [100, 101, 107, 106, 105]
    assert found.distances.tolist() == [1, 2, 0, 1, 2]


def test_mask_allows_rows_in_the_order_of_ids(make, rng):
    index, codes = make(n_bits=16), random_codes(rng, 40, 16)
    index.add(codes, ids=np.arange(40)[::-1])
    mask = index.ids % 2 == 0
    assert (index.search(codes[:5], k=20, mask=mask).ids % 2 == 0).all()
    assert (index.search(codes[:5], k=21, mask=mask).ids[:, 20] == -1).all()


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("mmap", [False, True])
def test_saving_and_loading(make, explicit, mmap, tmp_path, rng):
    index, codes = make(n_bits=77), random_codes(rng, 200, 77)
    index.add(codes, ids=rng.permutation(1000)[:200] if explicit else None)
    path = tmp_path / "codes.sgh"
    index.save(path)
    again = make.load(path, mmap=mmap)
    assert len(again) == 200 and again.n_bits == 77
    np.testing.assert_array_equal(again.ids, index.ids)
    for got, expected in zip(again.search(codes, 5), index.search(codes, 5), strict=True):
        np.testing.assert_array_equal(got, expected)
    again.add(codes[:1])
    assert again.ids[-1] == index.ids[-1] + 1
    again.delete(again.ids[:1])
    assert len(make.load(path)) == 200  # the file is as it was
    assert [p.name for p in tmp_path.iterdir()] == ["codes.sgh"]


def test_an_empty_index_answers_with_padding(make, tmp_path):
    index = make(n_bits=10)
    found = index.search(np.zeros(2, dtype=np.uint8), k=3)
    assert found.ids.tolist() == [[-1, -1, -1]]
    index.save(tmp_path / "empty")
    assert len(make.load(tmp_path / "empty", mmap=True)) == 0


def test_awkward_arrays_just_work(make, rng):
    index, codes = make(n_bits=64), random_codes(rng, 100, 64)
    index.add(np.asfortranarray(codes))
    np.testing.assert_array_equal(index.search(codes[::-2], k=1).distances, 0)
    assert index.search(codes[5], k=1).ids.shape == (1, 1)  # 1-D: one query


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda i: i.add(np.zeros((1, 3), np.uint8)), InvalidInput, "3 bytes wide"),
        (lambda i: i.add(np.zeros((1, 2), np.float32)), InvalidDtype, "uint8"),
        (lambda i: i.add(np.array([[0, 1]], np.uint8)), InvalidInput, "padding"),
        (lambda i: i.add(np.zeros((2, 2), np.uint8), ids=[7, 7]), InvalidInput, "twice"),
        (lambda i: i.add(np.zeros((1, 2), np.uint8), ids=[1]), InvalidInput, "already"),
        (lambda i: i.add(np.zeros((1, 2), np.uint8), ids=[-1]), InvalidInput, "negative"),
        (lambda i: i.add(np.zeros((1, 2), np.uint8), ids=[2**63 - 1]), InvalidInput, "at most"),
        (lambda i: i.add(np.zeros((1, 2), np.uint8), ids=[True]), InvalidDtype, "truth values"),
        (lambda i: i.add(np.zeros((2, 2), np.uint8), ids=[[7], [8, 9]]), InvalidInput, "one row"),
        (lambda i: i.add(np.zeros((1, 2), np.uint8), ids=[0.5]), InvalidDtype, "whole"),
        (lambda i: i.add(np.zeros((1, 2), np.uint8), ids=[8, 9]), InvalidInput, "one per row"),
        (lambda i: i.search(np.zeros((1, 3), np.uint8)), InvalidInput, "same model"),
        (lambda i: i.search(np.zeros((1, 2), np.uint8), k=0), InvalidInput, "at least 1"),
        (lambda i: i.search(np.zeros((1, 2), np.uint8), k=-3), InvalidInput, "at least 1"),
        (lambda i: i.search(np.zeros((1, 2), np.uint8), k=1.5), InvalidDtype, "whole"),
        (lambda i: i.search(np.zeros((1, 2), np.uint8), threads=0), InvalidInput, "threads"),
        (lambda i: i.search(np.zeros((1, 2), np.uint8), mask=[True]), InvalidInput, "mask"),
        (lambda i: i.search(np.zeros((1, 2), np.uint8), mask=[1] * 3), InvalidDtype, "boolean"),
        (lambda i: i.range_search(np.zeros((1, 2), np.uint8), -1), InvalidInput, "negative"),
        (lambda i: i.delete([99]), InvalidInput, "99 is not in"),
        (lambda i: i.codes_of([0, 99]), InvalidInput, "99 is not in"),
    ],
)
def test_bad_input_changes_nothing(make, call, error, sentence):
    index = make(n_bits=10)
    index.add(pack_bits(np.eye(3, 10)))
    before = index.ids.tolist(), index.codes.tolist()
    with pytest.raises(error, match=sentence):
        call(index)
    assert (index.ids.tolist(), index.codes.tolist()) == before


def test_every_flipped_byte_and_every_truncation_is_noticed(make, tmp_path, rng):
    index = make(n_bits=20)
    index.add(random_codes(rng, 11, 20), ids=np.arange(11) * 2)
    path = tmp_path / "codes"
    index.save(path)
    whole = path.read_bytes()
    used = [*range(20), *range(whole.index(b"{"), whole.rindex(b"}") + 1)]
    data = len(whole) - 11 * 8
    for place in [*used, *range(data - 31, len(whole))]:
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        try:
            same = make.load(path)
        except BadFile:
            continue
        # Only the gap between rows and ids may differ without consequence.
        np.testing.assert_array_equal(same.codes, index.codes)
        np.testing.assert_array_equal(same.ids, index.ids)
        assert whole[place] == 0
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(BadFile):
            make.load(path, mmap=length % 2 == 0)


def test_a_newer_format_says_so(make, tmp_path):
    index = make(n_bits=8)
    index.save(tmp_path / "codes")
    raw = bytearray((tmp_path / "codes").read_bytes())
    raw[8] = 99
    (tmp_path / "codes").write_bytes(raw)
    with pytest.raises(NewerFormat, match="upgrade"):
        make.load(tmp_path / "codes")
