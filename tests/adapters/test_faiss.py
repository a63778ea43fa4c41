"""Codes go to FAISS and come back; both give the same answers."""

from __future__ import annotations

import numpy as np
import pytest

from sghash import HammingIndex, InvalidInput, PartitionedIndex, ProductQuantizer, TableIndex, bits
from sghash.adapters.exports.faiss import from_faiss, to_faiss
from sghash.bits import pack_bits

faiss = pytest.importorskip("faiss")


def random_codes(rng, n, n_bits):
    return pack_bits(rng.random((n, n_bits)) < 0.5)


def assert_same_answer(ours, theirs, all_distances):
    """Distances are equal, and every id has the distance beside it: FAISS orders ties freely."""
    distances, ids = theirs
    np.testing.assert_array_equal(ours.distances, distances)
    for row, (found, own) in enumerate(zip(ids, distances, strict=True)):
        assert len(set(found)) == len(found)
        assert [all_distances[row][i] for i in found] == own.tolist()


def distances_by_id(index, queries):
    scores = np.bitwise_count(index.codes[None] ^ queries[:, None]).sum(axis=2, dtype=int)
    return [dict(zip(index.ids.tolist(), row.tolist(), strict=True)) for row in scores]


@pytest.mark.parametrize("n_bits", [8, 13, 64, 100])
@pytest.mark.parametrize("gaps", [False, True])
def test_flat_codes_there_and_back(n_bits, gaps, rng):
    index, codes = HammingIndex(n_bits), random_codes(rng, 300, n_bits)
    index.add(codes, ids=rng.permutation(1000)[:300] if gaps else None)
    theirs, queries = to_faiss(index), random_codes(rng, 20, n_bits)
    assert isinstance(theirs, faiss.IndexBinaryIDMap2 if gaps else faiss.IndexBinaryFlat)
    answer = theirs.search(bits.to_faiss(queries, n_bits), 15)
    assert_same_answer(index.search(queries, 15), answer, distances_by_id(index, queries))
    again = from_faiss(theirs, n_bits=n_bits)
    assert again.n_bits == n_bits
    np.testing.assert_array_equal(again.ids, index.ids)
    np.testing.assert_array_equal(again.codes, index.codes)


@pytest.mark.parametrize("by_vectors", [False, True])
def test_lists_are_the_same_lists(by_vectors, rng):
    index = PartitionedIndex(4, n_bits=32, n_lists=12)
    codes, vectors = random_codes(rng, 900, 32), rng.standard_normal((900, 6)).astype(np.float32)
    index.add(codes, ids=rng.permutation(5000)[:900], vectors=vectors if by_vectors else None)
    theirs, queries = to_faiss(index), random_codes(rng, 15, 32)
    turned = bits.to_faiss(queries, 32)
    by_id = distances_by_id(index, queries)
    assert_same_answer(index.search(queries, 25), theirs.search(turned, 25), by_id)
    assert theirs.nlist == 12 and theirs.ntotal == 900
    again = from_faiss(theirs)
    np.testing.assert_array_equal(again.ids, index.ids)
    np.testing.assert_array_equal(again.codes, index.codes)
    for got, right in zip(again.held.used(), index.held.used(), strict=True):
        np.testing.assert_array_equal(got, right)  # the same rows in the same lists
    if not by_vectors:
        np.testing.assert_array_equal(again.partitions.centroids, index.partitions.centroids)
        chosen = index.partitions.lists_of(queries)[0]
        gaps = np.zeros(chosen.shape, dtype=np.int32)
        theirs.nprobe = 1
        answer = theirs.search_preassigned(turned, 5, chosen, gaps)
        assert_same_answer(index.search(queries, 5, probes=1), answer, by_id)
        again.add(codes[:3])  # a later row finds its list
        assert len(again) == 903


def test_rows_in_two_lists_are_refused(rng):
    index = PartitionedIndex(2, n_bits=16, n_lists=6, spill=0.5)
    index.add(random_codes(rng, 300, 16))
    with pytest.raises(InvalidInput, match="spill=0"):
        to_faiss(index)
    with pytest.raises(InvalidInput, match="no lists yet"):
        to_faiss(PartitionedIndex(2, n_bits=16))


def near(rng, n, width):
    return rng.standard_normal((n, width)).astype(np.float32)


@pytest.mark.parametrize(
    ("width", "options"),
    [
        (16, {}),
        (16, {"rotate": True}),
        (18, {}),  # parts of 5, 5, 4 and 4 columns
        (18, {"rotate": True}),
        (16, {"n_centroids": 20}),
    ],
)
@pytest.mark.parametrize("gaps", [False, True])
def test_quantized_codes_there_and_back(width, options, gaps, rng):
    vectors, queries = near(rng, 600, width), near(rng, 20, width)
    model = ProductQuantizer(4, n_iterations=3, n_rotations=2, random_state=0, **options)
    model.fit(vectors)
    index = TableIndex.for_model(model)
    index.add(model.encode(vectors), ids=rng.permutation(5000)[:600] if gaps else None)
    theirs = to_faiss(index, model)
    ours = index.search(model.query_tables(queries), 10)
    distances, ids = theirs.search(queries, 10)
    np.testing.assert_allclose(ours.distances, distances, rtol=1e-4, atol=1e-4)
    assert np.mean(ours.ids == ids) > 0.95  # sums of another order may exchange near ties
    again = from_faiss(theirs)
    np.testing.assert_array_equal(again.table_index.ids, index.ids)
    np.testing.assert_array_equal(again.table_index.codes, index.codes)
    np.testing.assert_array_equal(again.model.part_widths_, model.part_widths_)
    np.testing.assert_array_equal(again.model.rotation_, model.rotation_)
    np.testing.assert_array_equal(again.model.encode(vectors), model.encode(vectors))
    back = again.table_index.search(again.model.query_tables(queries), 10)
    np.testing.assert_array_equal(back.ids, ours.ids)


@pytest.mark.slow
@pytest.mark.parametrize("factory", ["PQ4np", "OPQ4,PQ4np"])
def test_a_quantizer_that_faiss_trained_is_taken(factory, rng):
    vectors, queries = near(rng, 2000, 16), near(rng, 10, 16)
    theirs = faiss.index_factory(16, factory)
    theirs.train(vectors)
    theirs.add(vectors)
    model, index = from_faiss(theirs)
    assert np.mean(model.encode(vectors) == index.codes) > 0.999
    ours = index.search(model.query_tables(queries), 5)
    np.testing.assert_allclose(ours.distances, theirs.search(queries, 5)[0], rtol=1e-3, atol=1e-3)


def test_what_cannot_be_taken_is_said(rng):
    quantizer = faiss.IndexBinaryFlat(16)
    hashed = faiss.IndexBinaryHash(16, 4)
    for index in (hashed, faiss.IndexFlatL2(4), faiss.index_factory(16, "PCA8,PQ4")):
        with pytest.raises(InvalidInput, match=r"FAISS"):
            from_faiss(index)
    for theirs in ("PQ4np", "OPQ4,PQ4np", "IDMap,PQ4np"):
        products = faiss.index_factory(8, theirs, faiss.METRIC_INNER_PRODUCT)
        products.train(near(rng, 300, 8))
        with pytest.raises(InvalidInput, match="another metric than L2"):
            from_faiss(products)
    with pytest.raises(InvalidInput, match="have 16 bits"):
        from_faiss(quantizer, n_bits=20)
    quantizer.add(np.full((1, 2), 255, np.uint8))
    with pytest.raises(InvalidInput, match="padding"):
        from_faiss(quantizer, n_bits=12)
    for wrong in (None, np.zeros(3)):
        with pytest.raises(InvalidInput, match="takes an index"):
            to_faiss(wrong)
        with pytest.raises(InvalidInput, match="takes an index"):
            from_faiss(wrong)
    vectors = near(rng, 300, 8)
    model = ProductQuantizer(4, n_centroids=16, n_iterations=1, random_state=0).fit(vectors)
    with pytest.raises(InvalidInput, match="as model"):
        to_faiss(TableIndex(4))
    with pytest.raises(InvalidInput, match="give the model that made them"):
        to_faiss(TableIndex(3), model)
    other = TableIndex(4)
    other.add(np.full((1, 4), 200, np.uint8))
    with pytest.raises(InvalidInput, match="name centroid 200"):
        to_faiss(other, model)


def test_what_faiss_wraps_lives_as_long_as_it(rng):
    import gc

    index = HammingIndex(16)
    index.add(random_codes(rng, 50, 16), ids=np.arange(50) * 3)
    theirs = to_faiss(index)
    del index
    gc.collect()
    assert theirs.search(np.zeros((1, 2), np.uint8), 3)[1].shape == (1, 3)
