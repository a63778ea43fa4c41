"""Collections that keep vectors of a small kind: "int8" and "int4"."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sghash
from sghash import BadFile, Collection, InvalidInput
from sghash.collection.lists.building import nearest_kept
from sghash.collection.storage import manifest as manifests, verification
from sghash.errors import NewerFormat
from sghash.kernels.reference import small as twin
from sghash.kernels.vectors.kinds import SMALL

every_kind = pytest.mark.parametrize("kind", SMALL)


@pytest.fixture
def made(tmp_path, model, vectors):
    def make(kind, **options):
        collection = Collection.create(tmp_path / "c", model, keep_vectors=kind, **options)
        collection.add(vectors[:200])
        collection.compact()
        collection.add(vectors[200:300])
        collection.delete([3, 250])
        return collection

    return make


@every_kind
@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_searches_go_by_the_distances_of_the_twin(made, vectors, kind, metric):
    collection = made(kind, metric=metric)
    queries, ids = vectors[:9] + np.float32(0.1), collection.ids
    kept = twin.shrink(vectors[:300], kind)[ids]
    every = np.tile(np.arange(len(ids)), (9, 1))
    expected = twin.small_distances(kept, every, queries, metric)
    order = np.lexsort((every, expected), axis=1)[:, :12]
    ways = ({"rerank": "vectors", "shortlist": 300}, {"target_recall": 1.0})
    for options in ways:
        found = collection.search(queries, 12, **options)
        np.testing.assert_array_equal(found.distances, np.take_along_axis(expected, order, 1))
        np.testing.assert_array_equal(found.ids, ids[order])


@every_kind
def test_vectors_come_back_the_same_wherever_they_are(made, vectors, kind, tmp_path):
    collection = made(kind)
    expected = twin.grow(twin.shrink(vectors[:300], kind), vectors.shape[1])
    summary = collection.backup(tmp_path / "copy")
    assert summary.n_rows == len(collection) == 298
    collection.close()
    for path, options in [("c", {}), ("copy", {}), ("c", {"in_memory": True})]:
        opened = Collection.open(tmp_path / path, **options)
        assert opened.verify().n_rows == 298
        found = opened.get(opened.ids).vectors
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected[opened.ids])
        assert opened.stats()["keep_vectors"] == kind
        assert opened.stats()["format_version"] == manifests.SMALL_VERSION


@every_kind
def test_reencode_makes_codes_of_what_is_kept(made, vectors, kind):
    collection = made(kind)
    other = sghash.ITQ(n_bits=33, random_state=1).fit(vectors)
    collection.reencode(other)
    records = collection.get(collection.ids)
    np.testing.assert_array_equal(records.codes, other.encode(records.vectors))
    again = other.encode(vectors[collection.ids])
    apart = np.unpackbits(records.codes ^ again, axis=1).sum() / (33 * len(again))
    assert apart < (0.02 if kind == "int8" else 0.1)


@every_kind
def test_earlier_programs_refuse_in_a_sentence(made, kind, tmp_path, monkeypatch):
    made(kind).close()
    monkeypatch.setattr(manifests, "VERSION", manifests.LISTS_VERSION)
    with pytest.raises(NewerFormat, match="format version 4, this sghash reads up to 3: upgrade"):
        Collection.open(tmp_path / "c")
    monkeypatch.undo()
    manifest = manifests.read_manifest(tmp_path / "c")
    manifests.write_manifest(tmp_path / "c", replace(manifest, version=3))
    with pytest.raises(BadFile, match="format_version"):
        Collection.open(tmp_path / "c")


@every_kind
def test_rows_that_no_writer_wrote_are_found(made, kind, model, tmp_path):
    rows = made(kind)._moment.state.stored[0].rows
    width = model.n_features_in_

    def check(change):
        kept = np.array(rows.vectors)
        change(kept)
        changed = replace(rows, vectors=kept)
        verification.check_contents(tmp_path, changed, model.code_bits, model)

    def no_number(kept):
        kept[1, -4:] = np.asarray([np.nan], "<f4").view(kept.dtype)

    def negative(kept):
        kept[1, -8:-4] = np.asarray([-1], "<f4").view(kept.dtype)

    check(lambda kept: None)
    for change in (no_number, negative):
        with pytest.raises(BadFile, match="vectors are not valid"):
            check(change)
    if kind == "int8":
        with pytest.raises(BadFile, match="vectors are not valid"):
            check(lambda kept: kept[:, :width].__setitem__((2, 0), -128))


@every_kind
@pytest.mark.parametrize("width", [1, 3, 70])
def test_any_width_and_odd_rows(tmp_path, kind, width, rng):
    vectors = rng.standard_normal((40, width)).astype(np.float32)
    model = sghash.models.LSH(n_bits=8, random_state=0).fit(vectors)
    odd = np.stack([np.zeros(width), np.full(width, 5), np.full(width, 1e-42), vectors[0] * 1e12])
    with Collection.create(tmp_path / "c", model, keep_vectors=kind, metric="cosine") as collection:
        collection.add(vectors)
        collection.add(odd.astype(np.float32))
        collection.compact()
        assert collection.verify().n_rows == 44
        found = collection.search(odd[1:2], 44, rerank="vectors", shortlist=44)
        assert sorted(found.ids[0]) == list(range(44)) and np.isfinite(found.distances).all()
        for bad in (np.nan, np.inf):
            with pytest.raises(InvalidInput):
                collection.add(np.full((1, width), bad, dtype=np.float32))
        assert len(collection) == 44


@every_kind
def test_the_nearest_are_those_of_all_distances(kind, rng):
    vectors = rng.integers(-2, 3, (60, 4)).astype(np.float32)
    kept, hidden = twin.shrink(vectors, kind), np.asarray([0, 7, 59])
    every = np.tile(np.arange(60), (5, 1))
    apart = twin.small_distances(kept, every, vectors[:5], "l2")
    apart[:, hidden] = np.inf
    expected = np.lexsort((every, apart), axis=1)[:, :9]
    found = nearest_kept(kept, hidden, vectors[:5], 9, "l2")
    np.testing.assert_array_equal(found, expected)
    assert nearest_kept(kept, hidden, vectors[:0], 9, "l2").shape == (0, 9)
    assert nearest_kept(kept[:2], np.arange(2), vectors[:5], 9, "l2").shape == (5, 0)
