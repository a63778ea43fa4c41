"""Search by a model's query tables, over codes in memory."""

from __future__ import annotations

import numpy as np

from sghash.blocks import blocks_of
from sghash.index import TableIndex
from sghash.models.base import VectorModel
from sghash.neighbors import Neighbors
from sghash.validation import Codes, Vectors

# Tables of more queries would fill the memory.
_QUERIES_AT_ONCE = 256


def nearest_by_tables(
    model: VectorModel,
    codes: Codes,
    queries: Vectors,
    k: int,
    *,
    metric: str | None = None,
    threads: int | None = None,
) -> Neighbors:
    """The k rows of `codes` of least score for each query (n, d), in one metric of the model."""
    index = TableIndex.for_model(model, metric=metric)
    index.add(codes)
    scorer = model.scorer(metric)
    found = [
        index.search(scorer.query_tables(block), min(k, len(codes)), threads=threads)
        for _, block in blocks_of(queries, _QUERIES_AT_ONCE)
    ]
    return Neighbors(*(np.concatenate(part) for part in zip(*found, strict=True)))
