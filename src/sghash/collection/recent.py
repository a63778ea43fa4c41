"""The queries that were asked lately, in memory only: what a plan is checked with."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from sghash.validation import Vectors

#: Queries that are remembered, and how many of one call.
N_RECENT, N_OF_CALL = 256, 16


class Recent:
    """The latest queries; old ones go when new ones come."""

    def __init__(self) -> None:
        self._kept: deque[Vectors] = deque(maxlen=N_RECENT)

    def note(self, queries: Any) -> None:
        """Remember some of the queries of a call, whatever they are: nothing is checked here."""
        try:
            queries = np.asarray(queries)
        except (ValueError, TypeError):
            return  # the search itself says what is wrong
        if queries.ndim not in (1, 2) or not queries.size or queries.dtype.kind not in "fiu":
            return
        rows = queries[None] if queries.ndim == 1 else queries[:: max(1, len(queries) // N_OF_CALL)]
        for row in rows[:N_OF_CALL]:
            self._kept.append(np.array(row))

    def queries(self, width: int) -> Vectors:
        """Those that are vectors of this width, in float32; none that is not finite."""
        rows = [
            row for row in list(self._kept) if row.shape == (width,) and row.dtype.kind in "fiu"
        ]
        found = np.asarray(rows, dtype=np.float32).reshape(len(rows), width)
        return np.ascontiguousarray(found[np.isfinite(found).all(axis=1)])
