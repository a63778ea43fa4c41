"""Search in stages against the formula written out, on one segment and on several."""

from __future__ import annotations

import numpy as np
import pytest

import sghash
from sghash import Collection, InvalidInput
from sghash.collection.storage import writer


def distances(queries, vectors, metric):
    q, x = queries.astype(np.float64)[:, None], vectors.astype(np.float64)[None]
    if metric == "l2":
        return np.square(q - x).sum(axis=2)
    products = (q * x).sum(axis=2)
    if metric == "ip":
        return -products
    return 1 - products / np.linalg.norm(q, axis=2) / np.linalg.norm(x, axis=2)


def decoder_distances(model, queries, codes, metric):
    decoded = model.decode(codes)
    if metric == "cosine":
        unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        return 1 + distances(unit, decoded, "ip")
    return distances(queries, decoded, metric)


def fill(path, model, vectors, metric, monkeypatch, **options):
    monkeypatch.setattr(writer, "LOG_RECORDS", 2)
    collection = Collection.create(path, model, metric=metric, **options)
    for start in range(0, len(vectors), 50):
        collection.add(vectors[start : start + 50])
    assert collection.stats()["n_segments"] > 1
    return collection


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_decoder_over_all_rows_is_the_formula(tmp_path, model, vectors, metric, monkeypatch):
    collection = fill(tmp_path / "c", model, vectors, metric, monkeypatch)
    collection.delete(np.arange(0, 300, 7))
    alive, queries = collection.ids, vectors[:9] + 0.1
    expected = decoder_distances(model, queries, collection.get(alive).codes, metric)
    for shortlist in ("all", 300):
        found = collection.search(queries, 12, rerank="decoder", shortlist=shortlist)
        got = np.take_along_axis(expected, np.searchsorted(alive, found.ids), axis=1)
        np.testing.assert_allclose(found.distances, got, atol=1e-3)
        np.testing.assert_allclose(found.distances, np.sort(expected, axis=1)[:, :12], atol=1e-3)
    allowed = alive[alive % 2 == 0]
    found = collection.search(queries, 12, rerank="decoder", shortlist="all", where=allowed)
    best = np.sort(expected[:, alive % 2 == 0], axis=1)[:, :12]
    np.testing.assert_allclose(found.distances, best, atol=1e-3)
    collection.compact()
    again = collection.search(queries, 12, rerank="decoder", shortlist="all", where=allowed)
    np.testing.assert_array_equal(again.ids, found.ids)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("keep", ["float16", "float32"])
def test_vectors_give_exact_distances(tmp_path, model, vectors, metric, keep, monkeypatch):
    collection = fill(tmp_path / "c", model, vectors, metric, monkeypatch, keep_vectors=keep)
    queries = vectors[:9] + 0.1
    expected = distances(queries, vectors.astype(keep), metric)
    for shortlist in (300, (300, 300), ("all", 300)):
        found = collection.search(queries, 12, rerank="vectors", shortlist=shortlist)
        np.testing.assert_allclose(found.distances, np.sort(expected, axis=1)[:, :12], atol=1e-4)
        np.testing.assert_array_equal(found.ids, np.argsort(expected, axis=1)[:, :12])


def test_few_and_many_are_ordered_alike(tmp_path, model, vectors):
    """Up to 32 neighbours are inserted one by one, more are sorted: ties must come out alike."""
    collection = Collection.create(tmp_path / "c", model)
    collection.add(np.repeat(vectors[:40], 5, axis=0))
    few = collection.search(vectors[:9], 30, rerank="decoder", shortlist=200)
    many = collection.search(vectors[:9], 100, rerank="decoder", shortlist=200)
    np.testing.assert_array_equal(few.ids, many.ids[:, :30])
    np.testing.assert_array_equal(few.distances, many.distances[:, :30])


def test_a_shortlist_is_the_nearest_by_hamming_and_ties(tmp_path, model, vectors):
    collection = Collection.create(tmp_path / "c", model)
    collection.add(vectors)
    queries = vectors[:9] + 0.1
    codes = model.encode(vectors)
    hamming = np.unpackbits(model.encode(queries)[:, None] ^ codes[None], axis=2).sum(axis=2)
    scores = decoder_distances(model, queries, codes, "l2")
    found = collection.search(queries, 5, rerank="decoder", shortlist=20)
    widest = collection.search(queries, 22)
    for i in range(len(queries)):
        last = np.sort(hamming[i])[19]
        allowed = [row for row in widest.ids[i] if hamming[i, row] <= last]
        best = sorted(allowed, key=lambda row: scores[i, row])[:5]
        assert len(allowed) >= 20
        np.testing.assert_allclose(found.distances[i], scores[i, best], atol=1e-3)


@pytest.mark.slow
def test_a_decoder_lifts_recall_on_fresh_queries(tmp_path, rng):
    """Recall10@10 over Hamming alone, SGH on data with structure."""
    base = rng.standard_normal((3000, 6)) @ rng.standard_normal((6, 24))
    base = (base + 0.1 * rng.standard_normal(base.shape)).astype(np.float32)
    train, queries = base[:2900], base[2900:]
    model = sghash.SGH(n_bits=32, n_steps=200, random_state=0).fit(train)
    collection = Collection.create(tmp_path / "c", model)
    collection.add(train)
    truth = np.argsort(distances(queries, train, "l2"), axis=1)[:, :10]

    def recall(**options):
        ids = collection.search(queries, 10, **options).ids
        return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(ids, truth, strict=True)])

    plain = recall()
    assert recall(rerank="decoder") > plain + 0.02
    assert recall(rerank="decoder", shortlist="all") > plain + 0.02


def test_impossible_searches_say_why(tmp_path, model, vectors):
    collection = Collection.create(tmp_path / "c", model)
    collection.add(vectors)
    for options, reason in [
        ({"rerank": "vectors"}, "no vectors are kept"),
        ({"rerank": "decoder", "shortlist": 3}, "cannot give"),
        ({"rerank": "decoder", "shortlist": "most"}, "whole number"),
        ({"rerank": "decoder", "shortlist": (50, 20)}, 'pair of shortlists needs rerank="vectors"'),
        ({"shortlist": 30}, "needs rerank"),
    ]:
        with pytest.raises(InvalidInput, match=reason):
            collection.search(vectors[:2], 10, **options)


@pytest.mark.parametrize(
    ("rerank", "largest"),
    [("decoder", 10**15), ("vectors", 10**15), ("vectors", (10**15, 10**15)),
     ("vectors", ("all", 10**15))],
)  # fmt: skip
def test_a_shortlist_takes_no_more_memory_than_there_are_rows(
    tmp_path, model, vectors, monkeypatch, rerank, largest
):
    collection = fill(tmp_path / "c", model, vectors, "l2", monkeypatch, keep_vectors="float32")
    assert collection.stats()["n_segments"] > 1
    every = collection.search(vectors[:3], 5, rerank=rerank, shortlist="all")
    found = collection.search(vectors[:3], 5, rerank=rerank, shortlist=largest)
    np.testing.assert_array_equal(found.ids, every.ids)
    assert collection.search(vectors[:3], 400, rerank=rerank, shortlist=10**15).ids.shape == (
        3,
        400,
    )
