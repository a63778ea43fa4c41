"""What people have: tables of pandas with gaps, empty batches, paths and lists in wrong places."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sghash import ITQ, Collection
from sghash.errors import InvalidInput


@pytest.fixture(scope="module")
def model():
    rows = np.random.default_rng(3).normal(size=(40, 6)).astype(np.float32)
    return ITQ(16, random_state=0).fit(rows)


def test_what_pandas_calls_missing_is_a_gap(tmp_path, model):
    rows = np.eye(3, model.n_features_in_, dtype=np.float32)
    table = pd.DataFrame(
        {
            "price": [1.5, None, 2.5],
            "count": pd.array([1, None, 3], dtype="Int64"),
            "fresh": pd.array([True, None, False], dtype="boolean"),
            "name": pd.array(["a", None, "c"], dtype="string"),
        }
    )
    for place, metadata in (("t", table), ("s", {name: table[name] for name in table})):
        with Collection.create(tmp_path / place, model) as made:
            made.add(rows, metadata=metadata)
            kinds = {"price": "float", "count": "int", "fresh": "bool", "name": "text"}
            assert dict(made.moment.state.kinds) == kinds
            for name in table:
                found = made.search(rows[:1], 3, where=f"{name} == None").ids[0]
                assert found[found >= 0].tolist() == [1], name
            # A later table, in which whole numbers with a gap have become floats.
            made.add(rows, metadata=pd.DataFrame({"count": [4.0, np.nan, 6.0]}))
            assert made.get([3, 4, 5]).metadata["count"] == [4, None, 6]
            with pytest.raises(InvalidInput, match="holds int values, and these are float"):
                made.add(rows, metadata={"count": [0.5, 1.0, 2.0]})
            with pytest.raises(InvalidInput, match="holds int values, and these are float"):
                made.add(rows, metadata={"count": [2.0**60, 1.0, 2.0]})


def test_a_column_of_gaps_does_not_fix_its_kind(tmp_path, model):
    rows = np.eye(2, model.n_features_in_, dtype=np.float32)
    with Collection.create(tmp_path / "c", model) as made:
        made.add(rows, metadata={"q": [None, None]})
        made.add(rows, metadata={"q": [3, None]})
        made.add(rows, metadata={"q": [None, None]})
        assert made.get(made.ids).metadata == {"q": [None, None, 3, None, None, None]}


def test_nothing_can_be_added(tmp_path, model):
    nothing = np.zeros((0, model.n_features_in_), dtype=np.float32)
    with Collection.create(tmp_path / "c", model) as made:
        for change in (made.add, made.upsert):
            assert change(nothing, []).tolist() == []
        assert made.add(nothing, metadata={"year": []}).tolist() == []
        with pytest.raises(InvalidInput, match="give one per row"):
            made.add(nothing, metadata={"year": [1]})
        assert len(made) == 0 and None not in made
        made.add(np.ones((1, model.n_features_in_), np.float32), np.array([7], np.uint64))
        assert 7 in made


def test_a_target_leaves_no_other_choice(tmp_path, model):
    rows = np.eye(4, model.n_features_in_, dtype=np.float32)
    with Collection.create(tmp_path / "c", model, keep_vectors="float32") as made:
        made.add(rows)
        for given in ({"rerank": "none"}, {"rerank": "vectors"}, {"shortlist": 2}):
            with pytest.raises(InvalidInput, match="leave them out"):
                made.search(rows, 2, target_recall=0.9, **given)


def test_what_is_no_table_of_numbers_is_told_what_to_do(tmp_path, model):
    sparse = pytest.importorskip("scipy.sparse")
    lists = np.empty(2, dtype=object)
    lists[:] = [[1.0, 2.0], [3.0, 4.0]]
    for vectors, sentence in (
        (lists, r"np\.stack\(list\(x\)\)"),
        (sparse.eye(3).tocsr(), r"x\.toarray\(\)"),
        ("v.npy", "open a file with sghash.open_vectors"),
        (np.arange(100.0), r"x\[None, :\]"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            Collection.build(tmp_path / "b", vectors)
    with pytest.raises(FileNotFoundError, match="there is no collection"):
        Collection.open(tmp_path / "nope")
    with (
        Collection.create(tmp_path / "c", model) as made,
        pytest.raises(InvalidInput, match=r"ids\[ids >= 0\]"),
    ):
        made.get([-1])


@pytest.mark.parametrize("keep", [None, "int8", "float32"])
def test_vectors_that_are_kept_decide_unless_somebody_says_otherwise(tmp_path, model, rng, keep):
    rows = rng.normal(size=(300, 6)).astype(np.float32)
    with Collection.create(tmp_path / "c", model, keep_vectors=keep) as made:
        made.add(rows)
        usual = made.search(rows[:9], 5)
        told = made.search(rows[:9], 5, rerank="none" if keep is None else "vectors")
        np.testing.assert_array_equal(usual.ids, told.ids)
        np.testing.assert_array_equal(usual.distances, told.distances)
        assert usual.distances.dtype == (np.int32 if keep is None else np.float32)
        explained = made.explain(rows[:1], 5)
        assert {visit.way for visit in explained.visits} == {
            "all codes" if keep is None else "all codes, then kept vectors"
        }
        codes = made.search_codes(model.encode(rows[:9]), 5, fingerprint=model.fingerprint_)
        assert codes.distances.dtype == np.int32
