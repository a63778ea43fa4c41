"""Slow twins of searches by query tables."""

from __future__ import annotations

import numpy as np


def has_tables(model):
    """Whether the codes of a model are bytes that name rows of tables."""
    return model.capabilities.codes == "bytes"


def nearest_by_tables(model, metric, queries, ids, codes, k):
    """The k rows of least sum of table entries: distances float32 and ids, padded.

    Sums go from the first byte to the last in float32; what depends on the query alone is added in
    the end, and what then ties goes by id.
    """
    tables, offsets, _ = model.query_tables(queries, metric=metric)
    distances = np.full((len(queries), k), np.inf, dtype=np.float32)
    chosen = np.full((len(queries), k), -1, dtype=np.int64)
    n = min(k, len(ids))
    if n:
        sums = np.zeros((len(queries), len(ids)), dtype=np.float32)
        for place in range(codes.shape[1]):
            sums += tables[:, place, codes[:, place]]
        every = np.broadcast_to(ids, sums.shape)
        order = np.lexsort((every, sums), axis=1)[:, :n]
        scores = (np.take_along_axis(sums, order, axis=1) + offsets[:, None]).astype(np.float32)
        found = ids[order]
        again = np.lexsort((found, scores), axis=1)
        distances[:, :n] = np.take_along_axis(scores, again, axis=1)
        chosen[:, :n] = np.take_along_axis(found, again, axis=1)
    return distances, chosen
