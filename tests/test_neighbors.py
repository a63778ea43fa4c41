from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sghash import InvalidInput, Neighbors, merge_neighbors
from sghash.neighbors import empty_neighbors


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=30),
    st.integers(1, 4),
    st.integers(1, 12),
    st.randoms(use_true_random=False),
)
def test_merging_shards_gives_what_one_index_would(distances, n_shards, k, random):
    rows = list(range(len(distances)))
    random.shuffle(rows)
    parts = []
    for shard in range(n_shards):
        mine = sorted((distances[i], i) for i in rows[shard::n_shards])[:k]
        part = empty_neighbors(1, k, np.int32)
        for place, (distance, row) in enumerate(mine):
            part.distances[0, place], part.ids[0, place] = distance, row
        parts.append(part)
    expected = sorted((d, i) for i, d in enumerate(distances))[:k]
    merged = merge_neighbors(parts, k)
    assert merged.ids[0, : len(expected)].tolist() == [i for _, i in expected]
    assert merged.distances[0, : len(expected)].tolist() == [d for d, _ in expected]
    assert (merged.ids[0, len(expected) :] == -1).all()


def test_it_unpacks_as_distances_then_ids():
    distances, ids = Neighbors(np.zeros((1, 2), np.int32), np.ones((1, 2), np.int64))
    assert distances.dtype == np.int32 and ids.dtype == np.int64


def test_padding_is_last_and_largest():
    part = empty_neighbors(2, 3, np.float32)
    assert np.isinf(part.distances).all() and (part.ids == -1).all()
    assert empty_neighbors(1, 1, np.int32).distances[0, 0] == np.iinfo(np.int32).max


def test_parts_of_different_queries_are_refused():
    with pytest.raises(InvalidInput, match="different numbers"):
        merge_neighbors([empty_neighbors(1, 2, np.int32), empty_neighbors(2, 2, np.int32)], 2)
    with pytest.raises(InvalidInput, match="at least one"):
        merge_neighbors([], 2)
