"""Scores of rows written out, and what a search must then answer."""

from __future__ import annotations

import numpy as np


def sums(model, queries, codes, metric):
    """Sums of table entries, as float32 in the order of bytes: exact."""
    tables, offsets, _ = model.query_tables(queries, metric=metric)
    total = np.zeros((len(queries), len(codes)), dtype=np.float32)
    for place in range(codes.shape[1]):
        total += tables[:, place, codes[:, place]]
    return (total + offsets[:, None]).astype(np.float32)


def formula(queries, vectors, metric, *, unit=False):
    """Distances by definition; what a code stands for counts as of unit length already."""
    q, x = queries.astype(np.float64), vectors.astype(np.float64)
    if metric == "l2":
        return np.square(q[:, None] - x[None]).sum(axis=2)
    if metric == "ip":
        return -q @ x.T
    x = x / np.linalg.norm(x, axis=1, keepdims=True) if unit else x
    return 1 - q @ x.T / np.linalg.norm(q, axis=1, keepdims=True)


def best(scores, ids, k):
    order = np.lexsort((np.broadcast_to(ids, scores.shape), scores), axis=1)[:, :k]
    return np.take_along_axis(scores, order, axis=1), ids[order]


def check(found, scores, ids, k):
    expected, right = best(scores, ids, k)
    n = right.shape[1]
    assert found.distances.dtype == np.float32 and (found.ids[:, n:] == -1).all()
    assert np.isinf(found.distances[:, n:]).all()
    np.testing.assert_array_equal(found.ids[:, :n], right)
    np.testing.assert_array_equal(found.distances[:, :n], expected)
