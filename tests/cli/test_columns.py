"""Metadata takes memory and time in proportion to its file, and comes back as it was written."""

from __future__ import annotations

import json
import time
import tracemalloc

import numpy as np
import pytest

from sghash.cli.columns import MAX_COLUMNS, column_of
from sghash.cli.metadata import read_metadata
from sghash.errors import BadFile


def peak_bytes(path):
    """Columns of a file, and the most memory that reading them took at a time."""
    tracemalloc.start()
    try:
        return read_metadata(str(path)), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


VALUES = {
    "whole": list(range(3000)),
    "gaps": [row if row % 3 else None for row in range(3000)],
    "late": [None] * 2999 + ["at last"],
    "early": ["only once"] + [None] * 2999,
    "rare": [0.5 if row % 700 == 699 else None for row in range(3000)],
    "empty": ["" if row % 2 else "é\n\"',\\" for row in range(3000)],
    "huge": [10**30 + row for row in range(3000)],
    "truth": [row % 2 == 0 for row in range(3000)],
    "mixed": [[1, 1.5, True, "a", None][row % 5] for row in range(3000)],
    "block": [1.25] * 1024,
    "none": [],
}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_column_is_the_list_of_its_values(name):
    values = VALUES[name]
    column = column_of(values)
    assert list(column) == values and len(column) == len(values)
    assert list(map(type, column)) == list(map(type, values))
    assert column.n_filled == sum(value is not None for value in values)
    for part in (slice(None), slice(1, 5), slice(1000, 2050), slice(7, 7), slice(2990, None)):
        assert list(column[part]) == values[part]
    assert [column[row] for row in range(0, len(values), 501)] == values[::501]
    stored = column.for_storage()
    assert list(stored) == values
    assert isinstance(stored, np.ndarray) == (name in ("whole", "truth", "block"))


def test_a_cell_of_many_digits_is_read_at_once(tmp_path):
    for cell in ("1" * 20_000 + "x", "1" * 20_000, "1" * 20_000 + ".", "." + "1" * 20_000):
        (tmp_path / "m.csv").write_text(f"a\n{cell}\n")
        started = time.perf_counter()
        assert read_metadata(str(tmp_path / "m.csv")) == {"a": [cell]}
        assert time.perf_counter() - started < 2


def test_a_new_key_per_line_is_refused(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text("".join(f'{{"k{row}": 1}}\n' for row in range(5000)))
    with pytest.raises(BadFile, match=f"columns, and at most {MAX_COLUMNS} are read"):
        peak_bytes(path)
    path.write_text(json.dumps({f"k{number}": 1 for number in range(MAX_COLUMNS + 1)}))
    with pytest.raises(BadFile, match="line 1: 1025 columns"):
        read_metadata(str(path))
    (tmp_path / "m.csv").write_text(",".join(f"k{number}" for number in range(MAX_COLUMNS + 1)))
    with pytest.raises(BadFile, match="line 1: 1025 columns"):
        read_metadata(str(tmp_path / "m.csv"))


def test_gaps_take_no_memory(tmp_path):
    path = tmp_path / "m.jsonl"
    rows = [json.dumps({f"k{row}": row}) if row < 1000 else "{}" for row in range(8000)]
    path.write_text("\n".join(rows))
    columns, peak = peak_bytes(path)
    assert len(columns) == 1000 and all(len(column) == 8000 for column in columns.values())
    assert columns["k7"][:9] == [*[None] * 7, 7, None]
    assert peak < 8 << 20  # lists would take 64 MB


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_values_take_about_the_bytes_of_the_file(tmp_path, kind):
    path, n = tmp_path / f"m.{kind}", 20_000
    if kind == "csv":
        path.write_text("a,b\n" + "".join(f"{row},w{row}\n" for row in range(n)))
    else:
        path.write_text("".join(f'{{"a":{row},"b":"w{row}"}}\n' for row in range(n)))
    columns, peak = peak_bytes(path)
    assert columns == {"a": list(range(n)), "b": [f"w{row}" for row in range(n)]}
    assert peak < 3 * path.stat().st_size + (1 << 19)


def test_half_a_character_is_no_text(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"a": "x"}\n{"a": "\\ud800"}\n')
    with pytest.raises(BadFile, match="line 2: not JSON"):
        read_metadata(str(path))
    path.write_text('{"a": "\\ud83d\\ude00"}\n')
    assert read_metadata(str(path)) == {"a": ["😀"]}
