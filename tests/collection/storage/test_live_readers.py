"""Readers beside a writer that replaces files under their hands."""

from __future__ import annotations

import threading

import pytest

import sghash
from sghash import BadFile, Collection
from sghash.collection.storage import verification


def test_stats_of_files_that_were_replaced(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model, keep_vectors="float32") as collection:
        collection.add(vectors)
        collection.compact()
        reader = Collection.open(tmp_path / "c")
        before = reader.stats()
        collection.reencode(sghash.models.LSH(n_bits=8, random_state=0).fit(vectors))
        assert reader.stats() == before
        assert before["segment_bytes"] > 300 * 12 * 4 and before["model_bytes"] > 0


def test_verify_beside_reencodes_reports_no_damage(tmp_path, vectors):
    models = [sghash.models.LSH(n_bits=n, random_state=n).fit(vectors) for n in (16, 24)]
    collection = Collection.create(tmp_path / "c", models[0], keep_vectors="float32")
    collection.add(vectors)
    faults, done = [], threading.Event()

    def work():
        reader = Collection.open(tmp_path / "c")
        while not done.is_set():
            try:
                assert reader.verify().n_rows == len(vectors)
            except Exception as error:
                faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(40):
        collection.reencode(models[(i + 1) % 2])
    done.set()
    for thread in threads:
        thread.join()
    collection.close()
    assert not faults


def test_a_model_replaced_while_it_is_verified_is_no_damage(tmp_path, vectors, monkeypatch):
    models = [sghash.models.LSH(n_bits=n, random_state=n).fit(vectors) for n in (16, 24)]
    with Collection.create(tmp_path / "c", models[0], keep_vectors="float32") as collection:
        collection.add(vectors)
        real, calls = verification.verify_model, []

        def verify_model(folder, manifest):
            calls.append(manifest.n_bits)
            if len(calls) == 1:
                collection.reencode(models[1])
            real(folder, manifest)

        monkeypatch.setattr(verification, "verify_model", verify_model)
        assert Collection.open(tmp_path / "c").verify().n_rows == len(vectors)
        assert calls == [16, 24]


def test_a_model_that_is_missing_for_good_is_damage(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(vectors)
    next((tmp_path / "c").glob("model-*")).joinpath("config.json").unlink()
    with pytest.raises(BadFile, match="missing"):
        Collection.open(tmp_path / "c").verify()
