"""The one order of answers: by (distance, row)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.neighbors import Neighbors, empty_neighbors


def nearest(distances: NDArray[Any], k: int, mask: NDArray[np.bool_] | None) -> Neighbors:
    """The k smallest of each row of a full distance matrix, ties by column."""
    result = empty_neighbors(len(distances), k, distances.dtype)
    columns = np.arange(distances.shape[1]) if mask is None else np.flatnonzero(mask)
    for i, row in enumerate(distances):
        order = columns[np.lexsort((columns, row[columns]))[:k]]
        result.ids[i, : len(order)] = order
        result.distances[i, : len(order)] = row[order]
    return result
