"""Collections of quantizers' codes: searched by tables, against the formula written out."""

from __future__ import annotations

import numpy as np
import pytest

from sghash import Collection
from sghash.errors import InvalidInput
from sghash.validation import METRICS
from tests.collection.formulas import best, check, formula, sums


@pytest.mark.parametrize("metric", METRICS)
def test_a_search_is_the_sum_of_tables(filled, product, vectors, metric):
    collection, queries = filled(metric=metric), vectors[:9] + np.float32(0.1)
    alive = collection.ids
    codes = collection.get(alive).codes
    np.testing.assert_array_equal(codes, product.encode(vectors)[alive])
    scores = sums(product, queries, codes, metric)
    for options in ({}, {"rerank": "decoder"}, {"shortlist": "all"}, {"threads": 1}):
        check(collection.search(queries, 12, **options), scores, alive, 12)
    check(collection.search(queries, 400), scores, alive, 400)
    decoded = formula(queries, product.decode(codes), metric)
    found = collection.search(queries, 12)
    np.testing.assert_allclose(found.distances, np.sort(decoded, axis=1)[:, :12], atol=1e-4)
    collection.compact()
    assert collection.stats()["n_segments"] == 1 and collection.verify().n_deleted == 0
    check(collection.search(queries, 12), scores, alive, 12)


@pytest.mark.parametrize("metric", METRICS)
def test_a_generative_quantizer_keeps_the_length_in_its_last_byte(
    filled, generative, vectors, metric
):
    model, queries = generative[metric], vectors[:9] + np.float32(0.1)
    collection = filled(model, metric=metric)
    codes = collection.get(collection.ids).codes
    check(collection.search(queries, 12), sums(model, queries, codes, metric), collection.ids, 12)


def test_an_l2_generative_quantizer_scores_inner_products_and_no_cosine(
    filled, tmp_path, generative, vectors
):
    collection = filled(generative["l2"], metric="ip")
    codes = collection.get(collection.ids).codes
    scores = sums(generative["l2"], vectors[:3], codes, "ip")
    check(collection.search(vectors[:3], 5), scores, collection.ids, 5)
    with pytest.raises(InvalidInput, match="fit one with metric='cosine'"):
        Collection.create(tmp_path / "new", generative["l2"], metric="cosine")
    assert not (tmp_path / "new").exists()


def test_the_metric_is_the_models_own_unless_it_is_given(tmp_path, generative, product):
    assert Collection.create(tmp_path / "a", generative["cosine"]).metric == "cosine"
    assert Collection.create(tmp_path / "b", product).metric == "l2"


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("keep", ["float16", "float32"])
def test_kept_vectors_decide_among_what_the_tables_let_through(
    filled, product, vectors, metric, keep
):
    collection, queries = filled(metric=metric, keep=keep), vectors[:9] + np.float32(0.1)
    alive = collection.ids
    exact = formula(queries, vectors[alive].astype(keep), metric, unit=True)
    for shortlist in (300, "all", ("all", 300)):
        k = 40 if shortlist == "all" else 12  # "all" lets 10 k through, here every row
        found = collection.search(queries, k, rerank="vectors", shortlist=shortlist)
        expected, right = best(exact, alive, k)
        np.testing.assert_array_equal(found.ids, right)
        np.testing.assert_allclose(found.distances, expected, atol=1e-4)
    scores = sums(product, queries, product.encode(vectors[alive]), metric)
    through = best(scores, alive, 20)[1]
    for shortlist in (20, ("all", 20)):
        found = collection.search(queries, 5, rerank="vectors", shortlist=shortlist)
        for row, ids in enumerate(through):
            mine = np.sort(ids)
            order = np.argsort(exact[row, np.searchsorted(alive, mine)], kind="stable")[:5]
            np.testing.assert_array_equal(found.ids[row], mine[order])


def test_filters_choose_among_the_same_scores(filled, product, vectors):
    collection, queries = filled(), vectors[:4]
    alive = collection.ids
    scores = sums(product, queries, collection.get(alive).codes, "l2")
    late = alive >= 120
    for where in ("year >= 120", alive[late], late, alive[late].tolist()):
        found = collection.search(queries, 7, where=where)
        check(found, scores[:, late], alive[late], 7)
    two = collection.search(queries, 7, where=[1, 5])
    check(two, scores[:, np.isin(alive, [1, 5])], np.asarray([1, 5]), 7)
    assert (collection.search(queries, 3, where="year > 1000").ids == -1).all()


def test_ties_go_to_the_smaller_id_across_segments(filled, product, vectors):
    collection = filled()
    collection.upsert(np.repeat(vectors[:1], 5, axis=0), [250, 3, 120, 900, 77])
    found = collection.search(vectors[:1], 5, where=[900, 250, 120, 77, 3])
    assert found.ids.tolist() == [[3, 77, 120, 250, 900]]
    assert len(set(found.distances[0].tolist())) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda c, q: c.range_search(q, 3),
        lambda c, q: c.similarity_join(1),
        lambda c, q: c.search_codes(c.model.encode(q), fingerprint=c.fingerprint),
    ],
    ids=["range_search", "similarity_join", "search_codes"],
)
def test_what_needs_hamming_distance_is_refused(filled, vectors, call):
    collection = filled()
    with pytest.raises(InvalidInput, match="have no Hamming distance: use search"):
        call(collection, vectors[:2])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"shortlist": 50}, "every code is scored here"),
        ({"rerank": "decoder", "shortlist": 50}, "every code is scored here"),
        ({"rerank": "decoder", "shortlist": ("all", 50)}, "every code is scored here"),
        ({"rerank": "vectors"}, "no vectors are kept here"),
        ({"rerank": "hamming"}, "rerank"),
    ],
)
def test_impossible_searches_say_why(filled, vectors, options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        filled().search(vectors[:2], 5, **options)


@pytest.mark.parametrize(
    ("shortlist", "sentence"),
    [((100, 20), 'first shortlist must be "all"'), (("all", "all"), "must be a number"),
     (("all",), "a pair"), (3, "cannot give 5"), ("some", "whole number"), (True, "whole number")],
)  # fmt: skip
def test_impossible_shortlists_say_why(filled, vectors, shortlist, sentence):
    collection = filled(keep="float16")
    with pytest.raises(InvalidInput, match=sentence):
        collection.search(vectors[:2], 5, rerank="vectors", shortlist=shortlist)
