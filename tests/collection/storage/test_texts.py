"""Many strings in two arrays: as a list of Python strings would, in little memory, damage told."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sghash import BadFile, InvalidInput
from sghash.collection.storage import texts
from sghash.collection.storage.texts import (
    KeyTable,
    Texts,
    empty_texts,
    hashes_of,
    join_texts,
    key_table,
    rows_of_keys,
    texts_of,
)

strings = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=12)


def peak_of(call):
    """What a call returns, and how many bytes it held at most while it ran."""
    tracemalloc.start()
    try:
        result = call()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@given(strings, strings, st.data())
def test_texts_are_a_list_of_strings(first, second, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "_ROWS", 3)
        patch.setattr(texts, "_BYTES", 5)
        stored, other = texts_of(first), texts_of(second)
        assert len(stored) == len(first) and stored.to_list() == first
        assert [stored.at(i) for i in range(len(first))] == first
        assert list(stored.raw()) == [text.encode() for text in first]
        assert join_texts([stored, other, empty_texts(2)]).to_list() == [*first, *second, "", ""]
        rows = []
        if first:
            rows = data.draw(st.lists(st.integers(0, len(first) - 1), max_size=20))
        chosen = np.asarray(rows, dtype=np.int64)
        for some in (chosen, np.sort(chosen), np.arange(len(first)), np.arange(len(first) // 2)):
            assert stored.take(some).to_list() == [first[i] for i in some]
        table = key_table(stored)
        found = rows_of_keys(first, hashes_of(first), stored, table)
        expected = [[i for i, text in enumerate(first) if text and text == key] for key in first]
        assert found == expected


def test_texts_take_little_more_memory_than_their_bytes(rng):
    n = 20_000
    many = [f"number {i} " * 12 for i in range(n)]
    stored, peak = peak_of(lambda: texts_of(many))
    size = stored.blob.nbytes
    assert size > 2_000_000 and peak < 2 * size
    for rows in (np.arange(n), np.arange(5, n), np.flatnonzero(rng.random(n) < 0.9)):
        assert peak_of(lambda rows=rows: stored.take(rows))[1] < 2 * size
    order = rng.permutation(n)
    mixed, peak = peak_of(lambda: stored.take(order))
    assert peak < 2 * size and mixed.at(7) == many[order[7]]
    assert peak_of(lambda: join_texts([stored, mixed]))[1] < 4 * size
    assert peak_of(lambda: key_table(stored))[1] < 2 * size


def damaged(offsets, blob=b"dedede", kind=np.int64):
    return Texts(np.asarray(offsets, dtype=kind), np.frombuffer(blob, dtype=np.uint8))


WRONG_OFFSETS = [
    damaged([0, 2, 4]),  # bytes left over
    damaged([0, 2, 7]),
    damaged([1, 2, 6]),
    damaged([0, 5, 2, 6]),
    damaged([0, -5, 6]),
    damaged([0, 2**62, 6]),
    damaged([0, 2, 2**62]),
    damaged([-(2**63), 2**63 - 1]),
    damaged([]),
    damaged([0, 2, 6], kind=np.float64),
    damaged([0, float("nan"), 6], kind=np.float64),
    damaged([[0, 2, 6]]),
    damaged([0, 1], blob=b"\xff"),
    damaged([0, 1, 2], blob="ü".encode()),
    Texts(np.asarray([0, 2]), np.zeros(2)),
]


@pytest.mark.parametrize("wrong", WRONG_OFFSETS, ids=range(len(WRONG_OFFSETS)))
def test_damaged_texts_are_told_in_a_sentence(wrong):
    uses = [
        wrong.to_list,
        lambda: wrong.take(np.asarray([0])).to_list(),
        lambda: wrong.take(np.arange(len(wrong))).to_list(),
        lambda: join_texts([wrong, empty_texts(1)]).to_list(),
    ]
    for use in uses:
        with pytest.raises(BadFile, match="restore the file from a copy"):
            use()
    told = []
    for row in range(len(wrong) + 1):
        try:
            wrong.at(row)
        except BadFile as error:
            told.append("restore the file from a copy" in str(error))
    assert told and all(told)


def test_damage_allocates_nothing():
    wrong = damaged([0, 2**62, 6])
    for use in (wrong.to_list, lambda: wrong.take(np.asarray([0])), lambda: wrong.at(0)):
        with pytest.raises(BadFile):
            use()


def test_rows_that_are_not_there_are_told():
    stored = texts_of(["a", "b"])
    for row in (-1, 2, 2**62):
        with pytest.raises(BadFile, match=f"row {row} is asked for, there are 2"):
            stored.at(row)
        with pytest.raises(BadFile, match=f"row {row} is asked for, there are 2"):
            stored.take(np.asarray([0, row]))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: KeyTable(t.hashes, t.rows + 7),
        lambda t: KeyTable(t.hashes, t.rows - 7),
        lambda t: KeyTable(t.hashes, t.rows[:1]),
        lambda t: KeyTable(t.hashes, t.rows.astype(np.float64)),
        lambda t: KeyTable(t.hashes.astype(np.float32), t.rows),
        lambda t: KeyTable(t.hashes[:, None], t.rows[:, None]),
    ],
)
def test_a_damaged_table_of_keys_is_told(change):
    stored = texts_of(["a", "b"])
    wanted = ["a", "b"]
    with pytest.raises(BadFile, match="restore the file"):
        rows_of_keys(wanted, hashes_of(wanted), stored, change(key_table(stored)))


def test_half_a_surrogate_pair_is_no_text():
    for call in (lambda: texts_of(["de", "x\udc80"]), lambda: hashes_of(["\ud800"])):
        with pytest.raises(InvalidInput, match="half of a surrogate pair"):
            call()
