"""A collection answers as a plain table in memory would, whatever was done to it before."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import sghash
from sghash import BadFile, Collection, InvalidInput, StorageError
from sghash.collection.storage import writer
from sghash.errors import InvalidDtype
from sghash.kernels import reference
from sghash.kernels.reference import small as twin
from sghash.kernels.vectors.kinds import KINDS, SMALL
from sghash.models import LSH


class Table:
    """The slow twin: a dictionary of rows and brute force."""

    def __init__(self, model):
        self.model, self.rows = model, {}

    def put(self, ids, vectors):
        self.rows.update(zip(ids, vectors, strict=True))

    def search(self, queries, k, allowed=None):
        ids = np.asarray(sorted(i for i in self.rows if allowed is None or i in allowed))
        codes = self.model.encode(np.stack([self.rows[i] for i in ids]))
        found = reference.hamming_neighbors(
            codes, self.model.encode(queries), k, n_bits=self.model.n_bits
        )
        return found.distances, np.where(found.ids < 0, -1, ids[found.ids])


def assert_same(found, expected):
    np.testing.assert_array_equal(found.distances, expected[0])
    np.testing.assert_array_equal(found.ids, expected[1])


@pytest.fixture
def small_log(monkeypatch):
    """Flush and merge all the time, as a large collection would now and then."""
    monkeypatch.setattr(writer, "LOG_BYTES", 1 << 14)
    monkeypatch.setattr(writer, "LOG_RECORDS", 7)
    monkeypatch.setattr(writer, "MAX_SEGMENTS", 4)
    monkeypatch.setattr(writer, "MERGE_SEGMENTS", 3)


def given_back(vectors, keep):
    """What a collection gives back of vectors that it keeps."""
    if keep in SMALL:
        return twin.grow(twin.shrink(vectors, keep), vectors.shape[1])
    return vectors.astype(keep)


@pytest.mark.parametrize("keep", [None, *KINDS])
def test_any_sequence_of_changes_equals_the_table(tmp_path, model, vectors, rng, small_log, keep):
    table = Table(model)
    collection = Collection.create(tmp_path / "c", model, keep_vectors=keep)
    for step in range(60):
        chosen = vectors[rng.integers(0, len(vectors), rng.integers(1, 9))]
        what = rng.choice(["add", "add ids", "upsert", "delete", "reopen", "compact"])
        alive = np.asarray(sorted(table.rows))
        if what == "add":
            table.put(collection.add(chosen).tolist(), chosen)
        elif what == "add ids":
            ids = rng.choice(np.setdiff1d(np.arange(2000), alive), len(chosen), replace=False)
            np.testing.assert_array_equal(collection.add(chosen, ids), ids)
            table.put(ids.tolist(), chosen)
        elif what == "upsert":
            ids = rng.choice(2000, len(chosen), replace=False)
            collection.upsert(chosen, ids)
            table.put(ids.tolist(), chosen)
        elif what == "delete" and len(alive):
            ids = rng.choice(alive, min(len(alive), 3), replace=False)
            collection.delete(ids)
            for i in ids.tolist():
                del table.rows[i]
        elif what == "reopen":
            collection.close()
            collection = Collection.open(tmp_path / "c", writable=True)
        elif what == "compact":
            collection.compact()
            assert collection.stats()["n_deleted"] == 0
        assert len(collection) == len(table.rows), f"step {step}: {what}"
    assert collection.verify().n_rows == len(table.rows)
    reader = Collection.open(tmp_path / "c")
    for opened in (collection, reader):
        np.testing.assert_array_equal(opened.ids, sorted(table.rows))
        by_codes = opened.search(vectors[:9], 7, rerank="none")
        assert_same(by_codes, table.search(vectors[:9], 7))
        stored = opened.get(opened.ids)
        expected = np.stack([table.rows[i] for i in opened.ids.tolist()])
        np.testing.assert_array_equal(stored.codes, model.encode(expected))
        np.testing.assert_array_equal(stored.reconstructions, model.decode(stored.codes))
        if keep:
            np.testing.assert_array_equal(stored.vectors, given_back(expected, keep))
        else:
            assert stored.vectors is None


def test_large_batches_become_segments_at_once(tmp_path, model, vectors, small_log):
    collection = Collection.create(tmp_path / "c", model, keep_vectors="float32")
    collection.add(vectors)
    assert collection.stats()["n_segments"] == 1
    assert collection.stats()["n_rows_in_log"] == 0
    np.testing.assert_array_equal(Collection.open(tmp_path / "c").get([7]).vectors, vectors[7:8])


def test_string_keys_are_stable(tmp_path, model, vectors, small_log):
    collection = Collection.create(tmp_path / "c", model)
    first = collection.add(vectors[:3], ["a", "b", "ü"])
    collection.add(vectors[3:40])
    assert collection.upsert(vectors[9:11], ["b", "new"]).tolist() == [first[1], 40]
    collection.delete("a")
    collection.compact()
    reader = Collection.open(tmp_path / "c")
    assert "a" not in reader and "b" in reader and 40 in reader and 41 not in reader
    found = reader.get(["new", "ü"])
    assert found.ids.tolist() == [40, 2] and found.keys == ["new", "ü"]
    np.testing.assert_array_equal(reader.get(["b"]).codes, model.encode(vectors[9:10]))
    assert reader.search(vectors[9:10], 1, where=["b", "ü"]).ids.tolist() == [[1]]
    for bad in (["b"], ["x", "x"], [""], ["x", 3]):
        with pytest.raises(InvalidInput):
            collection.add(vectors[: len(bad)], bad)
    with pytest.raises(InvalidInput, match="not in the collection"):
        reader.get(["a"])


def test_where_filters_like_the_table(tmp_path, model, vectors, rng, small_log):
    table, queries = Table(model), vectors[:9]
    collection = Collection.create(tmp_path / "c", model)
    years = rng.integers(1990, 2010, len(vectors))
    for start in range(0, 300, 60):
        part = slice(start, start + 60)
        table.put(range(start, start + 60), vectors[part])
        langs = [["de", "en", None][i % 3] for i in range(60)]
        collection.add(vectors[part], metadata={"year": years[part], "lang": langs})
    collection.delete(np.arange(0, 300, 11))
    for i in range(0, 300, 11):
        del table.rows[i]
    alive = set(table.rows)
    conditions = {
        "year >= 2000": {i for i in alive if years[i] >= 2000},
        "1995 <= year < 2000 and lang == 'de'": {
            i for i in alive if 1995 <= years[i] < 2000 and i % 60 % 3 == 0
        },
        "not year in (1990, 1991) or lang == None": {
            i for i in alive if years[i] not in (1990, 1991) or i % 60 % 3 == 2
        },
        "lang != 'de'": {i for i in alive if i % 60 % 3 == 1},
        "lang in ['en', 'fr']": {i for i in alive if i % 60 % 3 == 1},
    }
    for text, allowed in conditions.items():
        assert_same(collection.search(queries, 5, where=text), table.search(queries, 5, allowed))
    chosen = sorted(alive)[::7]
    mask = np.isin(collection.ids, chosen)
    for where in (chosen, mask):
        expected = table.search(queries, 60, set(chosen))
        assert_same(collection.search(queries, 60, where=where), expected)
    assert collection.get([60]).metadata == {"lang": ["de"], "year": [years[60]]}
    for bad in ("height > 3", "year >", "year + 1 > 3", "lang > 3", "open('x')", "year.real > 3"):
        with pytest.raises(InvalidInput):
            collection.search(queries, where=bad)
    with pytest.raises(InvalidInput, match="one truth value"):
        collection.search(queries, where=np.ones(3, dtype=bool))
    with pytest.raises(InvalidDtype, match="one kind per column"):
        collection.add(vectors[:1], metadata={"year": ["x"]})


def test_range_search_and_join_equal_the_reference(tmp_path, model, vectors, small_log):
    collection = Collection.create(tmp_path / "c", model)
    ids = collection.add(vectors, np.arange(300)[::-1] * 3)
    collection.delete(ids[::10])
    kept = np.sort(np.delete(ids, np.s_[::10]))
    codes = collection.get(kept).codes
    expected = reference.hamming_range(codes, model.encode(vectors[:9]), 5, n_bits=20)
    found = collection.range_search(vectors[:9], 5)
    np.testing.assert_array_equal(found.limits, expected.limits)
    np.testing.assert_array_equal(found.ids, kept[expected.ids])
    np.testing.assert_array_equal(found.distances, expected.distances)
    distances = np.unpackbits(codes[:, None] ^ codes[None], axis=2).sum(axis=2)
    first, second = np.nonzero(np.triu(distances <= 3, 1))
    pairs = collection.similarity_join(3)
    assert len(pairs) > 10
    np.testing.assert_array_equal(
        pairs, np.stack([kept[first], kept[second], distances[first, second]], axis=1)
    )


def test_another_model_is_refused(tmp_path, model, vectors):
    other = sghash.ITQ(n_bits=20, random_state=1).fit(vectors)
    collection = Collection.create(tmp_path / "c", model)
    collection.add(vectors)
    with pytest.raises(InvalidInput, match="own model"):
        collection.search_codes(other.encode(vectors[:2]), fingerprint=other.fingerprint_)
    with pytest.raises(InvalidInput, match="own model"):
        collection.add_codes(other.encode(vectors[:2]), fingerprint=other.fingerprint_)
    with pytest.raises(InvalidInput, match="own model"):
        Collection.open(tmp_path / "c", model=other)
    with pytest.raises(InvalidInput, match="needs a fitted model whose codes are bits or bytes"):
        Collection.open(tmp_path / "c", model=3)
    found = collection.search_codes(model.encode(vectors[:2]), 3, fingerprint=model.fingerprint_)
    assert_same(found, collection.search(vectors[:2], 3))


def test_reencode_replaces_model_and_codes(tmp_path, model, vectors, small_log):
    other = sghash.ITQ(n_bits=33, random_state=1).fit(vectors)
    collection = Collection.create(tmp_path / "c", model, keep_vectors="float32")
    collection.add(vectors, metadata={"n": np.arange(300)})
    collection.delete([5])
    reader, idle = Collection.open(tmp_path / "c"), Collection.open(tmp_path / "c")
    before = reader.search(vectors[:2], 3)
    collection.reencode(other)
    for opened in (collection, Collection.open(tmp_path / "c")):
        assert opened.n_bits == 33 and opened.fingerprint == other.fingerprint_
        np.testing.assert_array_equal(
            opened.get(opened.ids).codes, other.encode(np.delete(vectors, 5, axis=0))
        )
        assert opened.get([200]).metadata == {"n": [200]}
        assert opened.verify().n_rows == 299
    assert_same(reader.search(vectors[:2], 3), before)
    with pytest.raises(StorageError, match="call refresh"):
        idle.search(vectors[:2], 3)
    reader.refresh()
    assert reader.n_bits == 33 and reader.search(vectors[6:7], 1).ids.tolist() == [[6]]
    without = Collection.create(tmp_path / "d", model)
    with pytest.raises(InvalidInput, match="no vectors are kept"):
        without.reencode(other)


def test_bad_input_changes_nothing(tmp_path, model, vectors):
    collection = Collection.create(tmp_path / "c", model, keep_vectors="float16")
    collection.add(vectors[:5])
    bad_calls = [
        lambda: collection.add(vectors[:2, :3]),
        lambda: collection.add(vectors[:2] * np.nan),
        lambda: collection.add(vectors[:2] * 1e6),
        lambda: collection.add(vectors[:2], [3, 9]),
        lambda: collection.add(vectors[:2], [9, 9]),
        lambda: collection.add(vectors[:2], [-1, 9]),
        lambda: collection.add(vectors[:2], metadata={"a b": [1, 2]}),
        lambda: collection.add(vectors[:2], metadata={"a": [1]}),
        lambda: collection.add(vectors[:2], metadata={"a": [1, "x"]}),
        lambda: collection.delete([3, 77]),
        lambda: collection.search(vectors[:2], 5, rerank="magic"),
        lambda: collection.search(vectors[:2], 5, rerank="decoder", shortlist=4),
        lambda: Collection.create(tmp_path / "x", model, keep_vectors="int16"),
        lambda: Collection.create(tmp_path / "x", sghash.models.PCAReconstruction(n_components=2)),
    ]
    for call in bad_calls:
        with pytest.raises((InvalidInput, StorageError)):
            call()
        assert len(collection) == 5 and collection.verify().n_rows == 5
    assert not (tmp_path / "x").exists()
    with pytest.raises(StorageError, match="not empty"):
        Collection.create(tmp_path / "c", model)
    with pytest.raises(sghash.BadFile, match="not a collection"):
        Collection.open(tmp_path)
    with pytest.raises(StorageError, match="open for reading"):
        Collection.open(tmp_path / "c").add(vectors[:1])


def test_an_empty_collection_answers_padding(tmp_path, model, vectors):
    collection = Collection.create(tmp_path / "c", model, keep_vectors="float32")
    for rerank in ("none", "decoder", "vectors"):
        assert (collection.search(vectors[:2], 3, rerank=rerank).ids == -1).all()
    assert len(collection.range_search(vectors[:2], 20).ids) == 0
    assert collection.similarity_join(20).shape == (0, 3)
    nothing = collection.get([])
    assert nothing.codes.shape == (0, 3) and nothing.vectors.shape == (0, vectors.shape[1])
    collection.compact()
    assert collection.verify().n_rows == 0


def test_a_folder_that_is_no_collection_is_left_as_it_is(tmp_path):
    with pytest.raises(BadFile, match="is not a collection"):
        Collection.open(tmp_path, writable=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [None, 3, "a\0b", "loop"], ids=str)
def test_what_cannot_be_a_folder_is_refused(tmp_path, model, path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with Collection.create(tmp_path / "c", model) as collection:
        calls = Collection.open, lambda p: Collection.create(p, model), collection.backup
        for call in calls:
            with pytest.raises(sghash.SghashError):
                call(path)


def test_arrays_that_the_caller_changes_later_do_not_change_rows(tmp_path, model, vectors):
    """What was given and what was returned belong to the caller, what is stored does not."""
    codes, ids = model.encode(vectors[:4]), np.asarray([3, 7, 9, 20])
    metadata = {"n": np.arange(4), "f": np.arange(4.0), "b": np.ones(4, dtype=bool)}
    given = codes.copy(), ids.copy(), {name: values.copy() for name, values in metadata.items()}
    with Collection.create(tmp_path / "c", model) as collection:
        returned = collection.add_codes(*given, fingerprint=collection.fingerprint)
        for array in (given[0], given[1], returned, *given[2].values()):
            array[:] = 0
        for _ in range(2):
            assert collection.ids.tolist() == ids.tolist()
            found = collection.get(ids)
            np.testing.assert_array_equal(found.codes, codes)
            assert found.metadata == {name: values.tolist() for name, values in metadata.items()}
            collection.compact()


def test_a_model_that_is_fitted_again_elsewhere_changes_no_codes(tmp_path, vectors):
    """The collection goes on with the model that it has stored."""

    class Listener:
        """As those that write logs: it cannot be copied."""

        def __init__(self):
            self.own = threading.Lock()

        def __call__(self, report):
            pass

    given = sghash.ITQ(10, random_state=0, callback=Listener()).fit(vectors)
    expected = given.encode(vectors[:3])
    with Collection.create(tmp_path / "c", given, keep_vectors="float32") as collection:
        collection.add(vectors[:3])
        opened = Collection.open(tmp_path / "c", model=given)
        given.set_params(random_state=7, callback=None).fit(vectors + 5)
        assert not np.array_equal(given.encode(vectors[:3]), expected)
        again = collection.add(vectors[:3])
        np.testing.assert_array_equal(collection.get(again).codes, expected)
        np.testing.assert_array_equal(opened.model.encode(vectors[:3]), expected)
        other = LSH(32, random_state=1).fit(vectors)
        collection.reencode(other)
        right = other.encode(vectors[3:4])
        other.set_params(random_state=3).fit(vectors)
        np.testing.assert_array_equal(collection.get(collection.add(vectors[3:4])).codes, right)
    assert Collection.open(tmp_path / "c").verify().n_rows == 7


def test_a_model_of_too_long_codes_is_refused_and_nothing_is_touched(tmp_path, rng):
    wide = rng.standard_normal((300, 600)).astype(np.float32)
    long = sghash.ProductQuantizer(600, n_centroids=4, n_iterations=1, random_state=0).fit(wide)
    with pytest.raises(InvalidInput, match="at most 4096 bits, ProductQuantizer makes 4800"):
        Collection.create(tmp_path / "long", long)
    assert not (tmp_path / "long").exists()
    with Collection.create(
        tmp_path / "c", LSH(64, random_state=0).fit(wide), keep_vectors="float32"
    ) as collection:
        collection.add(wide[:9])
        before = sorted(path.name for path in (tmp_path / "c").rglob("*"))
        with pytest.raises(InvalidInput, match="at most 4096 bits"):
            collection.reencode(long)
        assert sorted(path.name for path in (tmp_path / "c").rglob("*")) == before
        assert collection.add(wide[9:10]).tolist() == [9]
    assert Collection.open(tmp_path / "c").verify().n_rows == 10
