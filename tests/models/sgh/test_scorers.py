"""Scores from tables against scores of decoded vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sghash.bits import pack_bits, unpack_bits
from sghash.errors import InvalidInput


@pytest.mark.parametrize("coding", ["signed", "binary"])
@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("n_bits", [4, 8, 13])
def test_tables_score_as_decoding_does(
    make_model: Any, rng: np.random.Generator, coding: str, metric: str, n_bits: int
) -> None:
    model = make_model(coding, n_bits=n_bits)
    model.metric = metric
    codes = pack_bits(rng.random((50, n_bits)) < 0.5)
    queries = rng.standard_normal((7, 5)).astype(np.float32)
    tables, offsets, _ = model.query_tables(queries)
    assert tables.shape == (7, n_bits) and tables.dtype == np.float32
    bits = unpack_bits(codes, n_bits).astype(np.float64)
    scores = offsets[:, None] + tables @ bits.T
    gram = model.code_layout().gram
    assert (gram is None) == (metric != "l2")
    if gram is not None:
        scores += np.einsum("ij,jk,ik->i", bits, gram, bits)
    back = model.decode(codes).astype(np.float64)
    q = queries.astype(np.float64)
    if metric == "l2":
        expected = np.square(q[:, None] - back).sum(axis=2)
    elif metric == "ip":
        expected = -q @ back.T
    else:
        expected = 1 - (q / np.linalg.norm(q, axis=1, keepdims=True)) @ back.T
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("metric", "size"), [("l2", 1e25), ("l2", 1e38), ("ip", 3e38)])
def test_queries_whose_scores_overflow_are_refused(
    make_model: Any, metric: str, size: float
) -> None:
    model = make_model("signed", n_bits=8)
    queries = np.full((2, 5), size, dtype=np.float32)
    with pytest.raises(InvalidInput, match="scores overflow float32: rescale them"):
        model.query_tables(queries, metric=metric)
    assert np.isfinite(model.query_tables(queries / np.float32(1e25), metric=metric).offsets).all()
