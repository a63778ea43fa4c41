"""From a model's decoder to query tables: real queries against codes, without decoding.

With x(h) the vector that a code stands for, smaller is nearer for every metric:

    "l2"      |q - x(h)|²
    "ip"      -q . x(h)
    "cosine"  1 - q . x(h), q of unit length (codes stand for unit vectors)

Where x(h) = origin + h @ directions is linear in the bits, all but the square |h @ directions|² is
linear in them too: one number per bit, and a gram for the codes' own terms.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sghash.bits import pack_bits
from sghash.errors import InvalidInput
from sghash.tables import CodeLayout, QueryTables
from sghash.validation import Vectors, n_bytes_of

_TOLERANCE = 1e-3
#: No score may be larger: float32 ends at 3.4e38.
MAX_SCORE = 1e38


class Scorer(Protocol):
    """What a fitted model says about real queries in one metric."""

    layout: CodeLayout

    def query_tables(self, queries: Vectors) -> QueryTables:
        """Tables for checked queries (n, d) float32."""


class LinearScorer:
    """Tables of a decoder that is linear in the bits: `origin` (d,), `directions` (n_bits, d)."""

    def __init__(
        self, origin: NDArray[np.float64], directions: NDArray[np.float64], metric: str
    ) -> None:
        self._origin, self._directions, self._metric = origin, directions, metric
        n_bits = len(directions)
        gram = directions @ directions.T if metric == "l2" else None
        self.layout = CodeLayout(n_bytes_of(n_bits), n_bits, gram)

    def query_tables(self, queries: Vectors) -> QueryTables:
        """One number per bit for each query (n, d)."""
        q = queries.astype(np.float64)
        if self._metric == "l2":
            # From the origin: the difference of large squares would lose what matters.
            centred = q - self._origin
            slopes = -2 * centred @ self._directions.T
            offsets = np.square(centred).sum(axis=1)
        else:
            q = unit_queries(q) if self._metric == "cosine" else q
            slopes = -q @ self._directions.T
            offsets = -q @ self._origin + (1.0 if self._metric == "cosine" else 0.0)
        _refuse_huge(np.abs(slopes).sum(axis=1) + np.abs(offsets))
        own_terms = self.layout.gram is not None
        return QueryTables(slopes.astype(np.float32), offsets.astype(np.float32), own_terms)


def _refuse_huge(largest: NDArray[np.float64]) -> None:
    """Refuse queries whose scores (n,), the largest in size, do not fit float32."""
    if not (largest < MAX_SCORE).all():
        raise InvalidInput(
            "the queries hold numbers so large that scores overflow float32: rescale them as the "
            "vectors that the model was fitted on"
        )


def linear_scorer(model: Any, metric: str) -> LinearScorer:
    """Take the decoder of a fitted model apart by asking it; refuse one that is not linear."""
    n_bits = model.n_bits
    codes = pack_bits(np.vstack([np.zeros(n_bits, dtype=np.bool_), np.eye(n_bits, dtype=np.bool_)]))
    decoded = model.decode(codes).astype(np.float64)
    origin, directions = decoded[0], decoded[1:] - decoded[0]
    bits = np.random.default_rng(0).random((16, n_bits)) < 0.5
    expected = model.decode(pack_bits(bits))
    error = np.abs(expected - (origin + bits @ directions)).max()
    if error > _TOLERANCE * (np.abs(expected).max() + np.abs(decoded).max()):
        raise InvalidInput(
            f"the decoder of {type(model).__name__} is not linear in the bits, so it cannot score "
            'codes: search with rerank="none" or, if vectors are kept, rerank="vectors"'
        )
    return LinearScorer(origin, directions, metric)


def unit_queries(queries: NDArray[Any]) -> NDArray[Any]:
    """Queries of unit length; a zero vector stays zero."""
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    return queries / np.where(lengths > 0, lengths, 1)
