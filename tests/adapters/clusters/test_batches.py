"""Tables of Arrow, as engines hand them to workers: here without an engine."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sghash
from sghash import Collection
from sghash.adapters.clusters.batches import Searcher
from sghash.collection import ShardedCollection
from sghash.errors import MissingData

N = 60


@pytest.fixture
def shards(tmp_path):
    vectors = np.random.default_rng(3).standard_normal((N, 12)).astype(np.float32)
    with Collection.create(
        tmp_path / "one", sghash.ITQ(n_bits=16, random_state=0).fit(vectors)
    ) as one:
        one.add(vectors)
    return ShardedCollection.open([one.folder]).reshard([tmp_path / "a", tmp_path / "b"])


def ids_of(searcher, vectors):
    return np.stack(searcher.answered(pa.table({"v": vectors.tolist()}))["ids"].to_numpy())


def test_a_missing_shard_is_left_out_where_that_is_allowed(shards, tmp_path, caplog):
    queries = np.random.default_rng(4).standard_normal((5, 12)).astype(np.float32)
    folders = [*shards.folders, tmp_path / "gone"]
    with pytest.raises(MissingData, match="allow_partial=True"):
        Searcher(folders, 3, vectors="v")
    searcher = Searcher(folders, 3, vectors="v", allow_partial=True)
    assert "1 of 3 shards are not there" in caplog.text
    assert np.array_equal(ids_of(searcher, queries), shards.search(queries, 3).ids)
    # What comes and goes meanwhile is seen.
    (tmp_path / "a").rename(tmp_path / "hidden")
    right = ShardedCollection.open([tmp_path / "b"])
    assert np.array_equal(ids_of(searcher, queries), right.search(queries, 3).ids)
    (tmp_path / "hidden").rename(tmp_path / "a")
    assert np.array_equal(ids_of(searcher, queries), shards.search(queries, 3).ids)
