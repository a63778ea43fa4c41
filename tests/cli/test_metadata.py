"""Metadata files: what was written is what is read, in every kind."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sghash.cli.metadata import ids_of, read_ids, read_metadata
from sghash.errors import BadFile, InvalidInput

WHOLE = st.integers(-(10**17), 10**17)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r\n"), min_size=1)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("metadata")


def write_csv(path, columns):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    path.write_text(stream.getvalue(), encoding="utf-8", newline="")


@settings(max_examples=60)
@given(st.lists(st.tuples(WHOLE, NUMBER, st.booleans(), TEXT), min_size=1, max_size=8))
def test_csv_gives_back_numbers_truth_and_text(path, rows):
    whole, number, truth, text = map(list, zip(*rows, strict=True))
    text[0] = "a word"  # else a column of digits is one of numbers
    number[0] = 0.5
    write_csv(path / "m.csv", {"a": whole, "b": number, "c": truth, "d": text})
    read = read_metadata(str(path / "m.csv"))
    assert read == {"a": whole, "b": number, "c": truth, "d": text}
    assert [type(read[name][-1]) for name in "abcd"] == [int, float, bool, str]


VALUES = st.one_of(st.none(), st.booleans(), WHOLE, NUMBER, TEXT)


@settings(max_examples=60)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES), max_size=8))
def test_json_lines_give_back_every_value(path, records):
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (path / "m.jsonl").write_text(lines, encoding="utf-8")
    expected = {name: [record.get(name) for record in records] for name in "abc"}
    expected = {k: v for k, v in expected.items() if any(value is not None for value in v)}
    read = read_metadata(str(path / "m.jsonl"))
    assert read == expected
    assert {k: list(map(type, v)) for k, v in read.items()} == {
        k: list(map(type, v)) for k, v in expected.items()
    }


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "", "3"], [1, None, 3]),
        (["1", "2.5"], [1.0, 2.5]),
        (["1e3", "-.5"], [1000.0, -0.5]),
        (["007", "1"], ["007", "1"]),
        (["1", "x"], ["1", "x"]),
        (["True", "false"], [True, False]),
        (["nan", "1"], ["nan", "1"]),
        (["1e999", "1"], ["1e999", "1"]),
        ([str(10**30), "1"], [str(10**30), "1"]),
        (["0", "1"], [0, 1]),
        (["+1"], ["+1"]),
        (["1١", "2"], ["1١", "2"]),  # digits, but not as a program writes them
        (["1.١", "2"], ["1.١", "2"]),
        (["-0", "1"], ["-0", "1"]),
    ],
)
def test_the_narrowest_kind_that_changes_nothing(path, cells, values):
    write_csv(path / "m.csv", {"a": cells, "b": ["x"] * len(cells)})
    read = read_metadata(str(path / "m.csv"))["a"]
    assert read == values and list(map(type, read)) == list(map(type, values))


def test_a_column_of_texts_stays_one(path):
    write_csv(path / "m.csv", {"zip": ["12345", "23456"], "n": ["1", "2"]})
    assert read_metadata(str(path / "m.csv"), {"zip": "text", "n": "float"}) == {
        "zip": ["12345", "23456"], "n": [1, 2]
    }  # fmt: skip


def test_a_byte_order_mark_and_windows_lines(path):
    (path / "m.csv").write_bytes("\ufeffname,n\r\nä,1\r\n\r\nb,2\r\n".encode())
    assert read_metadata(str(path / "m.csv")) == {"name": ["ä", "b"], "n": [1, 2]}
    (path / "ids.txt").write_bytes("\ufeff5\r\n6\r\n".encode())
    assert read_ids(str(path / "ids.txt")) == [5, 6]


def test_ids_are_numbers_or_keys(path):
    assert ids_of(["1", "2"], "x", as_keys=False) == [1, 2]
    assert ids_of(["1", "2"], "x", as_keys=True) == ["1", "2"]
    assert ids_of(["1", "02"], "x", as_keys=False) == ["1", "02"]
    with pytest.raises(InvalidInput, match="row 2: there is no id"):
        ids_of(["1", None], "x", as_keys=False)
    with pytest.raises(InvalidInput, match="neither whole numbers nor text"):
        ids_of([1.5], "x", as_keys=False)
    for array in (np.zeros(3), np.zeros((2, 2), int), np.array(["a"])):
        np.save(path / "ids.npy", array)
        with pytest.raises(BadFile, match="of whole numbers"):
            read_ids(str(path / "ids.npy"))
    np.save(path / "ids.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(BadFile, match=r"not a \.npy of whole numbers"):
        read_ids(str(path / "ids.npy"))


def test_a_cell_may_be_as_long_as_a_line(path):
    long = "word " * 40_000
    write_csv(path / "long.csv", {"a": [1, 2], "text": [long, "short"]})
    assert list(read_metadata(str(path / "long.csv"))["text"]) == [long, "short"]


@pytest.mark.parametrize("claimed", [1004, 3_001_003])
def test_a_table_that_only_claims_its_length_is_refused(path, claimed):
    arrow = pytest.importorskip("pyarrow")
    feather = pytest.importorskip("pyarrow.feather")
    feather.write_feather(arrow.table({"a": np.arange(1003)}), path / "m.arrow", "uncompressed")
    whole = (path / "m.arrow").read_bytes()
    lying = whole.replace((1003).to_bytes(8, "little"), claimed.to_bytes(8, "little"))
    (path / "m.arrow").write_bytes(lying)
    with pytest.raises(BadFile):
        read_metadata(str(path / "m.arrow"))


def test_a_table_whose_texts_lie_outside_of_it_is_refused(path):
    """The first and the last place are right: reading the text between them ended the process."""
    arrow = pytest.importorskip("pyarrow")
    places = np.array([0, 3, 6, 9, 12], np.int32)
    table = arrow.table({"a": ["abc", "def", "ghi", "jkl"]})
    with (
        arrow.OSFile(str(path / "m.arrow"), "wb") as stream,
        arrow.ipc.new_file(stream, table.schema) as writer,
    ):
        writer.write_table(table)
    whole = (path / "m.arrow").read_bytes()
    assert whole.count(places.tobytes()) == 1
    places[2] = 1 << 30
    (path / "m.arrow").write_bytes(
        whole.replace(np.int32([0, 3, 6, 9, 12]).tobytes(), places.tobytes())
    )
    with pytest.raises(BadFile):
        read_metadata(str(path / "m.arrow"))


def test_a_cell_may_be_longer_than_a_line_of_vectors(path):
    long = "x" * (3 << 20)
    write_csv(path / "longer.csv", {"a": [1], "text": [long]})
    assert list(read_metadata(str(path / "longer.csv"))["text"]) == [long]
