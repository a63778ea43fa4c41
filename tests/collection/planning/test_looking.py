"""What is right where rows tie, and who is left out of whose answer."""

from __future__ import annotations

import numpy as np

from sghash.collection.planning.looking import look, recalls, without_own


def test_whatever_is_as_near_as_the_last_is_right():
    rows = np.asarray([[0.0], [1], [1], [1], [5]], dtype=np.float32)
    seen = look(rows, metric="l2", queries=[[0.0]], k=2, random_state=0)
    for found, expected in [([0, 1], 1), ([0, 3], 1), ([1, 2], 1), ([0, 4], 0.5), ([4, -3], 0)]:
        assert recalls(seen, np.asarray([found]), 2)[0] == expected


def test_a_row_is_no_neighbour_of_its_own():
    rows = np.arange(40, dtype=np.float32)[:, None]
    seen = look(rows, metric="l2", queries=None, k=2, random_state=0)
    assert len(seen.rows) == 10 and len(np.unique(seen.rows)) == 10
    assert not (seen.near == seen.rows[:, None]).any()
    for row, near in zip(seen.rows, seen.near, strict=True):
        assert abs(near[0] - row) == 1


def test_without_own_drops_the_last_where_the_row_is_not_found():
    distances, ids = without_own(
        np.asarray([[0.0, 1, 2], [3, 4, 5]]), np.asarray([[7, 8, 9], [1, 2, 3]]), np.asarray([8, 9])
    )
    assert ids.tolist() == [[7, 9], [1, 2]] and distances.tolist() == [[0, 2], [3, 4]]
