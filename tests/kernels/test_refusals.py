"""Arguments that disagree are refused in a sentence before compiled code reads foreign memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.kernels.hamming import search as hamming
from sghash.kernels.hamming.shortlist import hamming_shortlist
from sghash.kernels.learning import projection
from sghash.kernels.tables import rescoring, search as asymmetric
from sghash.kernels.tables.bytes import byte_table_neighbors
from sghash.kernels.tables.terms import code_terms, gram_tables
from sghash.kernels.vectors import exact, stored as kept

CODES = np.zeros((6, 4), dtype=np.uint8)
QUERIES = np.zeros((2, 4), dtype=np.uint8)
TABLES = np.zeros((2, 8, 16), dtype=np.float32)
GRAM = gram_tables(np.zeros((32, 32)), 4)
TERMS = asymmetric.make_terms(np.zeros(6, dtype=np.float32), GRAM)
ROWS = np.zeros((2, 3), dtype=np.int64)
BYTE_TABLES = np.zeros((2, 4, 9), dtype=np.float32)
VECTORS = np.zeros((6, 5), dtype=np.float32)

HAMMING = [hamming.hamming_neighbors, hamming.hamming_range, hamming_shortlist]


@pytest.mark.parametrize("search", HAMMING)
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"codes": CODES[:, :3].copy()}, "codes are 3 bytes wide"),
        ({"queries": np.zeros((2, 5), dtype=np.uint8)}, "query codes 5,"),
        ({"n_bits": 33}, "33-bit codes take 5"),
        ({"n_bits": 0}, "between 1 and"),
        ({"codes": CODES.astype(np.int64)}, "codes must be an array of uint8, got int64"),
        ({"queries": QUERIES.tolist()}, "query codes must be an array of uint8, got list"),
        ({"queries": QUERIES[0]}, "must have 2 dimensions, got 1"),
        ({"codes": np.zeros((6, 8), dtype=np.uint8)[:, ::2]}, "contiguous"),
        ({"codes": np.asfortranarray(CODES)}, "contiguous"),
        ({"mask": np.ones(5, dtype=bool)}, r"mask must have shape \(6,\)"),
        ({"mask": np.ones(7, dtype=bool)}, r"mask must have shape \(6,\)"),
        ({"mask": np.ones(6, dtype=np.uint8)}, "mask must be an array of bool"),
        ({"k": -1}, "(k must be at least 1|radius must not be negative)"),
        ({"threads": 0}, "threads must be at least 1"),
    ],
)
def test_hamming_kernels_refuse(search: Any, changed: dict[str, Any], sentence: str) -> None:
    given = {"codes": CODES, "queries": QUERIES, "k": 2, "n_bits": 32, "mask": None, "threads": 1}
    given |= changed
    codes, queries, k = given.pop("codes"), given.pop("queries"), given.pop("k")
    with pytest.raises(InvalidInput, match=sentence):
        search(codes, queries, k, **given)


def neighbors(**changed: Any) -> Any:
    given = {"codes": CODES, "tables": TABLES, "k": 2, "terms": TERMS, "mask": None, **changed}
    return asymmetric.asymmetric_neighbors(**given)


def rescored(**changed: Any) -> Any:
    given = {"codes": CODES, "rows": ROWS, "tables": TABLES, "gram": GRAM, **changed}
    return rescoring.scores(**given)


def distances(**changed: Any) -> Any:
    given = {"vectors": VECTORS, "rows": ROWS, "queries": VECTORS[:2], "metric": "l2", **changed}
    return kept.kept_distances(**given)


def packed(**changed: Any) -> Any:
    given = {
        "scores": np.zeros((6, 32), dtype=np.float32),
        "bias": np.zeros(32, dtype=np.float32),
        "codes": CODES.copy(),
        **changed,
    }
    return projection.pack_signs(**given)


def by_bytes(**changed: Any) -> Any:
    given = {"codes": CODES, "tables": BYTE_TABLES, "k": 2, **changed}
    return byte_table_neighbors(**given)


WIDE = np.zeros((2, 10, 16), dtype=np.float32)
OTHER_TERMS = TERMS._replace(levels=np.zeros(5, dtype=np.uint8))
OTHER_GRAM = TERMS._replace(gram=np.zeros((3, 256, 64), dtype=np.float32))


@pytest.mark.parametrize(
    ("call", "changed", "sentence"),
    [
        (neighbors, {"tables": WIDE}, "tables must have shape"),
        (neighbors, {"tables": TABLES.astype(np.float64)}, "array of float32"),
        (neighbors, {"tables": np.zeros((2, 8, 32), dtype=np.float32)[:, :, ::2]}, "contiguous"),
        (neighbors, {"codes": CODES.T}, "contiguous"),
        (neighbors, {"terms": OTHER_TERMS}, "terms of 5 codes, there are 6"),
        (neighbors, {"terms": OTHER_GRAM}, "gram must have shape"),
        (neighbors, {"mask": np.ones(3, dtype=bool)}, "mask must have shape"),
        (neighbors, {"k": 0}, "k must be at least 1"),
        (rescored, {"rows": ROWS + 6}, "rows name row 6, there are 6"),
        (rescored, {"rows": ROWS.astype(np.int32)}, "rows must be an array of int64"),
        (rescored, {"rows": ROWS[0]}, "two dimensions"),
        (rescored, {"rows": ROWS[:1]}, "rows for 1 queries, there are 2"),
        (rescored, {"tables": WIDE}, "tables must have shape"),
        (rescored, {"gram": OTHER_GRAM.gram}, "gram must have shape"),
        (rescored, {"codes": CODES[::2]}, "contiguous"),
        (distances, {"rows": ROWS + 6}, "rows name row 6, there are 6"),
        (distances, {"rows": ROWS[:1]}, "rows for 1 queries, there are 2"),
        (distances, {"queries": VECTORS[:2, :4].copy()}, "queries have 4 columns"),
        (distances, {"vectors": VECTORS.astype(np.float64)}, "vectors must be an array of float32"),
        (distances, {"vectors": np.zeros((6, 10), dtype=np.float16)[:, ::2]}, "contiguous"),
        (distances, {"queries": VECTORS[:2].astype(np.float16)}, "queries must be an array"),
        (packed, {"scores": np.zeros((5, 32), dtype=np.float32)}, "arrange them first"),
        (packed, {"scores": np.zeros((6, 24), dtype=np.float32)}, "arrange them first"),
        (packed, {"bias": np.zeros(24, dtype=np.float32)}, "arrange them first"),
        (packed, {"codes": np.zeros((6, 8), dtype=np.uint8)[:, ::2]}, "contiguous"),
        (by_bytes, {"codes": CODES + np.uint8(9)}, "codes hold 9, the tables have 9 entries"),
        (by_bytes, {"codes": CODES[:, :3].copy()}, "codes have 3 bytes, the tables 4"),
        (by_bytes, {"tables": BYTE_TABLES[:, :, :0].copy()}, "1 to 256 entries for each byte"),
        (by_bytes, {"tables": np.zeros((2, 4, 257), np.float32)}, "1 to 256 entries"),
        (
            by_bytes,
            {"tables": BYTE_TABLES.astype(np.float64)},
            "tables must be an array of float32",
        ),
        (by_bytes, {"tables": BYTE_TABLES[:, :, ::2]}, "contiguous"),
        (by_bytes, {"tables": BYTE_TABLES + np.float32(np.nan)}, "not finite"),
        (by_bytes, {"tables": BYTE_TABLES - np.float32(np.inf)}, "not finite"),
        (by_bytes, {"tables": BYTE_TABLES + np.float32(1e38)}, "too large for float32 sums"),
        (by_bytes, {"mask": np.ones(5, dtype=bool)}, "mask must have shape"),
        (by_bytes, {"codes": CODES[:, ::2]}, "contiguous"),
        (by_bytes, {"k": 0}, "k must be at least 1"),
        (by_bytes, {"threads": 0}, "threads must be at least 1"),
    ],
)
def test_other_kernels_refuse(call: Callable[..., Any], changed: Any, sentence: str) -> None:
    call()
    with pytest.raises(InvalidInput, match=sentence):
        call(**changed)


def test_terms_of_another_width_are_refused() -> None:
    with pytest.raises(InvalidInput, match="gram must have shape"):
        code_terms(np.zeros((6, 9), dtype=np.uint8), GRAM)


def test_vectors_of_another_width_are_refused() -> None:
    with pytest.raises(InvalidInput, match="5 columns"):
        exact.exact_neighbors(VECTORS, np.zeros((2, 4), dtype=np.float32), 1)


def test_more_places_than_scores_are_refused() -> None:
    with pytest.raises(InvalidInput, match="best 41 of 40"):
        rescoring.best_places(np.zeros((2, 40), dtype=np.float32), 41)


@pytest.mark.parametrize("k", [3, 40])
def test_a_score_that_is_not_a_number_comes_last(k: int) -> None:
    scores = np.arange(60, dtype=np.float32)[::-1].copy()[None]
    scores[0, 50:] = np.nan
    assert rescoring.best_places(scores, k).tolist() == [list(range(49, 49 - k, -1))]


def test_rows_of_nothing_are_infinitely_far() -> None:
    none = np.full((2, 3), -1, dtype=np.int64)
    assert np.isinf(rescored(codes=CODES[:0], rows=none)).all()
    assert np.isinf(distances(vectors=VECTORS[:0].astype(np.float16), rows=none)).all()


def test_mapped_codes_are_searched_where_they_lie(tmp_path: Any, rng: np.random.Generator) -> None:
    path = tmp_path / "codes"
    codes = rng.integers(0, 256, (500, 4), dtype=np.uint8)
    codes.tofile(path)
    mapped = np.memmap(path, dtype=np.uint8, mode="r", shape=codes.shape)
    for queries in (codes[:1], codes[:9]):
        found = hamming.hamming_neighbors(mapped, queries, 3, n_bits=32)
        expected = hamming.hamming_neighbors(codes, queries, 3, n_bits=32)
        np.testing.assert_array_equal(found.ids, expected.ids)
