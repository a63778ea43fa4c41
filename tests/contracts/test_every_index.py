"""What every index must do, whatever it is built on and however its queries look."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sghash import ITQ
from sghash.bits import pack_bits, unpack_bits
from sghash.errors import BadFile, InvalidDtype, InvalidInput, NewerFormat
from sghash.index import INDEXES, HammingIndex, MultiIndex, PartitionedIndex, TableIndex
from sghash.tables import QueryTables


class Case(NamedTuple):
    """A way to make an index for codes of some bits, queries for it, and its slow twin.

    `scores(index, codes, queries)` are all distances (n_queries, n) by definition. Numbers in the
    tables are small and whole, so that sums are exact and ties are everywhere.
    """

    make: Callable[[int], Any]
    queries: Callable[[np.random.Generator, int, int], Any]
    scores: Callable[[Any, Any, Any], Any]
    dtype: type


def random_codes(rng, n, n_bits):
    return pack_bits(rng.random((n, n_bits)) < 0.5)


def hamming_scores(index, codes, queries):
    return np.bitwise_count(codes[None] ^ queries[:, None]).sum(axis=2, dtype=np.int64)


def gram_of(n_bits):
    half = np.random.default_rng(n_bits).integers(-1, 2, (n_bits, n_bits)).astype(float)
    return half + half.T


def bit_tables(rng, n, n_bits):
    tables = rng.integers(-3, 4, (n, n_bits)).astype(np.float32)
    return QueryTables(tables, rng.integers(-5, 6, n).astype(np.float32))


def byte_tables(rng, n, n_bits):
    tables = rng.integers(-3, 4, (n, -(-n_bits // 8), 256)).astype(np.float32)
    return QueryTables(tables, rng.integers(-5, 6, n).astype(np.float32))


def bit_scores(index, codes, queries):
    bits = unpack_bits(codes, index.n_bits).astype(np.float64)
    own = 0 if index.gram is None else np.einsum("ij,jk,ik->i", bits, index.gram, bits)
    return queries.tables @ bits.T + queries.offsets[:, None] + own


def byte_scores(index, codes, queries):
    columns = np.arange(codes.shape[1])
    return queries.tables[:, columns, codes].sum(axis=2) + queries.offsets[:, None]


def n_bytes(n_bits):
    return -(-n_bits // 8)


CASES = {
    "codes": Case(HammingIndex, random_codes, hamming_scores, np.int32),
    "one number per bit": Case(
        lambda n: TableIndex(n_bytes(n), n_bits=n), bit_tables, bit_scores, np.float32
    ),
    "bits and a gram": Case(
        lambda n: TableIndex(n_bytes(n), n_bits=n, gram=gram_of(n)), bit_tables, bit_scores,
        np.float32,
    ),
    "256 numbers per byte": Case(
        lambda n: TableIndex(n_bytes(n), n_bits=n), byte_tables, byte_scores, np.float32
    ),
    "codes by parts": Case(MultiIndex, random_codes, hamming_scores, np.int32),
    "codes in lists": Case(
        lambda n: PartitionedIndex(n_bytes(n), n_bits=n, spill=0.2), random_codes, hamming_scores,
        np.int32,
    ),
    "one number per bit, in lists": Case(
        lambda n: PartitionedIndex(n_bytes(n), n_bits=n, gram=gram_of(n)), bit_tables, bit_scores,
        np.float32,
    ),
    "256 numbers per byte, in lists": Case(
        lambda n: PartitionedIndex(n_bytes(n), n_bits=n), byte_tables, byte_scores, np.float32
    ),
}  # fmt: skip

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def test_every_index_has_a_case():
    assert {case.make(8).kind for case in CASES.values()} == set(INDEXES)


def expected_answer(scores, ids, k, allowed=None):
    """The k least of (score, id) by sorting everything."""
    if allowed is not None:
        scores, ids = scores[:, allowed], ids[allowed]
    order = np.lexsort((np.broadcast_to(ids, scores.shape), scores), axis=1)[:, :k]
    found = np.full((len(scores), k), -1)
    found[:, : order.shape[1]] = ids[order]
    return np.take_along_axis(scores, order, axis=1), found


def check_search(case, index, codes, ids, queries, k, mask=None, threads=None):
    distances, found = index.search(queries, k, mask=mask, threads=threads)
    scores = case.scores(index, codes, queries)
    order = np.argsort(ids)
    expected, right = expected_answer(scores[:, order], np.asarray(ids)[order], k, mask)
    assert distances.dtype == case.dtype and found.dtype == np.int64
    np.testing.assert_array_equal(found, right)
    np.testing.assert_array_equal(distances[:, : expected.shape[1]], expected)


@every_case
@pytest.mark.parametrize("n_bits", [16, 32, 64, 77, 128, 256])
def test_search_is_exact(case, n_bits, rng):
    index, codes = case.make(n_bits), random_codes(rng, 500, n_bits)
    for start in range(0, 500, 90):
        index.add(codes[start : start + 90])
    assert len(index) == 500 and index.n_bytes == codes.shape[1]
    for n_queries, k, threads in ((12, 20, None), (1, 3, 1), (70, 500, 2)):
        queries = case.queries(rng, n_queries, n_bits)
        check_search(case, index, codes, np.arange(500), queries, k, threads=threads)


@every_case
@settings(max_examples=40)
@given(data=st.data())
def test_any_rows_ids_masks_and_lengths(case, data):
    n_bits, n = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 60))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    codes, ids = random_codes(rng, n, n_bits), rng.permutation(200)[:n]
    index, done = case.make(n_bits), 0
    while done < n:
        some = slice(done, done + data.draw(st.integers(1, n)))
        index.add(codes[some], ids=ids[some])
        done = some.stop
    gone = rng.random(n) < 0.2
    index.delete(ids[gone])
    codes, ids = codes[~gone], ids[~gone]
    mask = rng.random(len(ids)) < 0.6 if data.draw(st.booleans()) else None
    queries = case.queries(rng, data.draw(st.integers(1, 10)), n_bits)
    if len(ids):
        check_search(case, index, codes, ids, queries, data.draw(st.integers(1, 70)), mask)


@every_case
def test_ties_go_to_the_smaller_id_whatever_the_order_of_adding(case, rng):
    index, codes = case.make(4), random_codes(rng, 300, 4)
    ids = rng.permutation(300) * 7
    for start in range(0, 300, 77):
        given = index.add(codes[start : start + 77], ids=ids[start : start + 77])
        np.testing.assert_array_equal(given, ids[start : start + 77])
    check_search(case, index, codes, ids, case.queries(rng, 9, 4), 40)
    np.testing.assert_array_equal(index.codes_of(ids), codes)


@every_case
def test_deleting_shifts_no_id(case, rng):
    index, codes = case.make(32), random_codes(rng, 50, 32)
    index.add(codes)
    index.delete([3, 49, 10])
    assert len(index) == 47
    left = np.setdiff1d(np.arange(50), [3, 49, 10])
    check_search(case, index, codes[left], left, case.queries(rng, 5, 32), 47)
    index.add(codes[:2])
    assert index.ids[-2:].tolist() == [50, 51]  # numbers of deleted rows are not used again
    index.add(codes[3], ids=[3])
    np.testing.assert_array_equal(index.codes_of([3])[0], codes[3])


def test_range_search_includes_the_radius():
    index = HammingIndex(8)
    index.add(pack_bits(np.tril(np.ones((8, 8), dtype=int))), ids=np.arange(8) + 100)
    found = index.range_search(pack_bits([[0] * 8, [1] * 8]), 2)
    assert found.limits.tolist() == [0, 2, 5]
    assert found.ids.tolist() == [100, 101, 107, 106, 105]
    assert found.distances.tolist() == [1, 2, 0, 1, 2]


@every_case
def test_mask_allows_rows_in_the_order_of_ids(case, rng):
    index, codes = case.make(16), random_codes(rng, 40, 16)
    index.add(codes, ids=np.arange(40)[::-1])
    mask, queries = index.ids % 2 == 0, case.queries(rng, 5, 16)
    assert (index.search(queries, k=20, mask=mask).ids % 2 == 0).all()
    assert (index.search(queries, k=21, mask=mask).ids[:, 20] == -1).all()


@every_case
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("mmap", [False, True])
def test_saving_and_loading(case, explicit, mmap, tmp_path, rng):
    index, codes = case.make(77), random_codes(rng, 200, 77)
    index.add(codes, ids=rng.permutation(1000)[:200] if explicit else None)
    path = tmp_path / "codes.sgh"
    index.save(path)
    again = type(index).load(path, mmap=mmap)
    assert len(again) == 200 and again.n_bits == 77
    np.testing.assert_array_equal(again.ids, index.ids)
    queries = case.queries(rng, 20, 77)
    for got, expected in zip(again.search(queries, 5), index.search(queries, 5), strict=True):
        np.testing.assert_array_equal(got, expected)
    again.add(codes[:1])
    assert again.ids[-1] == index.ids[-1] + 1
    again.delete(again.ids[:1])
    assert len(type(index).load(path)) == 200  # the file is as it was
    assert [p.name for p in tmp_path.iterdir()] == ["codes.sgh"]
    for other in set(INDEXES.values()) - {type(index)}:
        with pytest.raises(InvalidInput, match="holds an index of the kind"):
            other.load(path)


@every_case
def test_an_empty_index_answers_with_padding(case, tmp_path, rng):
    index = case.make(10)
    found = index.search(case.queries(rng, 1, 10), k=3)
    assert found.ids.tolist() == [[-1, -1, -1]]
    index.save(tmp_path / "empty")
    assert len(type(index).load(tmp_path / "empty", mmap=True)) == 0


@every_case
@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda i: pickle.loads(pickle.dumps(i))]
)
def test_a_copy_shares_no_change(case, clone, rng):
    index, rows = case.make(64), random_codes(rng, 30, 64)
    index.add(rows[:10])
    index.add(rows[10:11])  # there are spare rows now
    queries = case.queries(rng, 3, 64)
    index.search(queries, 2)
    other = clone(index)
    assert index.add(rows[11]).tolist() == other.add(rows[12]).tolist() == [11]
    check_search(case, index, rows[:12], np.arange(12), queries, 12)
    check_search(case, other, rows[[*range(11), 12]], np.arange(12), queries, 12)


@every_case
def test_rows_that_lie_elsewhere_are_not_copied(case, rng):
    like, codes = case.make(24), random_codes(rng, 40, 24)
    index = case.make(24)
    index.add(codes, ids=np.arange(40) + 7)
    over = like.over(codes, index.row_ids)
    # Lists need a layout of their own.
    assert isinstance(over, PartitionedIndex) or np.shares_memory(over.codes, codes)
    queries = case.queries(rng, 4, 24)
    for got, right in zip(over.search(queries, 9), index.search(queries, 9), strict=True):
        np.testing.assert_array_equal(got, right)
    before = codes.copy()
    assert over.add(codes[:1]).tolist() == [47] and len(like) == 0
    np.testing.assert_array_equal(codes, before)
    index.delete([20])
    with_a_gap = like.over(codes[:39], index.row_ids)
    assert with_a_gap.add(codes[:1]).tolist() == [47]  # not 46, which is in use


@every_case
def test_awkward_arrays_just_work(case, rng):
    index, codes = case.make(64), random_codes(rng, 100, 64)
    index.add(np.asfortranarray(codes))
    check_search(case, index, codes, np.arange(100), case.queries(rng, 3, 64), 5)
    assert index.add(codes[5]).tolist() == [100]  # 1-D: one code


CODE = np.zeros((1, 2), np.uint8)


@every_case
@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda i, q: i.add(np.zeros((1, 3), np.uint8)), InvalidInput, "3 bytes wide"),
        (lambda i, q: i.add(np.zeros((1, 2), np.float32)), InvalidDtype, "uint8"),
        (lambda i, q: i.add(np.array([[0, 1]], np.uint8)), InvalidInput, "padding"),
        (lambda i, q: i.add(np.zeros((2, 2), np.uint8), ids=[7, 7]), InvalidInput, "twice"),
        (lambda i, q: i.add(CODE, ids=[1]), InvalidInput, "already"),
        (lambda i, q: i.add(CODE, ids=[-1]), InvalidInput, "negative"),
        (lambda i, q: i.add(CODE, ids=[2**63 - 1]), InvalidInput, "at most"),
        (lambda i, q: i.add(CODE, ids=[True]), InvalidDtype, "truth values"),
        (lambda i, q: i.add(np.zeros((2, 2), np.uint8), [[7], [8, 9]]), InvalidInput, "one row"),
        (lambda i, q: i.add(CODE, ids=[0.5]), InvalidDtype, "whole"),
        (lambda i, q: i.add(CODE, ids=[8, 9]), InvalidInput, "one per row"),
        (lambda i, q: i.search(q, k=0), InvalidInput, "at least 1"),
        (lambda i, q: i.search(q, k=-3), InvalidInput, "at least 1"),
        (lambda i, q: i.search(q, k=2**63), InvalidInput, "k must be at most"),
        (lambda i, q: i.search(q, k=1.5), InvalidDtype, "whole"),
        (lambda i, q: i.search(q, threads=0), InvalidInput, "threads"),
        (lambda i, q: i.search(q, mask=[True]), InvalidInput, "mask"),
        (lambda i, q: i.search(q, mask=[1] * 3), InvalidDtype, "boolean"),
        (lambda i, q: i.search(None), InvalidDtype, "must be"),
        (lambda i, q: i.search(np.zeros((1, 2))), InvalidDtype, "must be"),
        (lambda i, q: i.delete([99]), InvalidInput, "99 is not in"),
        (lambda i, q: i.codes_of([0, 99]), InvalidInput, "99 is not in"),
    ],
)
def test_bad_input_changes_nothing(case, call, error, sentence, rng):
    index = case.make(10)
    index.add(pack_bits(np.eye(3, 10)))
    before = index.ids.tolist(), index.codes.tolist()
    with pytest.raises(error, match=sentence):
        call(index, case.queries(rng, 2, 10))
    assert (index.ids.tolist(), index.codes.tolist()) == before


@every_case
def test_queries_of_another_model_are_refused(case, rng):
    index = case.make(10)
    index.add(random_codes(rng, 3, 10))
    with pytest.raises(InvalidInput, match="model"):
        index.search(case.queries(rng, 2, 20))


@pytest.mark.parametrize(("made", "asked"), [("l2", "ip"), ("ip", "l2"), ("l2", "cosine")])
def test_tables_of_another_metric_than_the_index_are_refused(made, asked, rng):
    vectors = rng.standard_normal((50, 6)).astype(np.float32)
    model = ITQ(5, random_state=0).fit(vectors)
    index = TableIndex.for_model(model, metric=made)
    index.add(model.encode(vectors))
    index.search(model.query_tables(vectors[:2], metric=made))
    with pytest.raises(InvalidInput, match="another metric than this index"):
        index.search(model.query_tables(vectors[:2], metric=asked))


def test_tables_that_are_no_numbers_are_refused(rng):
    index = TableIndex(2, n_bits=10)
    for change in ({"tables": np.nan}, {"tables": np.inf}, {"offsets": np.nan}):
        queries = bit_tables(rng, 2, 10)
        for name, value in change.items():
            getattr(queries, name)[0] = value
        with pytest.raises(InvalidInput, match="finite"):
            index.search(queries)
    for value in (3e38, -3e37):  # finite, but their sums are not
        queries = bit_tables(rng, 2, 10)
        queries.tables[0] = value
        with pytest.raises(InvalidInput, match="too large for float32 sums"):
            index.search(queries)
    with pytest.raises(InvalidInput, match="offsets"):
        index.search(bit_tables(rng, 2, 10)._replace(offsets=np.zeros(3, np.float32)))
    for options in ({"n_bits": 20}, {"gram": np.eye(10)}, {"n_bits": 10, "gram": np.eye(9)},
                    {"n_bits": 10, "gram": np.triu(np.ones((10, 10)))},
                    {"n_bits": 10, "gram": [[1, 2], [3]]}):  # fmt: skip
        with pytest.raises(InvalidInput):
            TableIndex(2, **options)


@every_case
def test_every_flipped_byte_and_every_truncation_is_noticed(case, tmp_path, rng):
    index = case.make(9)
    index.add(random_codes(rng, 5, 9), ids=np.arange(5) * 2)
    path = tmp_path / "codes"
    index.save(path)
    whole, load = path.read_bytes(), type(index).load
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        try:
            same = load(path)
        except BadFile:
            continue
        # Only the gaps between sections may differ without consequence.
        np.testing.assert_array_equal(same.codes, index.codes)
        np.testing.assert_array_equal(same.ids, index.ids)
        assert whole[place] == 0
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(BadFile):
            load(path, mmap=length % 2 == 0)


@every_case
def test_a_newer_format_says_so(case, tmp_path):
    index = case.make(8)
    index.save(tmp_path / "codes")
    raw = bytearray((tmp_path / "codes").read_bytes())
    raw[8] = 99
    (tmp_path / "codes").write_bytes(raw)
    with pytest.raises(NewerFormat, match="upgrade"):
        type(index).load(tmp_path / "codes")
