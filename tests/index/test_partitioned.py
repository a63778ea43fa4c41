"""Lists of codes: what is visited and what is not, beside brute force over the same lists."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sghash import SGH, HammingIndex, ProductQuantizer, TableIndex
from sghash.bits import pack_bits
from sghash.errors import BadFile, InvalidDtype, InvalidInput
from sghash.index import PartitionedIndex, file, load_index
from sghash.index.lists import arranged, probing
from sghash.kernels.reference import vector_distances
from sghash.tables import QueryTables


def clustered(rng, n, width=12, n_clusters=30):
    centres = 4 * rng.standard_normal((n_clusters, width))
    rows = centres[rng.integers(n_clusters, size=n)] + rng.standard_normal((n, width))
    return rows.astype(np.float32)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    rows = clustered(rng, 4060)
    vectors, queries = rows[:4000], rows[4000:]
    model = SGH(32, random_state=0).fit(vectors)
    return vectors, queries, model, model.encode(vectors)


def truth_of(vectors, queries, k=10):
    return np.argsort(vector_distances(vectors, queries, "l2"), axis=1, kind="stable")[:, :k]


def recall(found, truth):
    return (found[:, :, None] == truth[:, None, :]).any(axis=1).mean()


def filled(data, **options):
    vectors, _, model, codes = data
    index = PartitionedIndex.for_model(model, **options)
    index.add(codes, vectors=vectors)
    return index


def members(index):
    """Rows of each list."""
    held = index.held
    return [
        held.ranks[first * 64 : first * 64 + n].astype(np.int64)
        for first, n in zip(held.starts, held.counts, strict=True)
    ]


@pytest.mark.parametrize("spill", [0.0, 0.3])
@pytest.mark.parametrize("probes", [1, 3, 12])
def test_probed_lists_are_searched_as_brute_force_would(data, probes, spill):
    vectors, queries, _, codes = data
    index = filled(data, n_lists=40, spill=spill)
    lists = members(index)
    centroids = index.partitions.centroids.astype(np.float32)
    coarse = np.square(queries[:, None] - centroids).sum(axis=2)
    found = index.search(queries, 5, kept=vectors, probes=probes, shortlist=4000)
    by_code = index.search(codes[:60], 5, vectors=queries, probes=probes)
    for i, query in enumerate(queries):
        visited = np.argsort(coarse[i], kind="stable")[:probes]
        rows = np.unique(np.concatenate([lists[number] for number in visited]))
        distances = np.square(vectors[rows] - query).sum(axis=1)
        right = rows[np.argsort(distances, kind="stable")[:5]]
        np.testing.assert_array_equal(found.ids[i, : len(right)], right)
        hamming = np.bitwise_count(codes[rows] ^ codes[i]).sum(axis=1)
        order = np.argsort(hamming, kind="stable")[:5]
        np.testing.assert_array_equal(by_code.ids[i, : len(order)], rows[order])


@settings(max_examples=25)
@given(
    n=st.integers(1, 200), n_lists=st.integers(1, 9), k=st.integers(1, 30), seed=st.integers(0, 99)
)
def test_all_lists_give_the_answer_of_a_flat_index(n, n_lists, k, seed):
    rng = np.random.default_rng(seed)
    codes = pack_bits(rng.random((n, 11)) < 0.2)
    flat, index = HammingIndex(11), PartitionedIndex(2, n_bits=11, n_lists=min(n_lists, n))
    ids = rng.permutation(1000)[:n]
    flat.add(codes, ids)
    index.add(codes, ids, vectors=rng.standard_normal((n, 3)))
    for got, right in zip(index.search(codes[:3], k), flat.search(codes[:3], k), strict=True):
        np.testing.assert_array_equal(got, right)


def test_tables_of_both_kinds_give_the_answers_of_a_table_index(data):
    vectors, queries, model, codes = data
    index, flat = filled(data), TableIndex.for_model(model)
    flat.add(codes)
    tables = model.query_tables(queries)
    got, right = index.search(tables, 20), flat.search(tables, 20)
    np.testing.assert_array_equal(got.ids, right.ids)
    quantizer = ProductQuantizer(4, random_state=0).fit(vectors)
    index, flat = PartitionedIndex.for_model(quantizer), TableIndex.for_model(quantizer)
    assert index.query_map is None
    index.add(quantizer.encode(vectors), vectors=vectors)
    flat.add(quantizer.encode(vectors))
    tables = quantizer.query_tables(queries)
    np.testing.assert_array_equal(index.search(tables, 9).ids, flat.search(tables, 9).ids)


def test_every_kind_of_query_finds_the_same_rows_if_nothing_is_left_out(data):
    vectors, queries, model, _ = data
    index, right = filled(data), truth_of(vectors, queries)
    tables, codes = model.query_tables(queries), model.encode(queries)
    half = vectors.astype(np.float16)
    options = {"k": 10, "vectors": queries, "kept": vectors}
    for found in (
        index.search(queries, 10, kept=vectors, shortlist=4000),
        index.search(tables, **options, shortlist=4000),
        index.search(codes, **options, shortlist=4000),
        index.search((codes, tables), **options, shortlist=(4000, 4000)),
        index.search(queries, 10, kept=vectors, shortlist=4000, threads=3),
    ):
        np.testing.assert_array_equal(found.ids, right)
    assert recall(index.search(queries, 10, kept=half, shortlist=4000).ids, right) > 0.98
    three = index.search((codes, tables), **options, shortlist=(400, 60)).ids
    flat = TableIndex.for_model(model)
    flat.add(data[3])
    hamming = np.bitwise_count(data[3][None] ^ codes[:, None]).sum(axis=2)
    first = hamming <= np.sort(hamming, axis=1)[:, 399:400]
    by_tables = np.stack([
        flat.search(QueryTables(*(part[i : i + 1] for part in tables[:2]), tables[2]), 60, mask=row)
        .ids[0]
        for i, row in enumerate(first)
    ])  # fmt: skip
    within = (right[:, :, None] == by_tables[:, None, :]).any(axis=2).mean()
    assert recall(three, right) >= within - 0.01 > 0.7


@pytest.mark.parametrize("metric", ["ip", "cosine"])
def test_other_metrics(data, metric):
    vectors, queries, _, _ = data
    model = SGH(32, metric=metric, random_state=0).fit(vectors)
    index = PartitionedIndex.for_model(model)
    index.add(model.encode(vectors), vectors=vectors)
    right = np.argsort(vector_distances(vectors, queries, metric), axis=1, kind="stable")[:, :10]
    found = index.search(queries, 10, kept=vectors, shortlist=4000)
    assert recall(found.ids, right) > 0.999
    assert (
        recall(index.search(queries, 10, kept=vectors, probes=40, shortlist=400).ids, right) > 0.9
    )


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_filters_find_what_an_index_of_the_allowed_rows_finds(data, share):
    vectors, queries, model, codes = data
    index, rng = filled(data), np.random.default_rng(1)
    mask = rng.random(len(vectors)) < share
    right = np.flatnonzero(mask)[truth_of(vectors[mask], queries)]
    found = index.search(queries, 10, kept=vectors, probes=12, shortlist=200, mask=mask)
    assert mask[found.ids[found.ids >= 0]].all()
    fresh = PartitionedIndex.for_model(model)
    fresh.add(codes[mask], np.flatnonzero(mask), vectors=vectors[mask])
    alone = fresh.search(queries, 10, kept=vectors[mask], probes=12, shortlist=200)
    assert recall(found.ids, right) >= recall(alone.ids, right) - 0.01


def test_deletes_and_sorted_insertion_cost_no_recall(data):
    vectors, queries, model, codes = data
    order = np.argsort(vectors[:, 0])
    grown = PartitionedIndex.for_model(model)
    # Lists are learned from the first rows: sorted ones are the worst there can be.
    for start in range(0, len(order), 500):
        some = order[start : start + 500]
        grown.add(codes[some], some, vectors=vectors[some])
    gone = np.random.default_rng(2).permutation(len(vectors))[:1500]
    grown.delete(gone)
    left = np.setdiff1d(np.arange(len(vectors)), gone)
    grown.rebalance(vectors[left])
    fresh = PartitionedIndex.for_model(model)
    fresh.add(codes[left], left, vectors=vectors[left])
    right = left[truth_of(vectors[left], queries)]
    asked = {"kept": vectors[left], "probes": 10, "shortlist": 200}
    ours, theirs = (recall(i.search(queries, 10, **asked).ids, right) for i in (grown, fresh))
    assert ours >= theirs - 0.01 > 0.8
    np.testing.assert_array_equal(grown.codes_of(left), codes[left])


def test_rows_added_one_by_one_are_the_rows_added_at_once(data):
    vectors, queries, model, codes = data
    index = PartitionedIndex.for_model(model, n_lists=20)
    index.add(codes[:1000], vectors=vectors[:1000])
    whole = index.partitions
    for i in range(1000, 1400):
        index.add(codes[i], vectors=vectors[i])
    assert index.partitions is whole and len(index) == 1400
    np.testing.assert_array_equal(index.codes, codes[:1400])
    found = index.search(queries, 10, kept=vectors[:1400].copy(), shortlist=1400)
    np.testing.assert_array_equal(found.ids, truth_of(vectors[:1400], queries))


def test_a_reader_sees_one_moment_while_rows_arrive(data):
    vectors, _, model, codes = data
    index = PartitionedIndex.for_model(model, n_lists=20)
    index.add(codes[:500], vectors=vectors[:500])
    before, failed = index.search(codes[:5], 500).ids.copy(), []
    held = index.held

    def add():
        for i in range(500, 900):
            index.add(codes[i], vectors=vectors[i])

    writer = threading.Thread(target=add)
    writer.start()
    while writer.is_alive():
        found = index.search(codes[:5], 20).ids
        failed += [1] if (found < 0).any() else []
    writer.join()
    assert not failed and len(index) == 900
    np.testing.assert_array_equal(held.codes, codes[:500])
    assert (before >= 0).all()


def test_one_row_duplicates_and_no_rows():
    index = PartitionedIndex(2)
    assert index.search(np.zeros((1, 2), np.uint8), 2).ids.tolist() == [[-1, -1]]
    index.add(np.zeros((1, 2), np.uint8), vectors=np.ones((1, 4)))
    assert index.search(np.zeros((1, 2), np.uint8), 2, probes=1).ids.tolist() == [[0, -1]]
    same = PartitionedIndex(2, n_lists=5)
    same.add(np.zeros((300, 2), np.uint8), vectors=np.ones((300, 4)))
    found = same.search(np.zeros((1, 2), np.uint8), 200)
    assert found.ids.tolist() == [list(range(200))]
    kept = np.ones((300, 4), np.float32)
    asked = {"vectors": np.ones(4), "kept": kept, "shortlist": 300}
    assert same.search(np.zeros(2, np.uint8), 3, **asked).ids.tolist() == [[0, 1, 2]]
    same.delete(np.arange(300))
    assert len(same) == 0 and same.add(np.zeros((1, 2), np.uint8), vectors=np.ones(4)) == [300]


def test_many_lists_are_looked_at_by_groups(rng):
    vectors = rng.standard_normal((3000, 6)).astype(np.float32)
    index = PartitionedIndex(2, n_lists=600)
    codes = rng.integers(0, 256, (3000, 2), dtype=np.uint8)
    index.add(codes, vectors=vectors)
    assert len(index.partitions.group_centroids) > 10
    found = index.search(codes[:50], 1, vectors=vectors[:50], kept=vectors, probes=20, shortlist=99)
    assert (found.ids[:, 0] == np.arange(50)).mean() > 0.9


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda i, v, c: i.search(v[:2], kept=v, probes=0), InvalidInput, "probes"),
        (lambda i, v, c: i.search(v[:2], kept=v, probes=1.5), InvalidDtype, "probes"),
        (lambda i, v, c: i.search(v[:2] * np.nan, kept=v), InvalidInput, "NaN"),
        (lambda i, v, c: i.search(v[:2]), InvalidDtype, "kept"),
        (lambda i, v, c: i.search(v[:2], kept=v[:9]), InvalidInput, "kept"),
        (lambda i, v, c: i.search(v[:2], kept=v.astype(float)), InvalidDtype, "kept"),
        (lambda i, v, c: i.search(v[:2, :5], kept=v), InvalidInput, "columns"),
        (lambda i, v, c: i.search(c[:2], kept=v), InvalidInput, "vectors"),
        (lambda i, v, c: i.search(c[:2], probes=2), InvalidInput, "vectors"),
        (lambda i, v, c: i.search(c[:2], shortlist=50), InvalidInput, "shortlist"),
        (lambda i, v, c: i.search(v[:2], 10, kept=v, shortlist=5), InvalidInput, "at least 10"),
        (lambda i, v, c: i.search(v[:2], kept=v, shortlist=(9, 9)), InvalidInput, "pair"),
        (lambda i, v, c: i.search(v[:2], kept=v, margin=-1), InvalidInput, "margin"),
        (lambda i, v, c: i.search(v[:2], kept=v, target_recall=0.9), InvalidInput, "measure"),
        (lambda i, v, c: i.add(c[:1]), InvalidInput, "give vectors"),
        (lambda i, v, c: i.add(c[:1], vectors=v[:2]), InvalidInput, "one per code"),
        (lambda i, v, c: i.add(c[:1], vectors=v[:1, :3]), InvalidInput, "same kind"),
        (lambda i, v, c: i.rebalance(), InvalidInput, "vectors of all rows"),
        (lambda i, v, c: PartitionedIndex(4, n_lists=70_000), InvalidInput, "65536"),
        (lambda i, v, c: PartitionedIndex(4, n_lists=9).add(c[:5]), InvalidInput, "fewer lists"),
        (lambda i, v, c: PartitionedIndex(4, spill=2), InvalidInput, "spill"),
        (lambda i, v, c: i.explain(v[:2], kept=v), InvalidInput, "one query"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(data, call, error, sentence):
    vectors, _, _, codes = data
    index = filled(data, n_lists=20)
    with pytest.raises(error, match=sentence):
        call(index, vectors, codes)
    assert len(index) == 4000


def test_a_target_is_kept_on_other_queries_and_its_ceiling_is_said(data, tmp_path):
    vectors, _, _, _ = data
    index, queries = filled(data), clustered(np.random.default_rng(5), 4400)[4000:]
    seen, unseen = queries[:200], queries[200:]
    curve = index.measure(seen, truth_of(vectors, seen), kept=vectors)
    for less, more in pairwise(curve.points):
        assert less.recall < more.recall and less.cost < more.cost
    truth = truth_of(vectors, unseen)
    for target in (0.8, 0.9, 0.95):
        found = index.search(unseen, 10, kept=vectors, target_recall=target)
        assert recall(found.ids, truth) >= target - 0.01
    told = index.explain(unseen[0], kept=vectors, target_recall=0.9)
    assert told.expected_recall >= 0.9 and 0 < told.lists_visited <= told.n_lists
    assert "recall expected" in str(told) and told.rows_scanned <= 4000
    index.save(tmp_path / "index")
    again = load_index(tmp_path / "index", mmap=True)
    assert again.curve.points == curve.points
    short = index.measure(seen, np.full((200, 10), 10**6), kept=vectors)
    assert short.ceiling.recall == 0
    with pytest.raises(InvalidInput, match=r"cannot be reached here: the best measured is 0\.000"):
        index.search(unseen, 10, kept=vectors, target_recall=0.9)


@pytest.mark.parametrize("mmap", [False, True])
def test_files_of_every_kind_answer_as_before(data, tmp_path, mmap):
    vectors, queries, _, codes = data
    index = filled(data, spill=0.2, n_lists=600)
    index.delete([3, 5])
    index.add(codes[:3], vectors=vectors[:3])
    index.save(tmp_path / "index")
    again = load_index(tmp_path / "index", mmap=mmap)
    kept = np.delete(np.concatenate([vectors, vectors[:3]]), [3, 5], axis=0)
    for options in ({"probes": 30}, {}):
        old, new = (i.search(queries, 10, kept=kept, **options) for i in (index, again))
        np.testing.assert_array_equal(old.ids, new.ids)
    again.add(codes[:1], vectors=vectors[:1])
    assert again.ids[-1] == index.ids[-1] + 1


def test_a_file_that_lies_about_its_lists_is_refused(data, tmp_path):
    index = filled(data, n_lists=20)
    held = index.held
    for change in (
        {"counts": held.counts + 1},
        {"ranks": held.ranks + np.uint32(1)},
        {"ranks": np.zeros_like(held.ranks)},
        {"terms": held.terms * np.nan},
        {"partitions": held.partitions._replace(group_starts=np.array([1]))},
    ):
        for name, value in change.items():
            object.__setattr__(held, name, value)
            index.save(tmp_path / "index")
        with pytest.raises(BadFile, match="restore"):
            PartitionedIndex.load(tmp_path / "index", mmap=True)
        index = filled(data, n_lists=20)
        held = index.held


def test_more_rows_than_slots_can_name_are_refused(monkeypatch, rng):
    monkeypatch.setattr(arranged, "MOST_ROWS", 300)
    index = PartitionedIndex(2, n_lists=4)
    index.add(rng.integers(0, 256, (300, 2), dtype=np.uint8))
    with pytest.raises(InvalidInput, match="up to 300 rows, these are 301: split"):
        index.add(np.zeros((1, 2), np.uint8))
    assert len(index) == 300


def test_a_search_that_a_delete_overtakes_leaves_nothing_for_later_ones(data, monkeypatch):
    """What it found out of the rows before must not be used for the rows after."""
    vectors, queries, _, _ = data
    index = filled(data, n_lists=16)
    few, asked = vectors[:10].copy(), queries[:1].copy()
    index.search(asked, 3, kept=vectors, probes=2)
    real, overtaken = probing.searcher, []

    def searcher(kind):
        if not overtaken:
            overtaken.append(1)
            index.delete(np.arange(10, len(vectors)))
            index.search(asked, 3, kept=few, probes=16)
        return real(kind)

    monkeypatch.setattr(probing, "searcher", searcher)
    index.search(asked, 4, kept=vectors, probes=16)
    monkeypatch.undo()
    assert overtaken and len(index) == 10
    for _ in range(2):
        found = index.search(asked, 4, kept=few, probes=16)
        np.testing.assert_array_equal(found.ids, truth_of(few, asked, 4))


def test_a_plan_belongs_to_the_curve_that_it_was_made_by(data):
    """Not to its address, which a later curve may be given."""
    vectors, queries, _, _ = data
    index = filled(data, n_lists=16)
    easy, hard = (vectors[:60], np.arange(60)[:, None]), (queries, truth_of(vectors, queries))
    for asked, truth in (easy, hard, easy, hard):
        index.measure(asked, truth, vectors=asked, kept=vectors)
        index.search(queries[0], 10, kept=vectors, target_recall=0.9)
        assert index.prepared is not None
        assert [key[-1] is index.curve for key in index.prepared.ways][-1]


def test_rows_that_come_while_an_index_is_saved_leave_its_file_whole(tmp_path, rng, monkeypatch):
    # So many that blocks are written as they lie in memory.
    codes = rng.integers(0, 256, (150_000, 16), dtype=np.uint8)
    places = rng.standard_normal((len(codes), 4)).astype(np.float32)
    index = PartitionedIndex(16, n_bits=128, n_lists=32, random_state=0)
    index.add(codes, vectors=places)
    real, threads = file.write_atomically, []

    class Slow:
        def __init__(self, stream):
            self.stream = stream

        def write(self, piece):
            if not threads and len(piece) == 1 << 20:
                new = {"vectors": places[:5]}
                threads.append(threading.Thread(target=index.add, args=(~codes[:5],), kwargs=new))
                threads[0].start()
                threads[0].join(0.5)  # it would be over by then if nothing held it up
            return self.stream.write(piece)

    monkeypatch.setattr(
        file, "write_atomically", lambda path, write: real(path, lambda s: write(Slow(s)))
    )
    index.save(tmp_path / "index")
    threads[0].join()
    assert len(index) == len(codes) + 5
    loaded = load_index(tmp_path / "index")
    assert len(loaded) == len(codes)
    np.testing.assert_array_equal(loaded.codes_of(loaded.ids), codes)
