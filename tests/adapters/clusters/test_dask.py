"""Dask: what workers build and answer is what one process does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import sghash
from sghash import Collection, InvalidInput
from sghash.collection import ShardedCollection
from sghash.errors import MissingData

pytest.importorskip("distributed", reason="needs the dask extra")

import dask.array
import dask.bag
from distributed import Client, LocalCluster

from sghash.adapters.clusters import blocks, dask as on_dask

N, WIDTH = 3000, 12
# Closing a cluster leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(3).standard_normal((N, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def model(vectors):
    return sghash.ITQ(n_bits=16, random_state=0).fit(vectors)


@pytest.fixture(scope="module")
def client():
    """Workers in this process: quick to start."""
    with (
        LocalCluster(2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def files(tmp_path, vectors):
    (tmp_path / "files").mkdir()
    for name, rows in zip("bac", np.split(vectors, [900, 2000]), strict=True):
        np.save(tmp_path / "rows.npy", rows)
        sghash.convert(tmp_path / "rows.npy", tmp_path / "files" / f"{name}.parquet")
    return tmp_path / "files"


def one_process(path, files, model, **options):
    with Collection.create(path, model, **options) as collection:
        collection.add(sghash.open_vectors(files))
    return Collection.open(path)


def same(one, other, queries):
    assert np.array_equal(one.ids, other.ids)
    assert np.array_equal(one.get(one.ids).codes, other.get(other.ids).codes)
    a, b = one.search(queries, 20), other.search(queries, 20)
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.distances, b.distances)


def test_build_is_what_one_process_makes(client, files, tmp_path, model, vectors):
    told = []
    built = on_dask.build_collection(
        files, tmp_path / "c", client=client, model=model, keep_vectors="float16",
        rows_per_part=400, callback=lambda *at: told.append(at),
    )  # fmt: skip
    same(built, one_process(tmp_path / "o", files, model, keep_vectors="float16"), vectors[:9])
    assert told[-1] == (N, N) and [done for done, _ in told] == sorted(done for done, _ in told)
    built.close()
    again = on_dask.build_collection(
        files, tmp_path / "c", client=client, model=model, keep_vectors="float16",
        rows_per_part=400,
    )  # fmt: skip
    assert len(again) == N
    again.close()
    with pytest.raises(InvalidInput, match="made with metric='l2': leave out metric"):
        on_dask.build_collection(files, tmp_path / "c", client=client, metric="ip")


def test_without_a_model_one_is_fitted_on_a_sample(client, files, tmp_path, vectors):
    small = sghash.ITQ(n_bits=16, random_state=0)
    fitted = on_dask.fit(files, small, client=client, n_rows=500)
    table = np.vstack([vectors[900:2000], vectors[:900], vectors[2000:]])
    rows = np.sort(np.random.default_rng(0).choice(N, 500, replace=False, shuffle=False))
    expected = sghash.ITQ(n_bits=16, random_state=0).fit(table[rows])
    assert fitted.fingerprint_ == expected.fingerprint_
    for chunks in (300, (1000, 5)):
        some = dask.array.from_array(table, chunks=chunks)
        array = on_dask.fit(some, sghash.ITQ(16, random_state=0), client=client, n_rows=500)
        assert array.fingerprint_ == expected.fingerprint_
    lists = dask.bag.from_sequence(list(table), npartitions=7)
    for bag in (lists, lists.map_partitions(lambda part: (row for row in part))):
        found = on_dask.fit(bag, sghash.ITQ(16, random_state=0), client=client, n_rows=500)
        assert found.fingerprint_ == expected.fingerprint_


def test_encode(client, model, vectors):
    codes = on_dask.encode(dask.array.from_array(vectors, chunks=(700, 7)), model, client=client)
    assert codes.shape == (N, 2) and codes.dtype == np.uint8
    assert np.array_equal(client.compute(codes, sync=True), model.encode(vectors))
    bag = on_dask.encode(dask.bag.from_sequence(list(vectors), npartitions=3), model, client=client)
    assert np.array_equal(np.stack(client.compute(bag, sync=True)), model.encode(vectors))


@pytest.mark.parametrize(
    "way",
    [{}, {"rerank": "decoder"}, {"rerank": "vectors", "shortlist": 30}, {"target_recall": 0.9},
     {"where": "n > 2"}],
    ids=str,
)  # fmt: skip
def test_search_is_what_one_process_says(client, tmp_path, model, vectors, way, monkeypatch):
    monkeypatch.setattr(on_dask, "_QUERY_ROWS", 7)
    with Collection.create(tmp_path / "one", model, keep_vectors="float32") as one:
        one.add(vectors, metadata={"n": np.arange(N) % 5})
    shards = ShardedCollection.open([tmp_path / "one"]).reshard([tmp_path / f"{i}" for i in "abc"])
    with Collection.create(tmp_path / "empty", model, keep_vectors="float32"):
        several = [*shards.folders, tmp_path / "empty"]  # which has no column "n"
    for given, reader in ((shards, shards), (several, shards), (tmp_path / "one", one), (one, one)):
        expected = reader.search(vectors[:17], 10, **way)
        if "target_recall" not in way:  # it is reached in each segment, as rows are divided
            assert np.array_equal(expected.ids, one.search(vectors[:17], 10, **way).ids)
        found = on_dask.search(given, vectors[:17], 10, client=client, **way)
        assert np.array_equal(found.ids, expected.ids)
        assert np.array_equal(found.distances, expected.distances)


def test_a_missing_shard_is_named(client, tmp_path, model, vectors, caplog):
    with Collection.create(tmp_path / "one", model) as one:
        one.add(vectors)
    paths = [tmp_path / "one", tmp_path / "gone"]
    with pytest.raises(MissingData, match=r"1 of 2 shards are not there for the workers: .*gone"):
        on_dask.search(paths, vectors[:2], client=client)
    found = on_dask.search(paths, vectors[:2], client=client, allow_partial=True)
    assert np.array_equal(found.ids, one.search(vectors[:2]).ids)
    assert "1 of 2 shards are not there" in caplog.text


def test_bad_input(client, tmp_path, model, vectors, files):
    for wrong in (None, "tcp://nowhere", 3):
        with pytest.raises(InvalidInput, match=r"dask\.distributed\.Client"):
            on_dask.search(tmp_path, vectors[:1], client=wrong)
    for wrong in ([], [tmp_path, tmp_path], 7, [7]):
        with pytest.raises(InvalidInput, match="shard"):
            on_dask.search(wrong, vectors[:1], client=client)
    with pytest.raises(InvalidInput, match="condition"):
        on_dask.search(tmp_path, vectors[:1], client=client, where=[1])
    with pytest.raises(InvalidInput, match="Dask array"):
        on_dask.encode(vectors, model, client=client)
    array = dask.array.from_array(vectors, chunks=100)
    with pytest.raises(InvalidInput, match="compute_chunk_sizes"):
        on_dask.fit(array[array[:, 0] > 0], model, client=client)
    with pytest.raises(InvalidInput, match="install the same version everywhere"):
        blocks.encode_block(vectors, model, "0.0.1")


def test_a_worker_that_fails_leaves_the_collection_as_it_was(
    client, files, tmp_path, model, vectors
):
    bad = vectors[:50].copy()
    bad[7, 3] = np.inf
    np.save(tmp_path / "rows.npy", bad)
    sghash.convert(tmp_path / "rows.npy", files / "d.parquet")
    with Collection.create(tmp_path / "c", model) as one:
        one.add(vectors[:5])
    with pytest.raises(InvalidInput, match=r"d\.parquet, rows 0 to 49: vectors contain NaN"):
        on_dask.build_collection(files, tmp_path / "c", client=client)
    assert Collection.open(tmp_path / "c").ids.tolist() == list(range(5))
    (files / "d.parquet").unlink()
    with on_dask.build_collection(files, tmp_path / "c", client=client) as built:
        assert built.ids.tolist() == list(range(5 + N))


def test_an_interrupt_cancels_and_the_next_call_goes_on(client, files, tmp_path, model, vectors):
    def interrupt(done, total):
        raise KeyboardInterrupt

    build = partial(
        on_dask.build_collection, files, tmp_path / "c", client=client, model=model,
        rows_per_part=100, keep_vectors="int8", metric="l2",
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        build(callback=interrupt)
    assert len(Collection.open(tmp_path / "c")) == 0
    with build(callback=lambda *_: None) as c:
        same(c, one_process(tmp_path / "o", files, model, keep_vectors="int8"), vectors[:5])
    assert not (tmp_path / "c" / "staged").exists()


def test_a_worker_of_another_model_writes_nothing(client, files, tmp_path, model):
    with Collection.create(tmp_path / "c", model) as one:
        task = replace(one.prepare(files, job="j")[0], fingerprint="1" * 64)
    with pytest.raises(InvalidInput, match="prepare it again"):
        client.submit(on_dask.encode_part, task, pure=False).result()
    assert not (tmp_path / "c" / "staged").exists()
