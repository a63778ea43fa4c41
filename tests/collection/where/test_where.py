"""Conditions decide every row as plain Python would, and what cannot be decided is refused."""

from __future__ import annotations

import operator
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from sghash import BadFile, Collection, InvalidInput
from sghash.collection.storage.columns import Column, columns_of
from sghash.collection.storage.texts import Texts
from sghash.collection.where import matching
from sghash.collection.where.predicate import mask_of, parse

OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Where int64, float64 and Python's whole numbers part ways.
EDGES = [2**53, 2**53 + 1, 2**53 + 2, 2**60 + 1, 2**63 - 1, 2**63, 2**63 + 1024, 2**64, 10**400]
NUMBERS = [0, 1, -1, 0.5, -0.0, 2.5, 1e300, 1e999, *EDGES, *(-edge for edge in EDGES)]
NUMBERS += [2.0**53, 2.0**60, 2.0**63, -(2.0**63), float(2**53 + 2), 1.7976931348623157e308]
COLUMNS = {
    "whole": [0, 1, -1, 2, None, 2**53, 2**53 + 1, 2**60 + 1, 2**63 - 1, -(2**63), -(2**53) - 1],
    "number": [0.0, 1.0, -0.0, 2.5, None, 2.0**53, float("nan"), 1e308, 2.0**63, 1e999, -1e999],
    "truth": [True, False, None, True, False, None, True, False, None, True, False],
    "text": ["", "de", None, "dE", "d", "ü", "a\0", "a", "\U0001f600", "x" * 70, "'\\\n"],
}
TEXTS = ["", "de", "d", "ü", "a\0", "a", "\uffff", "\U0001f600", "x" * 70, "x" * 71, "'\\\n", "z"]
KINDS = {"whole": "int", "number": "float", "truth": "bool", "text": "text"}
N = len(COLUMNS["whole"])


def found(text, columns=COLUMNS):
    """Rows that satisfy a condition."""
    stored = columns_of(columns, len(next(iter(columns.values()))))
    kinds = {name: column.kind for name, column in stored.items()}
    mask = mask_of(parse(text, kinds), stored, len(next(iter(columns.values()))))
    assert mask.dtype == np.bool_
    return mask.tolist()


def written(value):
    return "1e999" if value == float("inf") else "-1e999" if value == -float("inf") else repr(value)


@st.composite
def comparisons(draw):
    """The text of a comparison, and what decides a row."""
    name = draw(st.sampled_from(sorted(COLUMNS)))
    constants = st.sampled_from(TEXTS if name == "text" else [*NUMBERS, True, False])
    kind = draw(st.sampled_from(["compare", "mirror", "chain", "in", "not in", "None", "alone"]))
    if kind == "alone":
        return "truth", lambda row: row["truth"] is True
    if kind == "None":
        op, absent = draw(st.sampled_from([("==", 1), ("is", 1), ("!=", 0), ("is not", 0)]))
        return f"{name} {op} None", lambda row: (row[name] is None) == bool(absent)
    if kind in ("in", "not in"):
        values = draw(st.lists(constants, max_size=4))
        opening, closing = draw(st.sampled_from(["()", "[]", "{}"]))
        inside = "".join(f"{written(value)}, " for value in values)
        return (
            f"{name} {kind} {opening}{inside}{closing}",
            lambda row: row[name] is not None and ((row[name] in values) == (kind == "in")),
        )
    op, value = draw(st.sampled_from(sorted(OPERATORS))), draw(constants)
    test = OPERATORS[op]
    if kind == "compare":
        return (
            f"{name} {op} {written(value)}",
            lambda row: row[name] is not None and test(row[name], value),
        )
    if kind == "mirror":
        return (
            f"{written(value)} {op} {name}",
            lambda row: row[name] is not None and test(value, row[name]),
        )
    other, second = draw(st.sampled_from(sorted(OPERATORS))), draw(constants)
    return (
        f"{written(value)} {op} {name} {other} {written(second)}",
        lambda row: (
            row[name] is not None and test(value, row[name]) and OPERATORS[other](row[name], second)
        ),
    )


def joined(parts):
    both = st.tuples(parts, st.sampled_from(["and", "or"]), parts).map(
        lambda p: (
            f"({p[0][0]}) {p[1]} ({p[2][0]})",
            (lambda row: p[0][1](row) and p[2][1](row))
            if p[1] == "and"
            else (lambda row: p[0][1](row) or p[2][1](row)),
        )
    )
    return both | parts.map(lambda p: (f"not ({p[0]})", lambda row: not p[1](row)))


@settings(max_examples=200)
@given(st.recursive(comparisons(), joined, max_leaves=4))
def test_every_row_is_decided_as_python_decides_it(condition):
    text, decide = condition
    rows = [
        dict(zip(COLUMNS, values, strict=True)) for values in zip(*COLUMNS.values(), strict=True)
    ]
    assert found(text) == [bool(decide(row)) for row in rows], text


@pytest.mark.parametrize("op", sorted(OPERATORS))
@pytest.mark.parametrize("name", ["whole", "number", "truth"])
def test_numbers_are_compared_exactly(name, op):
    for constant in NUMBERS:
        expected = [v is not None and OPERATORS[op](v, constant) for v in COLUMNS[name]]
        assert found(f"{name} {op} {written(constant)}") == expected, constant
        if op == "==":
            assert found(f"{name} in ({written(constant)}, 17)") == expected, constant


def test_neighbours_of_large_numbers_are_told_apart():
    ids = [2**53, 2**53 + 1, 2**60 + 1, 2**60 + 2]
    assert found(f"n == {2**53 + 1}", {"n": ids}) == [False, True, False, False]
    assert found(f"n == {2.0**53!r}", {"n": ids}) == [True, False, False, False]
    assert found(f"n in ({2**60 + 2}, 0.5)", {"n": ids}) == [False, False, False, True]
    assert found(f"x == {2**53 + 1}", {"x": [2.0**53, 0.5]}) == [False, False]
    assert found(f"x <= {2**53 + 1}", {"x": [2.0**53, 2.0**53 + 2]}) == [True, False]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("whole in [2000, 'x']", "cannot be compared with 'x'"),
        ("text in ('de', 3)", "cannot be compared with 3"),
        ("whole == 'x'", "holds int values, they cannot be compared with 'x'"),
        ("text == True", "cannot be compared with True"),
        ("text != 3", "cannot be compared with 3"),
        ("text", "no truth values: compare it"),
        ("whole and truth", "no truth values: compare it"),
        ("text in ('de')", r"write \('de',\) for one value"),
        ("text in 'de'", r"write \('de',\) for one value"),
        ("whole not in (3)", r"write \(3,\) for one value"),
        ("'d' in text", "a column before it and a list after it"),
        ("text = 'de'", "write `==`"),
        ("truth & truth", "write `and`"),
        ("truth AND truth", "write `and`"),
        ("truth || truth", "write `or`"),
        ("!truth", "write `not`"),
        ("truth == true", "nothing else, write `True`"),
        ("true", "'true', write `True`: the columns are"),
        ("whole == nan", "nothing else"),
        ("text in (None, 'de')", "write text == None by itself"),
        ("whole < None", "write whole == None by itself"),
        ("whole is 3", "write == or !="),
        ("whole == (1, 2)", "nothing else"),
        ("whole == whole", "nothing else"),
        ("1 < 2 < whole", "nothing else"),
        ("1 == 1", "nothing else"),
        ("(whole > 3) == True", "nothing else"),
        ("True", "no condition"),
        ("'text'", "no condition"),
        ("(1, 2)", "no condition"),
        ("not 3", "no condition"),
        ("truth or 3", "no condition"),
        ("whole in ((1, 2), 3)", "constants only"),
        ("whole in (whole, 3)", "constants only"),
        ("(whole > 3", r"\) is expected"),
        ("whole in (1 2)", r"\) is expected"),
        ("whole > 3)", "is expected"),
        ("whole >", "after 'whole >': a column or a constant"),
        ("whole > 3 truth", "at 'truth'"),
        ("whole not 3", "in is expected after not"),
        ("whole == not truth", "a column or a constant is expected"),
        ("whole == --1", "a number is expected after -"),
        ("-whole == 1", "a number is expected after -"),
        ("whole + 1 > 3", "is expected"),
        ("whole.real > 3", "cannot be understood"),
        ("open('x')", "is expected"),
        ("whole == 1j", "no number"),
        ("whole == 1__0", "no number"),
        ("whole == 2000and truth", "no number"),
        ("whole == " + "9" * 5000, "no number"),
        ("text == b'x'", "nothing else"),
        ("text == 'de", "closing quote is missing"),
        (r"text == 'C:\dir'", "backslash"),
        (r"text == '\U00110000'", "backslash"),
        (r"text == '\ud800'", "half of a surrogate pair"),
        ("text == '\ud800'", "half of a surrogate pair"),
        ("\ud800 == 3", "cannot be understood"),
        ("", "empty"),
        ("  \n", "empty"),
        ("height > 3", "no metadata column 'height': the columns are number, text, truth, whole"),
        ("(" * 500 + "truth" + ")" * 500, "nested more than 100"),
        ("[" * 100_000, "nested more than 100"),
        ("truth or " * 200_000 + "truth", "at most 1048576"),
    ],
    ids=lambda text: ascii(text[:25]),
)
def test_what_cannot_be_decided_is_refused_in_a_sentence(text, sentence):
    with pytest.raises(InvalidInput, match=sentence) as caught:
        found(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


def test_words_bind_as_in_python():
    truths = {name: [bool(row >> bit & 1) for row in range(8)] for bit, name in enumerate("abc")}
    for text in (
        "a or b and c",
        "a and b or c",
        "(a or b) and c",
        "not a and b",
        "not (a and b)",
        "a and not b or c",
        "a or b or not c and not a",
        "not a == False and b",
        "a == True or b != True and c",
        "0 <= a < 1 and 1 >= b > 0 or c",
    ):
        rows = [dict(zip("abc", row, strict=True)) for row in zip(*truths.values(), strict=True)]
        assert found(text, truths) == [eval(text, {}, row) for row in rows], text


def test_long_chains_are_read():
    assert found("not " * 20_001 + "truth") == [v is not True for v in COLUMNS["truth"]]
    assert found(" or ".join(["truth"] * 2000)) == found("truth")
    assert found("(" * 99 + "truth" + ")" * 99) == found("truth")
    assert found("not (" * 99 + "truth" + ")" * 99) == found("not truth")
    assert found("whole in [" + ",".join(map(str, range(2, 10_000))) + "]") == found("whole == 2")


def test_any_name_of_a_column_can_be_asked_for():
    """Python's own parser would read some of them as keywords, or as another name."""
    columns = {name: [1, 2] for name in ("class", "from", "ﬁ", "fi", "हिन्दी", "_", "ª")}
    for name in columns:
        assert found(f"{name} == 2", columns | {name: [1, 7]}) == [False, False]
        assert found(f"{name}==7", columns | {name: [1, 7]}) == [False, True]
    with pytest.raises(InvalidInput, match="a word of conditions"):
        columns_of({"not": [1]}, 1)


@given(st.text(max_size=40))
@example("'")
@example("1.e")
@example("text in (")
def test_any_text_is_decided_or_refused(text):
    try:
        tree = parse(text, KINDS)
    except InvalidInput as error:
        str(error).encode()
        return
    mask_of(tree, columns_of(COLUMNS, N), N)


@given(st.lists(st.sampled_from(
    ["whole", "text", "truth", "number", "==", "<", "in", "not", "is", "and", "or", "(", ")", "[",
     "]", ",", "1", "'de'", "None", "True", "-", ".5"]), max_size=12))  # fmt: skip
def test_any_words_are_decided_or_refused(words):
    text = " ".join(words)
    try:
        tree = parse(text, KINDS)
    except InvalidInput:
        return
    assert found(text) == mask_of(tree, columns_of(COLUMNS, N), N).tolist()
    compile(text, "condition", "eval")  # what we read is Python


def test_a_collection_refuses_before_there_are_rows(tmp_path, model, vectors):
    collection = Collection.create(tmp_path / "c", model)
    collection.add(vectors[:2], metadata={"year": [1999, 2001]})
    assert collection.search(vectors[:1], 2, where="year > 2000").ids.tolist() == [[1, -1]]
    with pytest.raises(InvalidInput, match="cannot be compared with 'x'"):
        collection.search(vectors[:1], where="year in [2001, 'x']")
    collection.delete([0, 1])
    with pytest.raises(InvalidInput, match="cannot be compared with 'x'"):
        collection.search(vectors[:1], where="year == 'x'")


def test_texts_are_found_in_small_pieces(monkeypatch, rng):
    monkeypatch.setattr(matching, "_ROWS", 7)
    monkeypatch.setattr(matching, "_BYTES", 5)
    monkeypatch.setattr(matching, "_LONG", 3)
    words = ["", "a", "b", "ab", "abc", "abcd", "abce", "ü", "üü"]
    values = [words[i] for i in rng.integers(0, len(words), 300)]
    for wanted in (["ab"], ["abcd", "a"], ["", "üü", "abce"], ["zz"], words):
        text = f"t in {wanted!r}"
        assert found(text, {"t": values}) == [value in wanted for value in values]


def test_comparing_texts_takes_little_memory():
    values = [f"a text that has about fifty letters, number {i:08d}" for i in range(40_000)]
    column = columns_of({"t": values}, len(values))
    for condition in (f"t == '{values[7]}'", f"t in ('{values[7]}', 'x')", f"t <= '{values[7]}'"):
        tree = parse(condition, {"t": "text"})
        tracemalloc.start()
        n = np.count_nonzero(mask_of(tree, column, len(values)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert n == (8 if "<" in condition else 1)
        assert peak < column["t"].values.blob.nbytes


def test_damaged_texts_are_told():
    offsets = np.asarray([0, 2, 1, 4], dtype=np.int64)
    texts = Texts(offsets, np.zeros(4, dtype=np.uint8))
    column = Column("text", texts, np.ones(3, dtype=np.bool_))
    for condition in ("t == 'de'", "t < 'de'", "t not in ('de', 'x')"):
        with pytest.raises(BadFile, match="restore the file"):
            mask_of(parse(condition, {"t": "text"}), {"t": column}, 3)
    with pytest.raises(BadFile, match="restore it"):
        mask_of(parse("t == 3", {"t": "int"}), {"t": column}, 3)
