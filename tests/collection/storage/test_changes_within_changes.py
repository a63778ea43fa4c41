"""What a callback or the handler of a signal does in the middle of a change: nothing is lost."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from sghash import Collection
from sghash.collection import encode_part
from sghash.errors import StorageError


def once(action):
    """A callback that does something at its first call."""
    calls = []

    def callback(*_):
        if not calls:
            calls.append(1)
            action()

    return callback


@pytest.fixture
def collection(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model) as made:
        made.add(vectors[:5])
        yield made


ACTIONS = {
    "add": lambda c, vectors: c.add(vectors[9:10], ["late"]),
    "delete": lambda c, _: c.delete([0]),
    "compact": lambda c, _: c.compact(),
    "describe": lambda c, _: c.describe(picture="3x4"),
    "refresh": lambda c, _: c.refresh(),
    "close": lambda c, _: c.close(),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_a_change_within_a_change_is_refused_and_nothing_is_lost(
    collection, vectors, tmp_path, name
):
    before = collection.get(collection.ids)
    with pytest.raises(StorageError, match="by this very call"):
        collection.compact(callback=once(lambda: ACTIONS[name](collection, vectors)))
    # The outer change was given up as a whole; the collection goes on.
    assert collection.add(vectors[5:7], ["x", "y"]).tolist() == [5, 6]
    collection.compact()
    collection.close()
    with Collection.open(tmp_path / "c", writable=True) as again:
        assert again.ids.tolist() == list(range(7)) and "late" not in again
        np.testing.assert_array_equal(again.get(range(5)).codes, before.codes)
        assert again.verify().n_rows == 7


def test_what_a_callback_swallows_is_not_there_either(collection, vectors, tmp_path):
    def add():
        with suppress(StorageError):
            collection.add(vectors[9:10], ["late"])

    collection.compact(callback=once(add))
    assert "late" not in collection and len(collection) == 5
    assert len(Collection.open(tmp_path / "c")) == 5


def test_looking_is_free_in_a_callback(collection, vectors):
    seen = []
    collection.compact(
        callback=once(lambda: seen.append((len(collection), collection.search(vectors[:1], 1).ids)))
    )
    assert seen[0][0] == 5 and seen[0][1].tolist() == [[0]]


def test_rows_that_come_in_the_callback_of_a_commit_are_kept(collection, vectors, tmp_path):
    np.save(tmp_path / "x.npy", vectors[50:70])
    tasks = collection.prepare(tmp_path / "x.npy", job="j", rows_per_part=10)
    staged = [encode_part(task) for task in tasks]
    # Their ids are those that the job was promised.
    with pytest.raises(StorageError, match="commit again"):
        collection.commit(staged, job="j", callback=once(lambda: collection.add(vectors[9:11])))
    assert len(collection) == len(Collection.open(tmp_path / "c")) == 7


def test_other_writers_stay_out_until_a_change_is_over(collection, tmp_path):
    def let_another_in():
        with suppress(StorageError):
            collection.close()
        Collection.open(tmp_path / "c", writable=True)

    with pytest.raises(StorageError, match="open for writing"):
        collection.compact(callback=once(let_another_in))
    assert len(Collection.open(tmp_path / "c")) == 5
