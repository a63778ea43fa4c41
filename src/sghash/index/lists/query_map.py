"""Query tables as a linear map of the query, taken from a model once and not at every query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.index.lists.centroids import Partitions
from sghash.validation import Vectors


class QueryMap(NamedTuple):
    """Tables of one number per bit as a linear map of the query: slopes (n_bits, d), bias."""

    slopes: Vectors
    bias: Vectors


def map_of(
    parts: Mapping[str, NDArray[Any]], n_bits: int | None, partitions: Partitions | None
) -> QueryMap | None:
    """The map in a file, if it fits."""
    if "map_slopes" not in parts:
        return None
    slopes, bias = parts["map_slopes"], parts["map_bias"]
    width = slopes.shape[1] if slopes.ndim == 2 else 0
    right = slopes.dtype == bias.dtype == np.float32 and bias.shape == (n_bits,)
    if not right or slopes.shape != (n_bits, width) or not width:
        raise ValueError("its map of queries is not valid")
    if partitions is not None and not partitions.by_code and partitions.width != width:
        raise ValueError("its map of queries is not of its vectors")
    if not np.isfinite(slopes).all() or not np.isfinite(bias).all():
        raise ValueError("its map of queries is not finite")
    return QueryMap(slopes, bias)


def linear_map(model: Any, metric: str) -> QueryMap | None:
    """Query tables of one number per bit as a linear map, or None where they are none."""
    width = model.n_features_in_
    probes = np.vstack([np.zeros((1, width)), np.eye(width)]).astype(np.float32)
    tables = model.query_tables(probes, metric=metric).tables
    if tables.ndim != 2:
        return None
    wide = tables.astype(np.float64)
    bias, slopes = wide[0], wide[1:] - wide[0]
    rng = np.random.default_rng(0)
    some = rng.standard_normal((8, width))
    some = (some / np.linalg.norm(some, axis=1, keepdims=True)).astype(np.float32)
    right = model.query_tables(some, metric=metric).tables
    error = np.abs(some @ slopes + bias - right).max()
    if error > 1e-3 * max(np.abs(right - bias).max(), 1e-30):
        return None
    return QueryMap(np.ascontiguousarray(slopes.T, dtype=np.float32), bias.astype(np.float32))
