"""Collections of quantizers' codes on the disk: what is let in, found out, copied and replaced."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

import sghash
from sghash import Collection
from sghash.collection.storage.manifest import read_manifest, write_manifest
from sghash.errors import BadFile, InvalidInput
from sghash.models.quantizers.pca_reconstruction import PCAReconstruction
from tests.collection.formulas import best, check, sums

WIDTH, N = 12, 300


@pytest.fixture
def bits(model):
    return model


def test_codes_made_elsewhere_are_added(filled, product, vectors):
    collection = filled()
    codes = product.encode(vectors[:20])
    ids = collection.add_codes(codes, fingerprint=product.fingerprint_)
    np.testing.assert_array_equal(collection.get(ids).codes, codes)
    np.testing.assert_array_equal(collection.get(ids).reconstructions, product.decode(codes))
    assert collection.get(ids).reconstructions.shape == (20, WIDTH)
    assert len(collection.add_codes(codes[:0], fingerprint=product.fingerprint_)) == 0


def test_codes_that_name_no_centroid_are_refused(filled, product, vectors):
    collection = filled()
    before = collection.ids.tolist()
    for place in range(5):
        codes = product.encode(vectors[:40])
        codes[17, place] = 8
        with pytest.raises(InvalidInput, match="codes name centroid 8, a part has 8"):
            collection.add_codes(codes, fingerprint=product.fingerprint_)
        codes[17, place] = 7
        collection.delete(collection.add_codes(codes, fingerprint=product.fingerprint_))
    assert collection.ids.tolist() == before
    for codes in (np.zeros((1, 4), np.uint8), np.zeros((1, 5), np.int64)):
        with pytest.raises(InvalidInput, match=r"bytes wide|uint8"):
            collection.add_codes(codes, fingerprint=product.fingerprint_)
    with pytest.raises(InvalidInput, match="these come from"):
        collection.add_codes(np.zeros((1, 5), np.uint8), fingerprint="0" * 64)


@pytest.mark.parametrize("stored", [False, True])
def test_verify_finds_codes_that_name_no_centroid(tmp_path, product, stored, monkeypatch):
    """As if an older version had let them in: every checksum is right."""
    from sghash.collection import answers

    monkeypatch.setattr(answers, "check_values", lambda model, codes: None)
    with Collection.create(tmp_path / "c", product) as collection:
        codes = np.full((3, 5), 9, dtype=np.uint8)
        collection.add_codes(codes, fingerprint=product.fingerprint_)
        if stored:
            collection.compact()
        assert (collection.search(np.zeros((1, WIDTH)), 3).ids >= 0).all()  # no kernel reads beyond
        with pytest.raises(InvalidInput, match="name centroid 9"):
            collection.get(collection.ids)
    with pytest.raises(BadFile, match="name centroid 9"):
        Collection.open(tmp_path / "c").verify()


def test_rows_are_changed_replaced_and_copied(filled, tmp_path, product, vectors):
    collection = filled(keep="float16")
    collection.add(vectors[:2], ["a", "b"])
    collection.upsert(vectors[5:6], ["a"])
    collection.delete(["b"])
    assert "a" in collection and "b" not in collection
    np.testing.assert_array_equal(collection.get(["a"]).codes, product.encode(vectors[5:6]))
    summary = collection.backup(tmp_path / "copy")
    copy = Collection.open(tmp_path / "copy")
    assert summary.n_rows == len(collection) == len(copy) and copy.stats()["kind"] == "tables"
    for opened in (copy, Collection.open(tmp_path / "copy", in_memory=True)):
        for ours, theirs in zip(
            collection.search(vectors[:9], 8), opened.search(vectors[:9], 8), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
    collection.close()
    with Collection.open(tmp_path / "c", writable=True) as again:
        assert again.verify().n_rows == summary.n_rows
        assert again.add(vectors[:1]).tolist() == [N + 2]


@pytest.mark.parametrize("empty", [False, True])
def test_reencoding_goes_from_bytes_to_bits_and_back(
    tmp_path, product, generative, bits, vectors, empty
):
    """Readers follow; what has no Hamming distance gets one, and loses it again."""
    collection = Collection.create(tmp_path / "c", product, keep_vectors="float32")
    if not empty:
        collection.add(vectors[:60], metadata={"n": list(range(60))})
        collection.compact()
        collection.delete([3])
        collection.add(vectors[60:70])
    reader = Collection.open(tmp_path / "c")
    reader.search(vectors[:2], 3)
    for model in (bits, generative["l2"], product, bits, product):
        before = reader.search(vectors[:5], 4)
        collection.reencode(model)
        for ours, theirs in zip(reader.search(vectors[:5], 4), before, strict=True):
            np.testing.assert_array_equal(ours, theirs)  # a reader's moment is its own
        reader.refresh()
        kind = "hamming" if model is bits else "tables"
        for opened in (collection, reader, Collection.open(tmp_path / "c")):
            assert opened.stats()["kind"] == kind and opened.n_bits == model.code_bits
            assert opened.fingerprint == model.fingerprint_
            alive = opened.ids
            codes = model.encode(vectors[alive]) if len(alive) else np.empty((0, 1), np.uint8)
            found = opened.search(vectors[:5], 4, rerank="none")
            if len(alive) and model is bits:
                apart = np.bitwise_count(model.encode(vectors[:5])[:, None] ^ codes).sum(axis=2)
                np.testing.assert_array_equal(found.ids, best(apart, alive, 4)[1])
                assert len(opened.range_search(vectors[:1], 0).ids)
            elif len(alive):
                check(found, sums(model, vectors[:5], codes, "l2"), alive, 4)
            assert opened.verify().n_rows == len(alive) == (0 if empty else 69)
        collection.delete(collection.add(vectors[:1]))


def test_reencoding_to_a_model_that_cannot_score_the_metric_is_refused(
    tmp_path, product, generative, vectors
):
    collection = Collection.create(tmp_path / "c", product, keep_vectors="float32", metric="ip")
    collection.add(vectors[:9])
    with pytest.raises(InvalidInput, match="cannot score 'ip'"):
        collection.reencode(generative["cosine"])
    assert collection.fingerprint == product.fingerprint_ and len(collection) == 9
    collection.reencode(generative["l2"])
    assert collection.verify().n_rows == 9


def test_models_without_codes_of_bits_or_bytes_are_refused(tmp_path, training):
    model = PCAReconstruction(n_components=3).fit(training)
    with pytest.raises(InvalidInput, match="whose codes are bits or bytes"):
        Collection.create(tmp_path / "c", model)
    with pytest.raises(InvalidInput, match="fitted"):
        Collection.create(tmp_path / "c", "a model")


def test_readers_see_their_moment_and_refresh(filled, tmp_path, product, vectors):
    collection = filled()
    reader = Collection.open(tmp_path / "c")
    before = reader.search(vectors[:3], 5)
    collection.add(vectors[:3], [1000, 1001, 1002])
    collection.delete([1, 2])
    again = reader.search(vectors[:3], 5)
    np.testing.assert_array_equal(before.ids, again.ids)
    reader.refresh()
    for ours, theirs in zip(
        collection.search(vectors[:3], 5), reader.search(vectors[:3], 5), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert 1000 in reader.search(vectors[:1], 5).ids


def test_threads_search_one_moment_beside_a_writer(filled, vectors):
    """Every answer is that of a moment with or without the row that comes and goes."""
    collection, queries = filled(), vectors[:2]
    answers = {collection.search(queries, 3).ids.tobytes()}
    (new,) = collection.add(vectors[:1])
    answers.add(collection.search(queries, 3).ids.tobytes())
    assert len(answers) == 2
    collection.delete([new])
    wrong, stop = [], threading.Event()

    def search():
        while not stop.is_set():
            if collection.search(queries, 3, threads=1).ids.tobytes() not in answers:
                wrong.append(1)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        collection.upsert(vectors[:1], [new])
        collection.delete([new])
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    "changes",
    [{"kind": "hamming"}, {"n_bits": 48}, {"metric": "cosine"}],
    ids=["kind", "n_bits", "metric"],
)
def test_a_manifest_that_contradicts_its_model_is_refused(tmp_path, generative, changes):
    """All rows are in the log, which does not say of what kind they are."""
    Collection.create(tmp_path / "c", generative["l2"]).close()
    manifest = read_manifest(tmp_path / "c")
    write_manifest(tmp_path / "c", dataclasses.replace(manifest, **changes))
    collection = Collection.open(tmp_path / "c")
    for call in (collection.verify, lambda: collection.search(np.zeros((1, WIDTH)), 1)):
        with pytest.raises(BadFile, match="not the model that the codes were made with"):
            call()


def test_a_manifest_of_bits_is_not_taken_for_one_of_bytes(tmp_path, training, vectors):
    model = sghash.ITQ(n_bits=16, random_state=0).fit(training)
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(vectors[:5])
    manifest = read_manifest(tmp_path / "c")
    write_manifest(tmp_path / "c", dataclasses.replace(manifest, kind="tables"))
    with pytest.raises(BadFile, match="not the model that the codes were made with"):
        Collection.open(tmp_path / "c").verify()


@pytest.mark.parametrize(
    ("kind", "n_bits", "sentence"),
    [("hamming", 40, "is of the kind 'tables', the manifest says 'hamming'"),
     ("tables", 41, "its n_bits is not valid")],
)  # fmt: skip
def test_a_segment_of_another_kind_than_the_manifest_says_is_refused(
    filled, tmp_path, kind, n_bits, sentence
):
    filled().close()
    manifest = read_manifest(tmp_path / "c")
    entries = tuple(dataclasses.replace(entry, kind=kind) for entry in manifest.segments)
    changed = dataclasses.replace(manifest, kind=kind, n_bits=n_bits, segments=entries)
    write_manifest(tmp_path / "c", changed)
    with pytest.raises(BadFile, match=sentence):
        Collection.open(tmp_path / "c")
