"""Query tables: what a model says about real queries, so that codes can be scored undecoded.

A model that has tables gives `QueryTables` for queries and a `CodeLayout` for an index of its
codes; between the two stand plain numbers, so models and indexes need not know each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.validation import Vectors


class QueryTables(NamedTuple):
    """Scores of codes for some queries; smaller is nearer.

    `tables` float32 is either (n_queries, n_bits), what each bit adds where it is set, or
    (n_queries, n_bytes, 256), what each byte adds by its value. The score of a code is the sum of
    its entries, plus the query's entry in `offsets` (n_queries,) float32, plus the code's own term
    where the `CodeLayout` has a `gram`. `own_terms` says whether the scores need that term, so that
    an index made for another metric can refuse them; None, in tables made by hand, asks nothing.
    """

    tables: Vectors
    offsets: Vectors
    own_terms: bool | None = None

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.tables)


class CodeLayout(NamedTuple):
    """What an index must know of a model's codes.

    `n_bytes` per code; `n_bits` of them in use where codes are bits, else None. With `gram`
    (n_bits, n_bits) float64, a code of bits h adds h @ gram @ h to every score.
    """

    n_bytes: int
    n_bits: int | None = None
    gram: NDArray[np.float64] | None = None
