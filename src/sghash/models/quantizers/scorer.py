"""Query tables of codes whose bytes name rows of tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from sghash.tables import CodeLayout, QueryTables
from sghash.validation import Vectors

# From queries (n, d) to what each value of each byte adds (n, n_bytes, size), and to offsets (n,).
Make: TypeAlias = Callable[[Vectors], tuple[Vectors, Vectors]]


class ByteScorer:
    """Tables of 256 entries per byte, made by a function of the model."""

    def __init__(self, n_bytes: int, make: Make) -> None:
        self.layout = CodeLayout(n_bytes)
        self._make = make

    def query_tables(self, queries: Vectors) -> QueryTables:
        """What each value of each byte adds, for each query (n, d)."""
        tables, offsets = self._make(queries)
        n, n_bytes, size = tables.shape
        if size < 256:
            # No code names these: any finite number will do, and the largest keeps ranges short.
            full = np.empty((n, n_bytes, 256), dtype=np.float32)
            full[..., :size], full[..., size:] = tables, tables.max(axis=2, keepdims=True)
            tables = full
        return QueryTables(tables, offsets.astype(np.float32), own_terms=False)
