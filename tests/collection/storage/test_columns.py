"""Metadata is stored as it came, or refused in a sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sghash import Collection, InvalidInput
from sghash.collection.storage.columns import columns_of, fit_kinds
from sghash.errors import InvalidDtype


def stored(values):
    column = columns_of({"c": values}, len(values))["c"]
    return column.kind, [column.at(i) for i in range(len(values))]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, -(2**63), 2**63 - 1], "int"),
        ([0.5, None, 3, 2**53, 2**60, 1e308, float("inf")], "float"),
        ([True, None, False], "bool"),
        (["", None, "ü", "a\0", "\U0001f600"], "text"),
        (np.asarray([1, 2], dtype=np.uint64), "int"),
        (np.asarray([1.5, 2], dtype=np.float16), "float"),
        (np.asarray(["a", ""]), "text"),
        (pd.Series(["a", "b"], index=[7, 3]), "text"),
        (range(4), "int"),
    ],
)
def test_values_come_back_as_they_went_in(values, kind):
    assert stored(values) == (kind, list(values))


def test_nan_and_the_sign_of_zero_are_kept():
    _, values = stored([float("nan"), -0.0, 1])
    assert np.isnan(values[0]) and np.signbit(values[1])


def test_masked_values_are_gaps():
    assert stored(np.ma.masked_array([1, 2, 3], [False, True, False])) == ("int", [1, None, 3])


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (np.zeros((2, 3)), "has 2 dimensions: give one value per row"),
        (np.zeros((2, 1)), "has 2 dimensions"),
        (pd.DataFrame({"a": [1, 2], "b": [1, 2]}), "has 2 dimensions"),
        (np.asarray(7), "must be a sequence"),
        ({1, 2}, "must be a sequence of values, got set"),
        ({1: 2, 3: 4}, "must be a sequence of values, got dict"),
        ("ab", "must be a sequence"),
        ((i for i in range(2)), "must be a sequence"),
        ([{"a": 1}, {}], "holds dict"),
        ([[1], [{2}]], "holds a list of other things"),
        ([1, "x"], "holds int, str"),
        ([True, 2], "holds bool, int"),
        (["a", "b\ud800"], "column 'c' holds half of a surrogate pair"),
        ([2**63, 1], "beyond int64"),
        (np.asarray([2**63, 1], dtype=np.uint64), "beyond int64"),
        pytest.param(
            np.zeros(2, dtype=np.longdouble),
            "stored as float64",
            marks=pytest.mark.skipif(
                np.longdouble(0).itemsize == 8, reason="no wider numbers here"
            ),
        ),
        ([2**53 + 1, 0.5], "cannot hold 9007199254740993 exactly"),
        ([0.5, -(2**63) - 1], "cannot hold -9223372036854775809 exactly"),
        ([10**400, 0.5], "cannot hold a number of 1329 bits exactly"),
    ],
)
def test_what_cannot_be_stored_is_refused(values, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        columns_of({"c": values}, 2)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, -(2**63) + 1, -(2**53) - 1])
def test_a_whole_number_is_never_rounded_into_a_column_of_numbers(number):
    for given in ([1, number, None], np.asarray([1, number, 3])):
        with pytest.raises(InvalidInput, match=f"cannot hold {number} exactly"):
            fit_kinds(columns_of({"c": given}, 3), {"c": "float"})


def test_whole_numbers_that_fit_may_enter_a_column_of_numbers():
    given = [1, 2**53, -(2**63), 2**60, None]
    column = fit_kinds(columns_of({"c": given}, 5), {"c": "float"})["c"]
    assert [column.at(i) for i in range(5)] == given and column.kind == "float"
    with pytest.raises(InvalidDtype, match="one kind per column"):
        fit_kinds(columns_of({"c": [0.5]}, 1), {"c": "int"})


def test_a_collection_is_as_it_was_after_a_refusal(tmp_path, model, vectors):
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(vectors[:1], metadata={"x": [0.5], "t": ["a"]})
        for metadata in (
            {"x": [2**53 + 1, 1]},
            {"t": ["\ud800", "b"]},
            {"x": np.zeros((2, 2))},
        ):
            with pytest.raises(InvalidInput):
                collection.add(vectors[:2], metadata=metadata)
        assert collection.verify().n_rows == 1
        assert collection.get([0]).metadata == {"t": ["a"], "x": [0.5]}
