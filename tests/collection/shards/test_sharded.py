"""Shards answer as one collection would, whatever their number and however rows are divided."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

import sghash
from sghash import Collection, InvalidInput
from sghash.adapters.clusters import blocks
from sghash.collection import ShardedCollection, encode_part
from sghash.collection.shards import dividing, sharded
from sghash.collection.shards.asking import Wanted, check_one_moment, merged, share_of
from sghash.errors import BadFile, MissingData, StorageError


def ways(k):
    """Searches in stages: shortlists so short that rows of equal distance decide."""
    return [
        {"rerank": "vectors", "shortlist": k + 1, "where": "n < 5 and n != 2"},
        {}, {"rerank": "decoder"}, {"rerank": "decoder", "shortlist": "all"},
        {"rerank": "vectors", "shortlist": k + 1}, {"rerank": "vectors", "shortlist": ("all", k)},
        {"where": "n >= 4"}, {"target_recall": 1.0},
    ]  # fmt: skip


def rows_with_ties(n, seed=0):
    """Few different vectors: most distances tie, and ids must decide."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((7, 12)).astype(np.float32)[rng.integers(0, 7, n)]


def fill(folder, model, rows, ids, parts=1, dead=()):
    with Collection.create(folder, model, keep_vectors="float32") as collection:
        for some in np.array_split(np.arange(len(rows)), parts):
            if len(some):
                collection.add(rows[some], ids[some], {"n": (ids[some] % 9).tolist()})
                if parts > 1:
                    collection.compact()
        collection.delete(np.intersect1d(ids, np.asarray(dead, dtype=np.int64)))
    return folder


def chosen_by_rows(ids):
    """The same rows as a mask over all ids, and as a list of ids."""
    mask = np.random.default_rng(len(ids)).random(len(ids)) < 0.4
    return [{"where": mask}, {"where": ids[mask]}, {"rerank": "vectors", "where": mask}]


def same_answers(one, other, queries, k):
    for way in [*ways(k), *chosen_by_rows(one.ids)]:
        a, b = one.search(queries, k, **way), other.search(queries, k, **way)
        assert np.array_equal(a.ids, b.ids) and np.array_equal(a.distances, b.distances), way
    a, b = one.range_search(queries, 6), other.range_search(queries, 6)
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert np.array_equal(one.similarity_join(2), other.similarity_join(2))
    assert np.array_equal(one.ids, other.ids) and len(one) == len(other)
    a, b = one.get(one.ids), other.get(one.ids)
    assert np.array_equal(a.codes, b.codes) and a.metadata == b.metadata and a.keys == b.keys


def asked_apart(paths, queries, k, **way):
    """Each shard by itself, as workers do, then put together."""
    wanted = Wanted(k, **way, kinds={"n": "int"})
    moments = [(str(path), Collection.open(path).moment) for path in paths]
    return merged([share_of(p, m, queries, wanted, threads=1) for p, m in moments], k)


# A case takes a second: a failure is shown as it was found.
@settings(max_examples=10, phases=[Phase.generate])
@given(data=st.data())
def test_answers_do_not_depend_on_the_number_of_shards(data, tmp_path_factory, model):
    n, k = data.draw(st.integers(2, 60)), data.draw(st.integers(1, 70))
    n_shards = data.draw(st.integers(1, 5))
    rows, ids = rows_with_ties(n, seed=n), np.random.default_rng(n).permutation(3 * n)[:n]
    owner = np.asarray(data.draw(st.lists(st.integers(0, n_shards - 1), min_size=n, max_size=n)))
    dead = data.draw(st.lists(st.sampled_from(ids.tolist()), max_size=n - 1))
    folder = tmp_path_factory.mktemp("shards")
    one = Collection.open(fill(folder / "one", model, rows, ids, dead=dead))
    paths = [fill(folder / f"{s}", model, rows[owner == s], ids[owner == s], 1 + s % 2, dead)
             for s in range(n_shards)]  # fmt: skip
    shards = ShardedCollection.open(data.draw(st.permutations(paths)))
    queries = rows_with_ties(5, seed=1) + np.float32(0.1)
    same_answers(one, shards, queries, k)
    for way in ways(k):
        a, b = one.search(queries, k, **way), asked_apart(paths, queries, k, **way)
        assert np.array_equal(a.ids, b.ids) and np.array_equal(a.distances, b.distances), way
    again = shards.reshard([folder / f"new-{i}" for i in range(data.draw(st.integers(1, 4)))])
    same_answers(one, again, rows[:3], k)
    shutil.rmtree(folder)


def test_a_share_of_the_neighbours_is_that_of_every_shard(tmp_path):
    """With rows in their logs, which each shard brings together for itself."""
    rows = np.random.default_rng(0).standard_normal((6000, 24)).astype(np.float32)
    model = sghash.ITQ(n_bits=16, random_state=0).fit(rows)
    paths = [tmp_path / f"{shard}" for shard in range(3)]
    for path, some in zip(paths, np.array_split(np.arange(5700), 3), strict=True):
        with Collection.create(path, model, keep_vectors="float32") as shard:
            for few in np.array_split(some, 19):
                shard.add(rows[few], few)
            assert shard.stats()["n_rows_in_log"] == len(some)
    both, queries = ShardedCollection.open(paths), rows[5700:5800]
    for recall in (0.5, 0.9):
        found = both.search(queries, 10, target_recall=recall)
        apart = asked_apart(paths, queries, 10, target_recall=recall)
        assert np.array_equal(found.ids, apart.ids)
        assert np.array_equal(found.distances, apart.distances)


@pytest.fixture
def shards(tmp_path, model):
    rows = rows_with_ties(40)
    return [
        fill(tmp_path / name, model, rows[start : start + 20], np.arange(start, start + 20))
        for name, start in (("left", 0), ("right", 20))
    ]


def test_split_and_merge_keep_everything(tmp_path, filled, vectors, monkeypatch):
    collection = filled(keep="float16")
    collection.add(vectors[:3], ["x", "y", "z"])
    collection.close()
    one = ShardedCollection.open([tmp_path / "c"])
    told = []
    paths = [tmp_path / "parts" / f"{i}" for i in range(3)]
    split = one.reshard(paths, callback=lambda *at: told.append(at))
    assert told == [(1, 3), (2, 3), (3, 3)]
    sizes = [len(Collection.open(path)) for path in paths]
    assert sum(sizes) == len(one) and max(sizes) - min(sizes) <= 1
    merged = split.reshard([tmp_path / "merged"])
    for other in (split, merged, Collection.open(tmp_path / "merged")):
        assert np.array_equal(other.ids, one.ids)
        a, b = one.get(one.ids), other.get(one.ids)
        assert a.keys == b.keys and a.metadata == b.metadata
        assert np.array_equal(a.codes, b.codes) and np.array_equal(a.vectors, b.vectors)
        assert other.verify().n_rows == len(one)
    with Collection.open(tmp_path / "merged", writable=True) as writer:
        assert writer.add(vectors[:1]).tolist() == [collection.ids[-1] + 1]
    assert split.next_id == one.next_id and split.stats()["n_shards"] == 3
    assert split.search(vectors[:1], 1, where=["y"]).keys[0, 0] == "y"


def test_more_folders_than_rows(tmp_path, model):
    fill(tmp_path / "two", model, rows_with_ties(2), np.array([4, 9]))
    many = ShardedCollection.open([tmp_path / "two"]).reshard([tmp_path / f"{i}" for i in range(5)])
    assert many.ids.tolist() == [4, 9] and many.verify().n_rows == 2
    empty = [tmp_path / f"{i}" for i in range(5) if not len(Collection.open(tmp_path / f"{i}"))]
    assert len(empty) == 3
    assert ShardedCollection.open(empty).search(rows_with_ties(1), 2).ids.tolist() == [[-1, -1]]


def test_a_missing_shard_is_named(shards, tmp_path, caplog):
    paths = [*shards, tmp_path / "gone"]
    with pytest.raises(MissingData, match=rf"1 of 3 shards are not there: {tmp_path}/gone; mount"):
        ShardedCollection.open(paths)
    assert not caplog.records
    partial = ShardedCollection.open(paths, allow_partial=True)
    assert "1 of 3 shards are not there" in caplog.text and str(tmp_path / "gone") in caplog.text
    assert partial.missing == (tmp_path / "gone",) and len(partial) == 40
    with pytest.raises(MissingData, match="would be lost"):
        partial.reshard([tmp_path / "new"])
    with pytest.raises(MissingData):
        ShardedCollection.open([tmp_path / "gone"], allow_partial=True)


def test_a_dead_mount_is_a_missing_shard(shards, tmp_path, monkeypatch):
    real, dead = os.stat, tmp_path / "dead"

    def stat(path, *args, **options):
        if isinstance(path, (str, os.PathLike)) and str(path).startswith(str(dead)):
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected", str(path))
        return real(path, *args, **options)

    monkeypatch.setattr(os, "stat", stat)
    words = rf"1 of 3 shards are not there: {dead} \(Transport endpoint is not connected\); mount"
    with pytest.raises(MissingData, match=words):
        ShardedCollection.open([*shards, dead])
    partial = ShardedCollection.open([*shards, dead], allow_partial=True)
    assert partial.missing == (dead,) and len(partial) == 40
    assert blocks.shard_kinds(str(dead), sghash.__version__) is None
    assert blocks.shard_kinds(str(shards[0]), sghash.__version__) == {"n": "int"}


def test_a_damaged_shard_is_not_taken_for_a_missing_one(shards):
    (next(shards[0].glob("log-*"))).unlink()
    with pytest.raises(BadFile, match="damaged"):
        ShardedCollection.open(shards, allow_partial=True)


def test_what_cannot_be_one_is_refused(shards, tmp_path, model, training):
    rows = rows_with_ties(3)
    fill(tmp_path / "twice", model, rows, np.array([100, 7, 101]))
    with pytest.raises(InvalidInput, match=r"id 7 is in the shards .*left and .*twice"):
        ShardedCollection.open([*shards, tmp_path / "twice"])
    other = sghash.ITQ(n_bits=20, random_state=9).fit(training)
    fill(tmp_path / "other", other, rows, np.array([100, 101, 102]))
    with pytest.raises(InvalidInput, match=r"other has another fingerprint than .*left"):
        ShardedCollection.open([*shards, tmp_path / "other"])
    with Collection.create(tmp_path / "text", model, keep_vectors="float32") as text:
        text.add(rows[:1], [200], {"n": ["a"]})
    with pytest.raises(
        InvalidInput, match=r"column 'n' of the shard .*text is text, elsewhere int"
    ):
        ShardedCollection.open([*shards, tmp_path / "text"])
    for name, keys in (("k1", ["a", "b"]), ("k2", ["c", "b"])):
        with Collection.create(tmp_path / name, model) as keyed:
            keyed.add(rows[:2], keys)
            if name == "k2":
                keyed.delete(keys)
                keyed.add(rows[:2], keys)
    with pytest.raises(InvalidInput, match="key 'b' is in the shards"):
        ShardedCollection.open([tmp_path / "k1", tmp_path / "k2"])
    for wrong in ([], [shards[0]] * 2, str(shards[0])):
        with pytest.raises(InvalidInput):
            ShardedCollection.open(wrong)


def test_shares_that_do_not_belong_together(shards, tmp_path, model, training):
    rows = rows_with_ties(3)
    other = sghash.ITQ(n_bits=20, random_state=9).fit(training)
    fill(tmp_path / "other", other, rows, np.array([100, 101, 102]))
    with pytest.raises(InvalidInput, match="another model"):
        asked_apart([*shards, tmp_path / "other"], rows, 3)
    fill(tmp_path / "twice", model, rows, np.array([100, 7, 101]))
    with pytest.raises(InvalidInput, match="id 7 is in two shards"):
        asked_apart([*shards, tmp_path / "twice"], rows, 50)
    left = Collection.open(shards[0], writable=True)
    one = share_of("left", left.moment, rows, Wanted(3), threads=1)
    left.delete([0])
    with pytest.raises(StorageError, match="left was changed while it was searched"):
        check_one_moment([one, share_of("left", left.moment, rows, Wanted(3), threads=1)])
    planned = share_of("left", left.moment, rows, Wanted(3, target_recall=0.9), threads=1)
    with pytest.raises(InvalidInput, match="different plans"):
        merged([one, planned], 3)


def test_a_row_that_was_deleted_elsewhere_may_come_back(shards, tmp_path, model):
    with Collection.open(shards[0], writable=True) as left:
        left.delete([7])
    fill(tmp_path / "third", model, rows_with_ties(1), np.array([7]))
    assert len(ShardedCollection.open([*shards, tmp_path / "third"])) == 40


def test_writers_go_on_beside(shards, model):
    both = ShardedCollection.open(shards)
    with Collection.open(shards[1], writable=True) as right:
        right.add(rows_with_ties(2), [both.next_id, both.next_id + 1])
    assert len(both) == 40 and both.refresh() == 42 and both.ids[-1] == 41


def test_a_refresh_joins_only_what_has_changed(shards, monkeypatch):
    both = ShardedCollection.open(shards)
    before = both.moment
    assert both.refresh() == 40 and both.moment is before
    with Collection.open(shards[0], writable=True) as left:
        for n_rows, change in (
            (39, lambda: left.delete([3])), (39, left.compact),
            (40, lambda: left.add(rows_with_ties(1), [100])),
        ):  # fmt: skip
            change()
            assert both.refresh() == n_rows and both.moment is not before
            before = both.moment
            assert both.refresh() == n_rows and both.moment is before
    same_answers(both, ShardedCollection.open(shards), rows_with_ties(3), 5)


def test_jobs_fill_shards(shards, tmp_path):
    """Of a split collection, whose shards all have the same next id."""
    halves = ShardedCollection.open(shards).reshard([tmp_path / "a", tmp_path / "b"])
    np.save(tmp_path / "rows.npy", rows_with_ties(9))
    for folder in halves.folders:
        with Collection.open(folder, writable=True) as half:
            tasks = half.prepare(tmp_path / "rows.npy", job="more", first=halves.next_id)
            half.commit([encode_part(task) for task in tasks], job="more")
        halves.refresh()
    assert halves.ids.tolist() == list(range(58))


def test_targets_must_be_new_and_elsewhere(shards, tmp_path, monkeypatch):
    both = ShardedCollection.open(shards)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    for target, kind in ((shards[0], InvalidInput), (shards[0] / "in", InvalidInput),
                         (tmp_path, InvalidInput), (tmp_path / "full", StorageError)):  # fmt: skip
        with pytest.raises(kind):
            both.reshard([tmp_path / "new", target])
    for wrong in ([], str(tmp_path / "new"), [tmp_path / "new"] * 2):
        with pytest.raises(InvalidInput):
            both.reshard(wrong)
    assert not (tmp_path / "new").exists()

    def refuse(*_, **__):
        raise StorageError("the disk refuses")

    monkeypatch.setattr(dividing, "write_segment", refuse)
    with pytest.raises(StorageError, match="refuses"):
        both.reshard([tmp_path / "new"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "left", "right"]


def names_of(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("moment", ["between", "at the end", "in the second"])
def test_an_interrupted_reshard_can_be_called_again(shards, tmp_path, monkeypatch, moment):
    both, targets = ShardedCollection.open(shards), [tmp_path / "n0", tmp_path / "n1"]
    calls, real, rename = [], dividing.write_segment, os.rename

    def interrupt_second(call):
        def called(*args, **options):
            calls.append(args)
            if len(calls) == 2:
                call(*args, **options)  # it is done when the interrupt comes
                raise KeyboardInterrupt
            return call(*args, **options)

        return called

    stop = None
    if moment == "between":
        stop = interrupt_second(lambda *_: None)
    elif moment == "at the end":
        monkeypatch.setattr(dividing.os, "rename", interrupt_second(rename))
    else:
        monkeypatch.setattr(dividing, "write_segment", interrupt_second(real))
    with pytest.raises(KeyboardInterrupt):
        both.reshard(targets, callback=stop)
    monkeypatch.undo()
    assert names_of(tmp_path) == ["left", "right"]
    assert len(both.reshard(targets)) == 40


def test_targets_beside_each_other(shards, tmp_path):
    both = ShardedCollection.open(shards)
    for targets in (
        [tmp_path / "t" / "in", tmp_path / "t"],
        [tmp_path / "t", tmp_path / "t" / "x"],
    ):
        with pytest.raises(InvalidInput, match=r"lies in .*/t: give folders beside each other"):
            both.reshard(targets)
    assert names_of(tmp_path) == ["left", "right"]


def test_two_reshards_onto_one_target(shards, tmp_path, monkeypatch):
    """The second one leaves what the first one is writing, and is the first to be done."""
    both, real, done = ShardedCollection.open(shards), dividing.write_segment, []

    def meanwhile(*args, **options):
        written = real(*args, **options)
        monkeypatch.setattr(dividing, "write_segment", real)
        done.append(len(both.reshard([tmp_path / "new"])))
        assert len([name for name in names_of(tmp_path) if name.startswith(".new.")]) == 1
        return written

    monkeypatch.setattr(dividing, "write_segment", meanwhile)
    with pytest.raises(StorageError, match="new"):
        both.reshard([tmp_path / "new"])
    assert done == [40] and Collection.open(tmp_path / "new").verify().n_rows == 40
    assert names_of(tmp_path) == ["left", "new", "right"]


KILLED = """
import os, signal, sys
from sghash.collection import ShardedCollection
from sghash.collection.shards import dividing, sharded
from sghash.collection.shards.asking import Wanted, check_one_moment, merged, share_of
real = dividing.write_manifest
def killed(*args):
    os.kill(os.getpid(), signal.SIGKILL)
dividing.write_manifest = killed
ShardedCollection.open(sys.argv[1:3]).reshard([sys.argv[3]])
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_reshard_leaves_nothing_in_its_place(shards, tmp_path):
    target = tmp_path / "new"
    done = subprocess.run([sys.executable, "-c", KILLED, *map(str, [*shards, target])], check=False)
    assert done.returncode == -signal.SIGKILL and not target.exists()
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".new.")]
    assert len(ShardedCollection.open(shards).reshard([target])) == 40
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_refresh_that_another_overtakes_does_not_go_back(shards, monkeypatch, model):
    collection = ShardedCollection.open(shards[:2])
    before, real, threads = len(collection), sharded.joined_moment, []

    def add(seed):
        with Collection.open(shards[0], writable=True) as one:
            one.add(rows_with_ties(1, seed), ids=[10_000 + seed])

    def joined(parts, names):
        moment = real(parts, names)
        if not threads:
            add(2)
            threads.append(threading.Thread(target=collection.refresh))
            threads[0].start()
            threads[0].join(0.5)  # it would be over by then if nothing held it up
        return moment

    add(1)
    monkeypatch.setattr(sharded, "joined_moment", joined)
    collection.refresh()
    threads[0].join()
    assert len(collection) == before + 2


def test_every_new_folder_above_a_shard_is_synced(shards, tmp_path, monkeypatch):
    synced, real = [], dividing.sync_folder
    monkeypatch.setattr(dividing, "sync_folder", lambda path: synced.append(path) or real(path))
    (tmp_path / "new").mkdir()
    ShardedCollection.open(shards).reshard([tmp_path / "new" / "a" / "b"])
    assert {tmp_path / "new", tmp_path / "new" / "a"} <= set(synced)
