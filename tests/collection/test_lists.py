"""Collections with partitions: whatever is done to them, they answer as flat ones do."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

import sghash
from sghash import BadFile, Collection, InvalidInput
from sghash.collection.lists import building, targets
from sghash.collection.storage import writer
from sghash.models.baselines.lsh import LSH

WIDTH, N, LISTS = 12, 1200, 12


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(11)
    centres = 2 * rng.standard_normal((20, WIDTH))
    points = centres[rng.integers(20, size=N + 100)] + rng.standard_normal((N + 100, WIDTH))
    return points.astype(np.float32)


@pytest.fixture(scope="module")
def models(rows):
    return {
        "ITQ": sghash.ITQ(n_bits=12, random_state=0).fit(rows),
        "LSH": LSH(n_bits=24, random_state=0).fit(rows),
        "PQ": sghash.ProductQuantizer(n_parts=4, n_centroids=16, random_state=0).fit(rows),
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory, rows, models):
    """Compacted collections, made once: (model, kept, metric) -> folder."""
    root, known = tmp_path_factory.mktemp("lists"), {}

    def make(name, kept, metric="l2"):
        key = name, kept, metric
        if key not in known:
            path = known[key] = root / f"{name}-{kept}-{metric}"
            with Collection.create(
                path, models[name], keep_vectors=kept, metric=metric, partitions=LISTS
            ) as collection:
                collection.add(rows[:N], metadata={"n": list(range(N))})
                collection.compact()
        return known[key]

    return make


@pytest.fixture(autouse=True)
def lists_also_of_few_rows(monkeypatch):
    monkeypatch.setattr(targets, "FEW_ROWS", 20)


CASES = [("ITQ", "float16", "l2"), ("ITQ", None, "l2"), ("ITQ", "float32", "ip"),
         ("LSH", "float32", "l2"), ("PQ", "float16", "l2"), ("PQ", None, "l2"),
         # A search is compiled for each kind of kept vectors: one of the small ones is enough here.
         pytest.param("ITQ", "int8", "cosine", marks=pytest.mark.slow),
         ("PQ", "int4", "l2")]  # fmt: skip
every_case = pytest.mark.parametrize(("name", "kept", "metric"), CASES)


def truth_of(collection, queries, k, where=None):
    """What decides, asked of every row."""
    if collection.stats()["keep_vectors"] is None:
        return collection.search(queries, k, rerank="decoder", shortlist="all", where=where)
    options = {"shortlist": len(collection) + k, "where": where}
    return collection.search(queries, k, rerank="vectors", **options)


def recall(found, truth):
    return float((found.ids[:, :, None] == truth.ids[:, None, :]).any(axis=1).mean())


@every_case
def test_a_recall_is_reached_on_queries_that_were_never_seen(made, rows, name, kept, metric):
    collection = Collection.open(made(name, kept, metric))
    stats, queries = collection.stats(), rows[N:]
    assert stats["lists"] == LISTS and stats["rows_in_lists"] == N and stats["list_bytes"] > 0
    assert stats["lists_learned_from"] == ("decoded codes" if kept is None else "vectors")
    assert stats["microseconds_for_recall"]["0.8"] > 0
    truth = truth_of(collection, queries, 10)
    for target in (0.8, 0.95, 1.0):
        found = collection.search(queries, 10, target_recall=target, threads=1)
        # A hundred queries, and curves of a hundred more: three standard errors of both.
        assert recall(found, truth) >= target - 0.06
    assert (np.diff(found.distances, axis=1) >= 0).all()


@every_case
def test_with_everything_visited_the_answer_is_that_of_all_rows(
    made, rows, name, kept, metric, monkeypatch
):
    collection = Collection.open(made(name, kept, metric))
    index = collection._moment.state.stored[0].rows.lists.index
    everything = max(index.curve.points, key=lambda p: (p.probes, p.shortlist))
    everything = everything._replace(probes=LISTS, margin=1e30, shortlist=N, recall=1.0, error=0)
    monkeypatch.setattr(index, "curve", type(index.curve)([everything], 10))
    truth = truth_of(collection, rows[N:], 10)
    found = collection.search(rows[N:], 10, target_recall=1.0, threads=1)
    np.testing.assert_array_equal(found.ids, truth.ids)
    np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "kept"), [("ITQ", "float16"), ("PQ", None)])
def test_rows_come_and_go_beside_lists(made, rows, models, name, kept, tmp_path):
    path = shutil.copytree(made(name, kept), tmp_path / "c")
    reader = Collection.open(path)
    with Collection.open(path, writable=True) as collection:
        queries = rows[N:]
        gone = np.unique(truth_of(collection, queries, 1).ids)
        gone = gone[gone >= 20]
        collection.delete(gone)
        new = collection.add(queries[:50])
        collection.upsert(queries[50:60], [1, 3, 5, 7, 9, 11, 13, 15, 17, 19])
        found = collection.search(queries, 5, target_recall=0.99)
        assert not np.isin(found.ids, gone).any()
        assert recall(found, truth_of(collection, queries, 5)) > 0.93
        if kept is not None:
            assert found.ids[:50, 0].tolist() == new.tolist()
            assert found.ids[50:60, 0].tolist() == list(range(1, 20, 2))
        assert len(reader) == N and np.isin(reader.search(queries, 1).ids, reader.ids).all()
        collection.compact()
        assert collection.stats()["rows_in_lists"] == len(collection) == N - len(gone) + 50
        after = collection.search(queries, 5, target_recall=0.99)
        assert recall(after, truth_of(collection, queries, 5)) > 0.93
        assert collection.verify().n_deleted == 0
    # What the reader has mapped outlives its files.
    assert (
        recall(reader.search(queries, 5, target_recall=0.95), truth_of(reader, queries, 5)) > 0.88
    )
    assert reader.refresh() == len(Collection.open(path))
    names = [p.name.split("-")[0] for p in path.iterdir()]
    assert names.count("lists") == names.count("segment") == 1


def test_conditions_are_kept(made, rows):
    collection = Collection.open(made("ITQ", "float16"))
    for condition in ("n < 12", "n < 120", "n >= 600"):
        found = collection.search(rows[N:], 5, target_recall=0.95, where=condition)
        allowed = found.ids < 600 if "<" in condition else found.ids >= 600
        assert allowed.all()
        assert recall(found, truth_of(collection, rows[N:], 5, where=condition)) > 0.88
    nothing = collection.search(rows[N:], 5, target_recall=0.9, where="n < 0")
    assert (nothing.ids == -1).all()


def test_a_flat_collection_reaches_a_recall_too(rows, models, tmp_path):
    for name, kept in [("ITQ", "float16"), ("LSH", "float32"), ("PQ", None)]:
        with Collection.create(tmp_path / name, models[name], keep_vectors=kept) as collection:
            assert (collection.search(rows[:2], 3, target_recall=0.9).ids == -1).all()
            collection.add(rows[:N])
            truth = truth_of(collection, rows[N:], 10)
            for target in (0.8, 0.99, 1):
                found = collection.search(rows[N:], 10, target_recall=target)
                assert recall(found, truth) >= target - 0.05
            assert collection.stats()["format_version"] == 2
            assert collection.stats()["lists"] == 0


def test_reencoding_makes_lists_for_the_new_codes(made, rows, models, tmp_path):
    path = shutil.copytree(made("ITQ", "float32", "ip"), tmp_path / "c")
    with Collection.open(path, writable=True) as collection:
        for name in ("LSH", "ITQ"):
            collection.reencode(models[name])
            assert collection.stats()["lists"] == LISTS
            found = collection.search(rows[N:], 10, target_recall=0.95)
            assert recall(found, truth_of(collection, rows[N:], 10)) > 0.88
    assert Collection.open(path).verify().n_rows == N


def test_a_copy_has_the_lists_and_is_brought_up_to_date(made, rows, tmp_path):
    path = shutil.copytree(made("ITQ", "float16"), tmp_path / "c")
    with Collection.open(path, writable=True) as collection:
        collection.backup(tmp_path / "copy")
        lists = [p for p in (tmp_path / "copy").iterdir() if p.name.startswith("lists-")]
        written = [(p.name, p.stat().st_mtime_ns) for p in lists]
        assert len(lists) == 1
        collection.delete([5])
        collection.backup(tmp_path / "copy")
        now = [p for p in (tmp_path / "copy").iterdir() if p.name.startswith("lists-")]
        assert [(p.name, p.stat().st_mtime_ns) for p in now] == written
        copy = Collection.open(tmp_path / "copy", in_memory=True)
        expected = collection.search(rows[N:], 5, target_recall=0.9)
        np.testing.assert_array_equal(copy.search(rows[N:], 5, target_recall=0.9).ids, expected.ids)


def test_what_is_done_to_files_later_does_not_matter_in_memory(made, rows, tmp_path):
    path = shutil.copytree(made("ITQ", "float16"), tmp_path / "c")
    collection = Collection.open(path, in_memory=True)
    expected = Collection.open(path).search(rows[N:], 5, target_recall=0.9)
    shutil.rmtree(path)
    found = collection.search(rows[N:], 5, target_recall=0.9)
    np.testing.assert_array_equal(found.ids, expected.ids)


def test_a_damaged_file_of_lists_is_refused_by_name(made, rows, tmp_path, rng):
    path = shutil.copytree(made("ITQ", "float16"), tmp_path / "c")
    lists = next(path.glob("lists-*"))
    original = lists.read_bytes()
    for place in rng.choice(len(original), 30, replace=False).tolist():
        changed = bytearray(original)
        changed[place] ^= 1 << place % 8
        lists.write_bytes(changed)
        if original[place]:  # else it may fill a gap between sections
            with pytest.raises(BadFile, match=lists.name):
                Collection.open(path).verify()
    for size in (0, 10, len(original) // 2):
        lists.write_bytes(original[:size])
        with pytest.raises(BadFile, match=lists.name):
            Collection.open(path)
    lists.unlink()
    with pytest.raises(BadFile, match=lists.name):
        Collection.open(path)
    other = next(made("ITQ", None).glob("lists-*"))
    shutil.copy(other, lists)
    with pytest.raises(BadFile, match="not the file that the manifest"):
        Collection.open(path)


def test_lists_of_other_codes_are_found_by_verify(made, tmp_path, rows, models):
    """Right checksums, right identities: only the codes are not those of the segment."""
    path = tmp_path / "c"
    with Collection.create(path, models["ITQ"], keep_vectors="float16", partitions=4) as made_now:
        made_now.add(rows[:100])

        real = building.builder_of(models["ITQ"], made_now._moment.state.manifest)

        def build(rows, earlier):
            built = real(rows, earlier)
            codes = np.roll(rows.codes, 1, axis=0)
            ids = built.lists.held.row_ids
            return built._replace(lists=built.lists.over(codes, ids, vectors=rows.vectors))

        made_now._writer.compact(build=build)
    with pytest.raises(BadFile, match="other codes than its segment"):
        Collection.open(path).verify()


def test_partitions_that_cannot_be(tmp_path, models, rows):
    for wrong in (0, -1, 65_537, True, 2.5, "all", [3]):
        with pytest.raises(InvalidInput, match="partitions must be"):
            Collection.create(tmp_path / "c", models["ITQ"], partitions=wrong)
    with pytest.raises(InvalidInput, match="lists need vectors"):
        Collection.create(tmp_path / "c", models["LSH"], partitions=3)
    assert not (tmp_path / "c").exists()
    with Collection.create(tmp_path / "l", models["LSH"]) as collection:
        collection.add(rows[:50])
        with pytest.raises(InvalidInput, match="no decoder that could decide"):
            collection.search(rows[:1], target_recall=0.9)
    with Collection.create(tmp_path / "d", models["ITQ"], partitions=30) as collection:
        for target in (0, -1, 1.1, np.nan, "high"):
            with pytest.raises(InvalidInput, match="target_recall"):
                collection.search(rows[:1], target_recall=target)
        for options in ({"rerank": "decoder"}, {"shortlist": 30}):
            with pytest.raises(InvalidInput, match="leave them out"):
                collection.search(rows[:1], target_recall=0.9, **options)
        # More lists than rows: flat until there are enough; one row again and again: one list.
        collection.add(rows[:1])
        collection.compact()
        assert collection.stats()["lists"] == 0
        collection.add(np.repeat(rows[:1], 100, axis=0))
        collection.compact()
        assert collection.stats()["lists"] == 30
        found = collection.search(rows[:1], 200, target_recall=0.9)
        assert (found.ids[0, :50] >= 0).all() and (found.ids[0, 101:] == -1).all()


def test_auto_makes_lists_where_they_pay(tmp_path, models, rows, monkeypatch):
    monkeypatch.setattr(building, "AUTO_ROWS", 1000)
    with Collection.create(tmp_path / "c", models["ITQ"], partitions="auto") as collection:
        collection.add(rows[:999])
        collection.compact()
        assert collection.stats()["lists"] == 0 and collection.stats()["partitions"] == "auto"
        collection.add(rows[999:1001])
        collection.compact()
        assert collection.stats()["lists"] > 10


def test_explain_says_what_was_visited(made, rows, tmp_path):
    path = shutil.copytree(made("ITQ", "float16"), tmp_path / "c")
    with Collection.open(path, writable=True) as collection:
        collection.add(rows[N : N + 40])
        told = collection.explain(rows[:1], 5, target_recall=0.8)
        lists, flat = told.visits
        assert lists.n_lists == LISTS and 1 <= lists.lists_visited < LISTS
        assert 5 <= lists.rows_scored <= lists.rows_scanned < N and lists.expected_recall >= 0.8
        assert flat.n_rows == flat.rows_scanned == 40 and flat.n_lists == 0
        text = str(told)
        assert f"lists visited: {lists.lists_visited} of {LISTS}" in text
        expected = collection.search(rows[:1], 5, target_recall=0.8)
        np.testing.assert_array_equal(told.neighbors.ids, expected.ids)
        plain = collection.explain(rows[0], 5, rerank="vectors", where="n < 100")
        assert [visit.rows_scanned for visit in plain.visits] == [100, 0]
        with pytest.raises(InvalidInput, match="one query"):
            collection.explain(rows[:2])


def test_tune_measures_every_way(made, rows):
    for name, kept in [("ITQ", "float16"), ("PQ", None)]:
        found = Collection.open(made(name, kept)).tune(5, n_queries=20)
        ways = {way.name: way for way in found}
        assert {"codes", "decoder", "target_recall=0.9"} <= set(ways)
        assert all(0 < way.recall <= 1 and way.queries_per_second > 0 for way in found)
        best = ways["decoder"] if kept is None else ways["target_recall=0.99"]
        assert best.recall > 0.9
    with pytest.raises(InvalidInput, match="too few"):
        Collection.open(made("ITQ", "float16")).tune(N)


def lists_of(collection):
    return collection._moment.state.stored[0].rows.lists


def same_centroids(one, other):
    pairs = zip(one.index.partitions[:1], other.index.partitions[:1], strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@every_case
def test_compacting_carries_lists_over_while_they_fit(
    made, rows, models, name, kept, metric, tmp_path
):
    path = shutil.copytree(made(name, kept, metric), tmp_path / "c")
    with Collection.open(path, writable=True) as collection:
        before = lists_of(collection)
        assert before.learned_rows == N
        gone = np.arange(0, N, 3)
        collection.delete(gone)
        collection.add(rows[N:], ids=np.arange(5000, 5100))
        collection.upsert(rows[:40] * 1.01, ids=np.arange(1, 121, 3))
        collection.compact()
        after = lists_of(collection)
        assert same_centroids(before, after) and after.learned_rows == N
        assert len(after.index) == len(collection) == N - len(gone) + 100
        np.testing.assert_array_equal(after.index.codes, collection.get(collection.ids).codes)
        # Every row is where a search would look for it first.
        held = after.index.held
        slots, lists = held.used()
        places = np.empty(held.n, np.int64)
        places[held.ranks[slots]] = lists
        kept_rows = collection._moment.state.stored[0].rows
        vectors = building.vectors_at(kept_rows, np.arange(held.n), models[name])
        nearest = after.index.partitions.lists_of(vectors)[0][:, 0]
        assert (places == nearest).mean() > 0.99
        truth = truth_of(collection, rows[N:], 10)
        found = collection.search(rows[N:], 10, target_recall=0.95)
        assert recall(found, truth) >= 0.89
        assert collection.verify().n_rows == len(collection)


def test_lists_are_learned_anew_where_rows_have_drifted_or_are_many_more(made, rows, tmp_path):
    for number, more in enumerate((rows[:400] + 30, np.repeat(rows[:1], 900, axis=0),
                                   np.concatenate([rows] * 4))):  # fmt: skip
        path = shutil.copytree(made("ITQ", "float16"), tmp_path / str(number))
        with Collection.open(path, writable=True) as collection:
            before = lists_of(collection)
            collection.add(more)
            collection.compact()
            after = lists_of(collection)
            assert not same_centroids(before, after)
            assert after.learned_rows == len(collection)
            again = lists_of(collection)
            collection.add(rows[:50])
            collection.compact()
            assert same_centroids(again, lists_of(collection))
            assert lists_of(collection).learned_rows == again.learned_rows


def test_damaged_lists_are_learned_anew_and_that_is_said(made, rows, tmp_path, caplog):
    path = shutil.copytree(made("ITQ", "float16"), tmp_path / "c")
    with Collection.open(path, writable=True) as collection:
        lists = next(path.glob("lists-*"))
        changed = bytearray(lists.read_bytes())
        start = bytes(changed).index(lists_of(collection).file.arrays["centroids"].tobytes())
        changed[start] ^= 1
        lists.write_bytes(changed)
        collection.delete([3])
        collection.compact()
        assert "learned anew" in caplog.text
        assert collection.verify().n_rows == N - 1
        assert lists_of(collection).learned_rows == N - 1


def test_a_full_disk_while_lists_are_written_leaves_the_old_state(
    made, rows, tmp_path, monkeypatch
):
    path = shutil.copytree(made("ITQ", "float16"), tmp_path / "c")
    real = writer.write_lists

    def refuse(place, *arguments):
        real(place, *arguments)
        raise sghash.StorageError(28, "No space left on device")

    with Collection.open(path, writable=True) as collection:
        collection.delete([1])
        before = collection.search(rows[N:], 5, target_recall=0.9).ids
        monkeypatch.setattr(writer, "write_lists", refuse)
        with pytest.raises(sghash.StorageError):
            collection.compact()
        np.testing.assert_array_equal(collection.search(rows[N:], 5, target_recall=0.9).ids, before)
        monkeypatch.undo()
        collection.compact()
    assert len(list(path.glob("lists-*"))) == 1
    assert Collection.open(path).verify()[:2] == (N - 1, 0)


_CHANGED_BESIDE = """
import sys
import numpy as np
from sghash import Collection
from sghash.collection.lists import targets
targets.FEW_ROWS = 20
reader = Collection.open(sys.argv[1])
queries = np.load(sys.argv[2])
reader.search(queries, 3, target_recall=0.9)
lists = reader.moment.state.stored[0].rows.lists.file
ranks = lists.arrays["ranks"]
first = np.frombuffer(lists.data, np.uint8).__array_interface__["data"][0]
with open(lists.path, "r+b") as stream:
    stream.seek(ranks.__array_interface__["data"][0] - first)
    stream.write(b"\\xff\\xff\\xff\\x7f" * (ranks.size // 4))
assert reader.moment.state.stored[0].rows.lists.file.arrays["ranks"].max() == 255
for where in (None, "n < 900"):
    print(reader.search(queries, 3, target_recall=0.9, where=where).ids.shape)
"""


def test_a_file_that_is_changed_while_it_is_mapped_cannot_lead_outside(made, rows, tmp_path):
    """Answers may be wrong then; the process lives."""
    path = shutil.copytree(made("ITQ", "float32"), tmp_path / "c")
    np.save(tmp_path / "queries.npy", rows[N : N + 5])
    done = subprocess.run(
        [sys.executable, "-c", _CHANGED_BESIDE, str(path), str(tmp_path / "queries.npy")],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["(5, 3)"] * 2


def test_rows_whose_distance_is_infinite_are_found_all_the_same(models, rows, tmp_path):
    """The square of their differences is no float32 any more."""
    far = (rows[:20].astype(np.float64) * 1e20).astype(np.float32)
    with Collection.create(tmp_path / "c", models["LSH"], keep_vectors="float32") as collection:
        collection.add(far)
        for options in ({}, {"target_recall": 0.9}):
            found = collection.search(far[:1], 3, **options)
            assert (found.ids >= 0).all() and len(set(found.ids[0].tolist())) == 3
        padded = collection.search(far[:1], 25, target_recall=0.9).ids[0]
        assert sorted(padded.tolist()) == [-1] * 5 + list(range(20))
