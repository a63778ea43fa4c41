"""`Collection.build`: vectors in, a collection that keeps its promise out."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sghash
from sghash import Collection
from sghash.collection.planning import looking, measuring
from sghash.collection.planning.plan import plan_of
from sghash.collection.recent import N_OF_CALL, Recent
from sghash.collection.storage.disk import WriterLock
from sghash.data.builtin import clusters
from sghash.errors import InvalidInput, SghashError, StorageError
from sghash.kernels.vectors.exact import exact_neighbors

N, WIDTH = 2600, 16


@pytest.fixture(scope="module")
def data():
    found = clusters(n_vectors=N, width=WIDTH, n_queries=200, random_state=3)
    return np.asarray(found.base), np.asarray(found.queries)


@pytest.fixture(scope="module")
def built(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("built") / "c"
    Collection.build(path, data[0], metadata={"n": range(N)}).close()
    return path


def recall(collection, base, queries, k=10, **options):
    truth = exact_neighbors(base, queries, k, metric=collection.metric).ids
    found = collection.search(queries, k, **options).ids
    return (found[:, :, None] == truth[:, None, :]).any(axis=1).mean()


def test_a_search_without_options_finds_what_was_promised(built, data):
    collection = Collection.open(built)
    assert len(collection) == N and collection.plan.reached
    assert recall(collection, *data) >= 0.94
    assert collection.plan.expected >= 0.95
    stats = collection.stats()
    assert stats["target_recall"] == 0.95 and not stats["plan_is_old"]
    assert stats["bytes_per_row"] < 0.56 * 4 * WIDTH + 40  # few columns: ids weigh much
    assert collection.get([7]).metadata["n"] == [7]


def test_a_search_for_less_or_more_moves_along_the_plan(built, data):
    collection = Collection.open(built)
    for target in (0.8, 0.9, 0.95):
        assert recall(collection, *data, target_recall=target) >= target - 0.02
    by_hand = recall(collection, *data, rerank="none")
    assert by_hand < recall(collection, *data)


def test_explain_follows_the_plan(built, data):
    told = Collection.open(built).explain(data[1][0])
    assert "kept vectors" in str(told) or "lists" in str(told)


def test_the_plan_says_what_was_tried_and_why(built):
    text = str(Collection.open(built).plan)
    assert "every row by" in text and "chosen" in text and "measured: recall" in text
    plan = Collection.open(built).plan
    assert {line["verdict"].split(":")[0] for line in plan.tried} & {"chosen"}


@pytest.mark.slow
def test_the_same_seed_chooses_and_learns_the_same(built, data, tmp_path):
    again = Collection.build(tmp_path / "again", data[0])
    first = Collection.open(built)
    assert again.fingerprint == first.fingerprint
    assert again.plan.tried == first.plan.tried and again.plan.pipeline == first.plan.pipeline
    np.testing.assert_array_equal(
        again.search_codes(first.get([1, 2]).codes, fingerprint=first.fingerprint).ids,
        first.search_codes(first.get([1, 2]).codes, fingerprint=first.fingerprint).ids,
    )


@pytest.mark.parametrize("kind", ["int4", "int8", "float16", "float32", None])
def test_what_is_kept_can_be_said(data, tmp_path, kind):
    collection = Collection.build(tmp_path / "c", data[0][:600], keep_vectors=kind)
    assert collection.stats()["keep_vectors"] == kind
    found = recall(collection, data[0][:600], data[1])
    assert abs(found - collection.plan.expected) < 0.05
    if kind in ("float16", "float32"):
        assert found > 0.99


def test_bytes_bound_code_and_vector_together(data, tmp_path):
    collection = Collection.build(tmp_path / "c", data[0], bytes_per_vector=6)
    stats = collection.stats()
    assert stats["bytes_of_row"]["code"] + stats["bytes_of_row"]["vector"] <= 6
    plan = collection.plan
    assert not plan.reached and "is not reached: the best" in str(plan)
    # Several kinds of codes were tried, and the best was taken.
    recalls = [line["recall"] for line in plan.tried]
    chosen = [line["recall"] for line in plan.tried if line["verdict"].startswith("chosen")]
    assert len(recalls) >= 3 and chosen == [max(recalls)]
    assert {line["name"].split(",")[0] for line in plan.tried} == {
        "GenerativeQuantizer", "ProductQuantizer", "SGH",
    }  # fmt: skip


def test_a_target_out_of_reach_is_said_once(data, tmp_path, caplog):
    collection = Collection.build(tmp_path / "c", data[0][:900], bytes_per_vector=2)
    with caplog.at_level(logging.WARNING, "sghash.collection"):
        collection.search(data[1][:2])
        collection.search(data[1][:2])
    told = [record for record in caplog.records if "the best that was measured" in record.message]
    assert len(told) == 1


@pytest.mark.slow
def test_queries_of_another_kind_set_the_plan(data, tmp_path):
    base, queries = data
    elsewhere = queries + np.linspace(0, 3, WIDTH, dtype=np.float32)
    own = Collection.build(tmp_path / "own", base, keep_vectors="float16")
    given = Collection.build(
        tmp_path / "given", base, keep_vectors="float16", queries=elsewhere[:100]
    )
    assert "given" in given.plan.asked_by and given.plan.n_queries == 100
    assert own.plan.points != given.plan.points
    assert recall(given, base, elsewhere[100:]) >= 0.94


@pytest.mark.parametrize(
    "vectors",
    [
        np.random.default_rng(0).standard_normal((10, 5)),
        np.random.default_rng(0).standard_normal((1, 5)),
        np.ones((300, 4)),
        np.zeros((300, 4)),
        np.random.default_rng(0).standard_normal((60, 4096)),
        np.random.default_rng(0).integers(0, 255, (400, 9)),
        np.random.default_rng(0).standard_normal((50, 1)) * 1e6,
        np.repeat(np.random.default_rng(0).standard_normal((3, 8)), 900, axis=0),
    ],
    ids=["ten", "one", "equal", "zeros", "wide", "whole", "large", "repeated"],
)
def test_odd_vectors_become_collections_too(vectors, tmp_path):
    collection = Collection.build(tmp_path / "c", vectors)
    found = collection.search(vectors[:3].astype(np.float32), 3)
    assert found.ids.shape == (min(3, len(vectors)), 3)
    # The nearest row of a row is itself, or one as near.
    first = np.asarray(vectors, np.float64)[found.ids[:, 0]]
    own = np.asarray(vectors, np.float64)[: len(first)]
    scale = np.abs(own).max() + 1e-9
    assert np.abs(first - own).max() <= 0.3 * scale
    assert collection.plan.reached


def test_unit_rows_are_compared_by_cosine(data, tmp_path):
    rows = data[0][:500] / np.linalg.norm(data[0][:500], axis=1, keepdims=True)
    plan = Collection.build(tmp_path / "c", rows).plan
    assert plan.metric == "cosine" and "length one" in plan.why_metric
    assert Collection.build(tmp_path / "d", rows, metric="ip").metric == "ip"


@pytest.mark.slow
def test_a_file_is_built_as_an_array_is(data, tmp_path):
    np.save(tmp_path / "rows.npy", data[0])
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    one = Collection.build(tmp_path / "one", mapped, [f"k{i}" for i in range(N)])
    two = Collection.build(tmp_path / "two", data[0], [f"k{i}" for i in range(N)])
    assert one.plan.tried == two.plan.tried
    np.testing.assert_array_equal(one.search(data[1][:3]).keys, two.search(data[1][:3]).keys)


@pytest.mark.slow
def test_of_many_rows_a_sample_is_looked_at(data, tmp_path, monkeypatch):
    monkeypatch.setattr(looking, "MAX_PRODUCTS", 400 * WIDTH * 1200)
    collection = Collection.build(tmp_path / "c", data[0])
    assert recall(collection, *data) >= 0.93
    monkeypatch.setattr(measuring, "_MAX_PRODUCTS", 60 * WIDTH * N)
    few = Collection.build(tmp_path / "few", data[0])
    assert few.plan.n_queries == 60


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"target_recall": 0}, "target_recall"),
        ({"target_recall": 1.5}, "at most 1"),
        ({"bytes_per_vector": 0}, "bytes_per_vector"),
        ({"keep_vectors": "int3"}, "keep_vectors"),
        ({"k": 0}, "k must"),
        ({"metric": "l1"}, "metric"),
        ({"queries": np.ones((2, 3))}, "columns"),
        ({"queries": np.ones((0, WIDTH))}, "queries are empty"),
        ({"random_state": -1}, "random_state"),
        ({"ids": [1, 1, *range(2, N)]}, "twice"),
        ({"metadata": {"n": [1]}}, "n"),
    ],
)
def test_bad_options_are_one_sentence_and_leave_nothing(data, tmp_path, options, part):
    with pytest.raises(SghashError, match=part):
        Collection.build(tmp_path / "c", data[0], **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("vectors", [np.ones((0, 4)), np.ones((4, 0)), np.full((9, 3), np.nan)])
def test_bad_vectors_are_one_sentence_and_leave_nothing(tmp_path, vectors):
    with pytest.raises(InvalidInput):
        Collection.build(tmp_path / "c", vectors)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_touched(built, data, tmp_path):
    with pytest.raises(StorageError, match="not empty"):
        Collection.build(built, data[0][:50])
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match="is a file"):
        Collection.build(tmp_path / "file", data[0][:50])
    (tmp_path / "empty").mkdir()
    assert len(Collection.build(tmp_path / "empty", data[0][:50])) == 50


def test_what_a_stopped_build_left_is_replaced_and_a_running_one_is_not(data, tmp_path):
    left = tmp_path / ".c.building"
    left.mkdir()
    (left / "segment-00000001").write_bytes(b"half")
    lock = WriterLock(left)
    with pytest.raises(StorageError, match="another build"):
        Collection.build(tmp_path / "c", data[0][:50])
    lock.release()
    (tmp_path / f".c.building.{'0' * 16}").mkdir()  # what a removal that was killed has left
    assert len(Collection.build(tmp_path / "c", data[0][:50])) == 50
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.skipif(os.name != "posix", reason="open folders are not renamed there")
def test_a_build_gets_its_name_under_its_lock(data, tmp_path, monkeypatch):
    from sghash.collection.planning import building

    real = building._put_in_place

    def looked_at(place, folder):
        with pytest.raises(StorageError, match="another build"):
            building._clear(place)
        real(place, folder)

    monkeypatch.setattr(building, "_put_in_place", looked_at)
    assert len(Collection.build(tmp_path / "c", data[0][:50])) == 50


def test_steps_are_counted(data, tmp_path):
    told = []
    Collection.build(tmp_path / "c", data[0][:100], callback=lambda *step: told.append(step))
    assert told == sorted(told) and told[-1][0] == told[-1][1]


@pytest.mark.slow
def test_a_plan_grows_old_and_check_says_so(data, tmp_path):
    base, queries = data
    collection = Collection.build(tmp_path / "c", base[:300])
    assert collection.check().holds
    collection.search(queries[:20])
    told = collection.check()
    assert told.recall_of_queries is not None and told.n_queries > 0 and "holds" in str(told)
    collection.add(base[300:])
    assert collection.stats()["plan_is_old"]
    assert "old" in collection.check().advice or not collection.check().holds


def test_a_collection_without_a_plan_has_none_to_check(data, tmp_path, model):
    vectors = np.random.default_rng(0).standard_normal((30, 12)).astype(np.float32)
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(vectors)
        assert collection.plan is None
        with pytest.raises(InvalidInput, match="no plan"):
            collection.check()


def test_a_plan_of_another_version_is_no_plan(built, data, tmp_path):
    shutil.copytree(built, tmp_path / "c")
    with Collection.open(tmp_path / "c", writable=True) as collection:
        plan = collection.plan
        collection.follow(replace(plan, target_recall=0.8))
        assert Collection.open(tmp_path / "c").plan.target_recall == 0.8
        collection.follow(None)
        assert Collection.open(tmp_path / "c").plan is None
        told = collection.search(data[1][:9], rerank="vectors")
        np.testing.assert_array_equal(collection.search(data[1][:9]).ids, told.ids)


@pytest.mark.parametrize(
    "change",
    [
        {"points": 3}, {"points": [[1]]}, {"points": [[float("nan"), 1, 1, 1]]}, {"k": 0},
        {"target_recall": "x"}, {"target_recall": 7}, {"n_rows": -1}, {"tried": [{}]},
        {"tried": [3]}, {"more": 1}, {"reached": "yes"}, {"metric": 5},
    ],
)  # fmt: skip
def test_a_plan_that_is_not_sound_is_none(built, change):
    body = Collection.open(built).plan.as_dict()
    assert plan_of(body) == Collection.open(built).plan
    assert plan_of({**body, **change}) is None


def test_another_model_makes_the_plan_void(built, data, tmp_path):
    shutil.copytree(built, tmp_path / "c")
    with Collection.open(tmp_path / "c", writable=True) as collection:
        collection.reencode(sghash.ITQ(n_bits=16).fit(data[0]))
        assert collection.plan is None and Collection.open(tmp_path / "c").plan is None


def test_the_latest_queries_are_remembered_whatever_they_came_in():
    recent = Recent()
    for given in ([[1.0, 2]], np.ones((40, 2)), np.zeros(2), [3, 4], "no", [["a", "b"]], object()):
        recent.note(given)
    found = recent.queries(2)
    assert (
        found.dtype == np.float32 and found.tolist()[0] == [1, 2] and found.tolist()[-1] == [3, 4]
    )
    assert len(found) == 1 + N_OF_CALL + 1 + 1
    assert len(recent.queries(3)) == 0
    recent.note(np.full((1, 2), np.nan))
    assert len(recent.queries(2)) == len(found)


def test_a_collection_of_version_1_can_follow_a_plan(built, tmp_path):
    golden = Path(__file__).parents[2] / "golden" / "collection-v1"
    shutil.copytree(golden, tmp_path / "c")
    before = Collection.open(golden).ids.tolist()
    with Collection.open(tmp_path / "c", writable=True) as collection:
        collection.follow(Collection.open(built).plan)
    again = Collection.open(tmp_path / "c")
    assert again.plan is not None and again.ids.tolist() == before
    assert again.verify().n_rows == len(before)


def test_more_bytes_than_any_code_takes_are_no_fault(data, tmp_path):
    collection = Collection.build(
        tmp_path / "c", data[0][:300], keep_vectors=None, bytes_per_vector=10**6
    )
    assert collection.stats()["bytes_of_row"]["code"] <= 128


@pytest.mark.slow
def test_many_neighbours_are_measured_as_such(data, tmp_path):
    collection = Collection.build(tmp_path / "c", data[0], k=100)
    assert collection.plan.k == 100
    assert recall(collection, *data, k=100) >= 0.94


def test_a_build_that_came_second_does_not_remove_the_first_ones_folder(
    data, tmp_path, monkeypatch
):
    """Both found nothing in their way; only then did the other one begin to write."""
    from sghash.collection.planning import building

    def another_begins(place):
        other = sghash.ITQ(n_bits=8).fit(data[0][:50])
        Collection.create(place, other).close()

    monkeypatch.setattr(building, "_clear", another_begins)
    with pytest.raises(StorageError):
        Collection.build(tmp_path / "c", data[0][:50])
    assert Collection.open(tmp_path / ".c.building").n_bits == 8
