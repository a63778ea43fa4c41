"""The linear way from bits to vectors that a model's decoder is, found by asking the decoder."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.bits import pack_bits
from sghash.errors import InvalidInput
from sghash.kernels.tables.rescoring import nibble_tables
from sghash.kernels.tables.terms import gram_tables
from sghash.validation import Vectors, n_bytes_of

_TOLERANCE = 1e-3


class Decoder(NamedTuple):
    """A code of bits h stands for `origin` + h @ `directions`.

    `gram` has the tables of what codes add to L2 scores by themselves.
    """

    origin: NDArray[np.float64]
    directions: NDArray[np.float64]
    gram: Vectors | None
    metric: str


class QueryScores(NamedTuple):
    """Score of a code = offset of the query + its table entries (+ the code's own term in L2)."""

    tables: Vectors
    offsets: Vectors


def decoder_of(model: Any, metric: str) -> Decoder:
    """Take the decoder of a fitted model apart; refuse one that is not linear in the bits."""
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
    gram = None
    if metric == "l2":
        gram = gram_tables(directions @ directions.T, n_bytes_of(n_bits))
    return Decoder(origin, directions, gram, metric)


def query_scores(decoder: Decoder, queries: Vectors) -> QueryScores:
    """Tables for queries (n, d); smaller scores are nearer, in the metric of the decoder."""
    q = queries.astype(np.float64)
    if decoder.metric == "l2":
        centred = q - decoder.origin
        slopes, offsets = -2 * centred @ decoder.directions.T, np.square(centred).sum(axis=1)
    else:
        if decoder.metric == "cosine":
            lengths = np.linalg.norm(q, axis=1, keepdims=True)
            q = q / np.where(lengths > 0, lengths, 1)
        slopes = -q @ decoder.directions.T
        offsets = -q @ decoder.origin + (1.0 if decoder.metric == "cosine" else 0.0)
    n_bytes = n_bytes_of(len(decoder.directions))
    return QueryScores(nibble_tables(slopes, n_bytes), offsets.astype(np.float32))
