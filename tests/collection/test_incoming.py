"""A source is added block by block as an array is at once, and every finished block stays."""

from __future__ import annotations

import time

import numpy as np
import pytest

from sghash import Collection, InvalidInput, StorageError
from sghash.collection import incoming
from sghash.errors import InvalidDtype

ROWS = 70


class Source:
    """Vectors behind `read`; fails at row `broken`, and notes what was asked for."""

    def __init__(self, array, broken=None):
        self.array, self.broken, self.asked = array, broken, []
        self.shape, self.dtype = array.shape, array.dtype

    def read(self, start, stop):
        self.asked.append((start, stop))
        if self.broken is not None and stop > self.broken:
            raise OSError("the tape is torn")
        return self.array[start:stop]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(incoming, "BLOCK_BYTES", ROWS * 4 * 12)


def contents(path):
    with Collection.open(path) as collection:
        collection.verify()
        found = collection.get(collection.ids)
        stored = None if found.vectors is None else found.vectors.tolist()
        return found.ids.tolist(), found.codes.tolist(), stored, found.keys, found.metadata


@pytest.mark.parametrize("keep", [None, "float16"])
@pytest.mark.parametrize("named", ["none", "numbers", "keys"])
def test_a_source_is_added_like_an_array(tmp_path, model, vectors, rng, keep, named):
    ids = {
        "none": None,
        "numbers": 3 + rng.permutation(1000)[:300],
        "keys": [f"key {i}" for i in rng.permutation(300)],
    }[named]
    # The kinds of the columns show only over all blocks together.
    metadata = {
        "price": [1] * 299 + [0.5],
        "lang": [None] * 250 + ["de"] * 50,
        "year": np.arange(300),
    }
    given = []
    for name, what in (("array", vectors), ("source", Source(vectors))):
        with Collection.create(tmp_path / name, model, keep_vectors=keep) as collection:
            collection.add(vectors[:3], None if named != "keys" else ["x", "y", "z"])
            given.append(collection.add(what, ids, metadata).tolist())
    assert given[0] == given[1]
    assert contents(tmp_path / "array") == contents(tmp_path / "source")


def test_blocks_are_durable_one_by_one(tmp_path, model, vectors):
    seen = []

    def progress(done, total):
        # Another process would see exactly what was reported.
        seen.append((done, total, len(Collection.open(tmp_path / "c"))))

    source = Source(vectors)
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(source, callback=progress)
        assert max(stop - start for start, stop in source.asked) == ROWS
        assert seen == [(n, 300, n) for n in (70, 140, 210, 280, 300)]
        seen.clear()
        collection.add(vectors[:5], callback=progress)
        assert seen == [(5, 5, 305)]


def test_a_source_that_breaks_leaves_whole_blocks_and_says_how_many(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model) as collection:
        with pytest.raises(OSError, match="torn") as caught:
            collection.add(Source(vectors, broken=200))
        assert "first 140 of 300" in caught.value.__notes__[0]
        assert len(collection) == 140
        rest = Source(vectors[140:])
        np.testing.assert_array_equal(collection.add(rest), np.arange(140, 300))
        np.testing.assert_array_equal(collection.get(np.arange(300)).codes, model.encode(vectors))


def test_a_memory_map_is_read_in_blocks(tmp_path, model, vectors):
    np.save(tmp_path / "v.npy", vectors.astype(np.float64))
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")
    steps = []
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(mapped, callback=lambda done, total: steps.append(done))
        np.testing.assert_array_equal(collection.get(np.arange(300)).codes, model.encode(vectors))
        assert collection.add(mapped[0]).tolist() == [300]
    assert steps == [70, 140, 210, 280, 300]


def test_upsert_takes_a_source(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(vectors)
        collection.upsert(Source(vectors[::-1]), np.arange(100, 400))
        codes = np.concatenate([model.encode(vectors[:100]), model.encode(vectors[::-1])])
        np.testing.assert_array_equal(collection.get(np.arange(400)).codes, codes)


def test_what_is_wrong_at_the_end_is_refused_before_the_first_block(tmp_path, model, vectors):
    wrong = [
        {"ids": [*range(1000, 1299), 1000]},
        {"ids": [*range(1000, 1299), 2]},
        {"ids": np.arange(1000, 1299)},
        {"ids": [*(f"k{i}" for i in range(299)), "k7"]},
        {"metadata": {"year": np.arange(299)}},
        {"metadata": {"year": [*range(299), "late"]}},
    ]
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(vectors[:5], metadata={"year": np.arange(5)})
        for options in wrong:
            with pytest.raises((InvalidInput, InvalidDtype)):
                collection.add(Source(vectors), **options)
            assert len(collection) == 5
        with pytest.raises(InvalidInput, match="columns, expected 12"):
            collection.add(Source(vectors[:, :7]))
        assert collection.add(Source(vectors[:0])).tolist() == []
    with pytest.raises(StorageError, match="writable"):
        Collection.open(tmp_path / "c").add(Source(vectors))


def test_a_key_given_twice_is_found_at_once(tmp_path, model):
    """A count of every key would take minutes here."""
    keys = [f"key {i}" for i in range(60_000)]
    with Collection.create(tmp_path / "c", model) as collection:
        codes = np.zeros((len(keys) + 1, 3), dtype=np.uint8)
        started = time.perf_counter()
        with pytest.raises(InvalidInput, match="key 'key 59999' is given twice"):
            collection.add_codes(codes, [*keys, keys[-1]], fingerprint=model.fingerprint_)
        assert time.perf_counter() - started < 5


@pytest.mark.parametrize("block", [False, True])
def test_ids_end_where_the_next_one_is_still_a_number(tmp_path, model, vectors, block):
    most = 2**63 - 2
    with Collection.create(tmp_path / "c", model) as collection:
        with pytest.raises(InvalidInput, match=f"at most {most}"):
            collection.add(vectors[:1], [most + 1])
        assert collection.add(vectors[:2]).tolist() == [0, 1]
        collection.add(vectors[2:3], [most - 1])
        given = Source(vectors[3:5]) if block else vectors[3:5]
        for ids in (None, ["a", "b"]):
            with pytest.raises(InvalidInput, match="cannot be numbered"):
                collection.add(given, ids)
            assert len(collection) == 3
        assert collection.add(vectors[3:4]).tolist() == [most]
        with pytest.raises(InvalidInput, match="cannot be numbered"):
            collection.add(vectors[5:6])
        assert collection.add(vectors[5:6], [2]).tolist() == [2]
        assert collection.add(Source(vectors[:0])).tolist() == []
        collection.compact()
    assert contents(tmp_path / "c")[0] == [0, 1, 2, most - 1, most]
    with Collection.open(tmp_path / "c", writable=True) as collection:
        with pytest.raises(InvalidInput, match="cannot be numbered"):
            collection.add(vectors[5:6])
        assert collection.search(vectors[3:4], 1).ids.tolist() == [[most]]


def test_ids_that_can_be_gone_through_once_count(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model) as collection:
        assert collection.add(vectors[:3], (key for key in "abc")).tolist() == [0, 1, 2]
        assert collection.add(vectors[3:5], (i for i in (8, 9))).tolist() == [8, 9]
        collection.delete(key for key in "ab")
        assert collection.ids.tolist() == [2, 8, 9]
        found = collection.search(vectors[:1], 3, where=(key for key in "c"))
        assert found.ids.tolist() == [[2, -1, -1]]
        assert collection.get(np.asarray("c")).ids.tolist() == [2]


def test_ids_without_order_or_of_mixed_kinds_are_refused(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(vectors[:3])
        for ids, sentence in [
            ({"a", "b"}, "a set, which has no order"),
            ([True, 5], "truth values"),
            ([[5], [6, 7]], "one row of whole numbers"),
            (["a", 5], "not both"),
            (["a\ud800", "b"], "half of a surrogate pair"),
            (["a", "a"], "twice"),
        ]:
            with pytest.raises(InvalidInput, match=sentence):
                collection.add(vectors[:2], ids)
        for where in ([True, 2, 3], [[True], [False, True]], "\ud800", ["\ud800"]):
            with pytest.raises(InvalidInput):
                collection.search(vectors[:1], where=where)
        assert len(collection) == 3
