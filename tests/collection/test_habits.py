"""What people do without reading: keys, frames, dates, one query, more neighbours than rows."""

from __future__ import annotations

import datetime
import logging
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sghash
from sghash.errors import InvalidDtype, InvalidInput, NotFitted, SghashError, StorageError

arrow = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(3).normal(size=(40, 6)).astype(np.float32)


@pytest.fixture
def collection(tmp_path, vectors):
    model = sghash.ITQ(16, random_state=0).fit(vectors)
    with sghash.Collection.create(tmp_path / "rows", model, keep_vectors="float32") as made:
        yield made


@pytest.mark.parametrize("rerank", ["none", "decoder", "vectors"])
def test_answers_have_keys_where_rows_have_keys(collection, vectors, rerank):
    collection.add(vectors[:3])
    assert collection.search(vectors[:2], 2, rerank=rerank).keys is None
    collection.add(vectors[3:5], ids=["three", "four"])
    found = collection.search(vectors[2:5], 1, rerank=rerank)
    assert found.keys.tolist() == [[None], ["three"], ["four"]]
    distances, ids = found  # still a pair
    assert ids.tolist() == [[2], [3], [4]] and distances.shape == (3, 1)
    codes = collection.model.encode(vectors[3:4])
    by_code = collection.search_codes(codes, 1, fingerprint=collection.fingerprint)
    assert by_code.keys.tolist() == [["three"]]


def test_keys_are_those_of_the_moment_of_the_search_and_travel(collection, vectors):
    collection.add(vectors[:2], ids=["a", "b"])
    found = collection.search(vectors[:2], 3)
    collection.delete(["a"])
    collection.compact()
    assert found.keys.tolist() == [["a", "b", None], ["b", "a", None]]
    twin = pickle.loads(pickle.dumps(found))
    assert twin.keys.tolist() == found.keys.tolist() and twin.ids.tolist() == found.ids.tolist()


def test_fewer_rows_than_asked_for_are_padded_and_said_once(collection, vectors, caplog):
    with caplog.at_level(logging.WARNING, logger="sghash.collection"):
        assert collection.search(vectors[:2], 3).ids.tolist() == [[-1] * 3] * 2
        collection.add(vectors[:2])
        found = collection.search(vectors[:1], 4, rerank="none")
        assert found.ids.tolist()[0][2:] == [-1, -1]
        assert found.distances[0, 2] == np.iinfo(np.int32).max
    assert len(caplog.records) == 1
    assert "holds 0 rows: the other places are filled with id -1" in caplog.text


def test_one_query_is_one_query_everywhere(collection, vectors):
    collection.add(vectors)
    one, model = vectors[7], collection.model
    for rerank in ("none", "decoder", "vectors"):
        found = collection.search(one, 3, rerank=rerank)
        assert found.ids.shape == (1, 3) and found.ids[0, 0] == 7
        assert collection.search(one.tolist(), 3, rerank=rerank).ids.tolist() == found.ids.tolist()
    assert len(collection.range_search(one, 0).limits) == 2
    np.testing.assert_array_equal(model.encode(one), model.encode(vectors[7:8]))
    np.testing.assert_array_equal(model.encode(one.tolist()), model.encode(vectors[7:8]))
    assert model.query_tables(one).offsets.shape == (1,)
    index = sghash.HammingIndex(16)
    index.add(model.encode(vectors))
    assert index.search(model.encode(one)[0], 2).ids.shape == (1, 2)
    assert sghash.ground_truth(vectors, one, 2).ids.shape == (1, 2)
    with pytest.raises(InvalidInput, match="Reshape your data"):
        model.transform(one)  # scikit-learn's own contract


@pytest.mark.parametrize("library", [pd, pl, arrow], ids=["pandas", "polars", "arrow"])
@pytest.mark.parametrize(
    ("name", "values", "remedy"),
    [
        ("id", range(40), "drop"),
        ("number", range(40), "drop"),
        ("text", ["x"] * 40, "drop"),
        ("embedding", [[0.5, 0.5]] * 40, "np.stack"),
    ],
)
def test_a_table_with_other_columns_is_refused(collection, vectors, library, name, values, remedy):
    columns = {f"d{i}": vectors[:, i] for i in range(6)}
    make = library.table if library is arrow else library.DataFrame
    table = make({**columns, name: list(values)})
    for use in (sghash.ITQ(4).fit, collection.add, collection.search):
        if library is pd and name == "embedding":
            remedy = ""  # pandas says object of everything
        with pytest.raises(InvalidDtype, match=rf"column '{name}'.*{remedy}"):
            use(table)
    clean = make(columns)
    if library is not arrow:
        expected = sghash.ITQ(4, random_state=0).fit(vectors).encode(vectors)
        model = sghash.ITQ(4, random_state=0).fit(clean)
        np.testing.assert_array_equal(model.encode(clean), expected)


def test_tables_of_whole_numbers_are_vectors_unless_one_is_called_id():
    pixels = pd.DataFrame(np.arange(60, dtype=np.uint8).reshape(20, 3), columns=["a", "b", "c"])
    sghash.models.LSH(4).fit(pixels)
    with pytest.raises(InvalidDtype, match="column 'doc_id'"):
        sghash.models.LSH(4).fit(pixels.rename(columns={"a": "doc_id"}))


def test_metadata_of_dates_and_lists_and_tables(collection, vectors):
    days = [datetime.date(2024, 5, day) for day in (1, 2, 3)]
    zone = datetime.timezone(datetime.timedelta(hours=2))
    table = pd.DataFrame(
        {
            "day": pd.to_datetime(days),
            "tags": [["de", "en"], [], None],
            "text": ["a", np.nan, "c"],
            "n": [1, 2, 3],
        }
    )
    collection.add(vectors[:3], metadata=table)
    collection.add(vectors[3:6], metadata={"date": days, "n": [1, 2, 3]})
    collection.add(
        vectors[6:8],
        metadata={
            "date": np.asarray(["2024-06-01", "NaT"], dtype="datetime64[D]"),
            "at": [datetime.datetime(2024, 1, 1, 1, tzinfo=zone), datetime.time(3, 4)],
        },
    )
    found = collection.get(range(8)).metadata
    assert found["day"][:2] == ["2024-05-01T00:00:00", "2024-05-02T00:00:00"]
    assert found["tags"][:3] == ['["de", "en"]', "[]", None]
    assert found["text"][:3] == ["a", None, "c"] and found["n"][:3] == [1, 2, 3]
    assert found["date"][3:] == ["2024-05-01", "2024-05-02", "2024-05-03", "2024-06-01", None]
    assert found["at"][6:] == ["2023-12-31T23:00:00+00:00", "03:04:00"]
    late = collection.search(vectors[:1], 10, where="date >= '2024-05-03'")
    assert sorted(set(late.ids[0].tolist()) - {-1}) == [5, 6]


@pytest.mark.parametrize(
    ("where", "remedy"),
    [
        ("lang = 'de'", "write `==`"),
        ("lang == de", "in quotes, == 'de'"),
        ("n <> 3", "write `!=`"),
        ("lang == 'de' && n > 3", "write `and`"),
    ],
)
def test_conditions_of_other_languages_are_corrected(collection, vectors, where, remedy):
    collection.add(vectors[:1], metadata={"lang": ["de"], "n": [1]})
    with pytest.raises(InvalidInput, match=remedy):
        collection.search(vectors[:1], where=where)


def test_errors_are_ours_and_name_the_remedy(collection, vectors, tmp_path):
    for use, kind, remedy in [
        (lambda: sghash.Collection.create(tmp_path / "rows", collection.model), StorageError,
         r"open\(path, writable=True\)"),
        (lambda: sghash.Collection.open(tmp_path / "rows", writable=True), StorageError,
         "close that writer first"),
        (lambda: sghash.Collection.open(tmp_path / "none"), SghashError, "Collection.create"),
        (lambda: sghash.Collection.create(tmp_path / "b", sghash.ITQ(4)), NotFitted, "call fit"),
        (lambda: sghash.index.load_index(tmp_path / "none"), SghashError, "check the path"),
        (lambda: collection.get([99]), InvalidInput, "in collection"),
        (lambda: collection.add([[1, 2], [3]]), InvalidInput, "np.stack"),
        (lambda: sghash.ITQ(4).fit([[1, 2], [3]]), InvalidInput, "np.stack"),
    ]:  # fmt: skip
        with pytest.raises(kind, match=remedy) as caught:
            use()
        assert isinstance(caught.value, SghashError) and "Errno" not in str(caught.value)


def test_a_bar_for_everything_that_reports(collection, vectors, capsys, tmp_path):
    sghash.SGH(8, n_steps=20, callback="bar").fit(vectors)
    assert "fitting SGH" in capsys.readouterr().err
    collection.add(vectors, callback="bar")
    collection.compact(callback="bar")
    collection.verify(callback="bar")
    sghash.convert(vectors, tmp_path / "v.fbin", callback="bar")
    said = capsys.readouterr().err
    for what in ("adding", "compacting", "verifying", "writing"):
        assert what in said
    for use in (
        lambda: collection.add(vectors, callback="bars"),
        lambda: sghash.SGH(8, callback="bars").fit(vectors),
    ):
        with pytest.raises(InvalidDtype, match='"bar" or None'):
            use()


@pytest.mark.parametrize("name", ["ITQ", "KMeansHashing", "SphericalHashing"])
def test_every_model_that_reports_shows_a_bar_and_keeps_nothing_of_it(name, vectors, capsys):
    model = sghash.models.model_class(name)(8, callback="bar").fit(vectors)
    assert f"fitting {name}" in capsys.readouterr().err
    assert "_bar" not in vars(model) and model.get_params()["callback"] == "bar"


def test_suggestions_install_from_where_sghash_came(monkeypatch):
    from sghash import optional

    class Found:
        def __init__(self, text):
            self.text = text

        def read_text(self, _):
            return self.text

    for text, command in [
        (None, "pip install 'sghash[hdf5]'"),
        ('{"url": "file:///my%20code", "dir_info": {"editable": true}}',
         "pip install -e '/my code[hdf5]'"),
        ('{"url": "file:///code", "dir_info": {}}', "pip install '/code[hdf5]'"),
        ('{"url": "https://x/y.whl", "archive_info": {}}', "pip install 'sghash[hdf5]'"),
    ]:  # fmt: skip
        monkeypatch.setattr(optional.importlib.metadata, "distribution", lambda _, t=text: Found(t))
        assert optional.install_command("hdf5") == command


def test_the_lock_of_another_process_is_a_sentence(tmp_path, vectors):
    model = sghash.ITQ(8).fit(vectors)
    sghash.Collection.create(tmp_path / "c", model).close()
    program = (
        "import sghash, sys; c = sghash.Collection.open(sys.argv[1], writable=True); "
        "print('open', flush=True); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "c")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(StorageError) as caught:
            sghash.Collection.open(tmp_path / "c", writable=True)
        assert "Errno" not in str(caught.value) and "close that writer" in str(caught.value)
    finally:
        other.communicate("\n")


def test_texts_conditions_and_folders_in_the_wrong_place_are_told_what_to_do(collection, vectors):
    collection.add(vectors, metadata={"year": list(range(len(vectors)))})
    with pytest.raises(InvalidDtype, match="embed texts with a model first"):
        collection.search("a word")
    with pytest.raises(InvalidInput, match="where=\"year == 'x'\""):
        collection.search(vectors[0], where={"year": 3})
    with pytest.raises(InvalidInput, match=r"Collection\.open"):
        sghash.Collection("rows")


def test_ids_without_gaps_take_no_bytes(collection, vectors):
    collection.add(vectors)
    collection.compact()
    stats = collection.stats()
    assert stats["bytes_of_row"]["id"] == 0
    collection.delete([3])
    collection.compact()
    assert collection.stats()["bytes_of_row"]["id"] == 8
