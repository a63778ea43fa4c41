"""Polars: the Hamming distance as an expression over columns of words.

`to_arrow(..., layout="words")` or a Parquet file of `write_codes` gives the columns.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from sghash.adapters.words import to_words, word_names
from sghash.errors import InvalidInput
from sghash.optional import require
from sghash.validation import check_codes, check_k, check_n_bits


def hamming_distance(query_code: ArrayLike, n_bits: int) -> Any:
    """An expression: the distance of the code in columns w0, w1, ... to one query's code."""
    polars = require("polars", extra="polars")
    query = check_codes(query_code, check_n_bits(n_bits), name="query_code")
    if len(query) != 1:
        raise InvalidInput(f"an expression has one query, got {len(query)}: make one of each")
    terms = [
        # Numbers of bits come as UInt32, which no sum of them leaves.
        (polars.col(name) ^ polars.lit(word, dtype=polars.UInt64)).bitwise_count_ones()
        for name, word in zip(word_names(n_bits), to_words(query)[0].tolist(), strict=True)
    ]
    return polars.sum_horizontal(terms).cast(polars.Int32).alias("distance")


def nearest(frame: Any, query_code: ArrayLike, n_bits: int, k: int = 10) -> Any:
    """The k rows of a frame (lazy or not) nearest to the query, by (distance, id)."""
    check_k(k)
    with_distances = frame.with_columns(hamming_distance(query_code, n_bits))
    return with_distances.bottom_k(k, by=["distance", "id"]).sort("distance", "id")
