"""Stores of documents ask twice, for neighbours and for what they are: both of one moment."""

from __future__ import annotations

import numpy as np
import pytest

from sghash import Collection, StorageError
from sghash.adapters.frameworks.documents import delete_present, nearest_that_fit
from sghash.models import LSH


@pytest.fixture
def collection(tmp_path, rng):
    rows = rng.standard_normal((40, 8)).astype(np.float32)
    model = LSH(64, random_state=0).fit(rows)
    with Collection.create(tmp_path / "c", model, keep_vectors="float32") as made:
        made.add(rows, [f"k{n}" for n in range(40)])
        yield made


def test_what_is_deleted_after_the_search_is_still_in_its_answer(collection):
    query = collection.get(["k7"]).vectors[0]
    asked = []

    def read(moment, ids):
        asked.append(len(ids))
        if len(asked) == 1:
            collection.delete(["k7", "k8"])
        return moment.get(ids).keys

    found = nearest_that_fit(collection, query, 3, read, lambda key: key != "k8")
    assert found[0][0] == "k7" and len(found) == 3 and len(collection) == 38
    # Asked for more and more, until all rows of that moment were seen.
    wanted = nearest_that_fit(collection, query, 3, read, lambda key: key == "k39")
    assert [key for key, _ in wanted] == ["k39"] and asked[-1] == 38


def test_what_somebody_else_deletes_meanwhile_is_passed_over(collection, monkeypatch):
    real, overtaken = collection.delete, []

    def delete(ids):
        if not overtaken:
            overtaken.append(1)
            real(["k1"])
        real(ids)

    monkeypatch.setattr(collection, "delete", delete)
    delete_present(collection, ["k0", "k1", "k2"])
    assert len(collection) == 37 and "k3" in collection
    delete_present(collection, ["nobody"])
    delete_present(collection, np.asarray([3, 999]))
    assert len(collection) == 36 and "k3" not in collection
    monkeypatch.undo()
    collection.close()
    with pytest.raises(StorageError, match="open for reading"):
        delete_present(collection, ["k5"])
