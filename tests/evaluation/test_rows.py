"""Rows: appended whole, read back, half rows dropped, damage named; and their summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sghash.data.builtin import clusters
from sghash.errors import BadFile, InvalidInput, NewerFormat, StorageError
from sghash.evaluation import (
    Bench,
    Run,
    append_row,
    format_table,
    key_of,
    make_row,
    read_rows,
    run_once,
    summarize,
)
from sghash.evaluation.summary import Estimate, estimate
from sghash.experiments.experiment import PROTOCOL


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "rows.jsonl"
    assert read_rows(path) == []
    for seed in range(3):
        append_row(path, {"seed": seed, "values": {"recall": 0.5}})
    assert [row["seed"] for row in read_rows(path)] == [0, 1, 2]
    assert all(line.startswith("{") for line in path.read_text().splitlines())


def test_every_measurement_makes_the_same_kind_of_row() -> None:
    data = clusters(n_vectors=60, width=4, n_queries=3)
    rows = [
        run_once(Run("LSH", 8, 0), Bench(data, k=5, depths=(5,), threads=1)),
        make_row(key_of(["any"]), {"seed": 0}, {"error": 1.5}),
    ]
    fields = {"key", "settings", "values", "written", "versions", "revision", "machine", "source"}
    assert [set(row) for row in rows] == [fields, fields]
    assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1}) != key_of({"a": 1, "b": [3]})


def test_rows_of_the_first_version_are_read_as_those_of_today(tmp_path: Path) -> None:
    old = {
        "format_version": 1, "key": "k", "dataset": "d", "model": "LSH", "seed": 3,
        "values": {"recall": 0.5}, "written": "then", "versions": {}, "machine": {},
        "revision": None,
    }  # fmt: skip
    nested = {"format_version": 1, "key": "k", "settings": {"seed": 4}, "values": {}}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(old) + "\n" + json.dumps(nested) + "\n")
    first, second = read_rows(path)
    assert first["settings"] == {"dataset": "d", "model": "LSH", "seed": 3}
    assert first["values"] == {"recall": 0.5} and first["key"] == "k" and "seed" not in first
    assert second == nested


def test_rows_that_were_published_are_found_by_their_keys() -> None:
    """A key must not change: all that was measured would be measured again."""
    folder = Path(__file__).parents[2] / "docs" / "results" / "rows"
    for file in sorted(folder.glob("*.jsonl")):
        for known in read_rows(file):
            settings = known["settings"]
            keys = [key_of([n, file.stem, settings]) for n in range(1, PROTOCOL + 1)]
            assert known["key"] in keys, file.name


def test_half_a_row_is_left_out_and_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rows.jsonl"
    append_row(path, {"seed": 0})
    whole = path.read_bytes()
    for half in (b'{"seed": 1, "val', b"{"):
        path.write_bytes(whole + half)
        assert [row["seed"] for row in read_rows(path)] == [0]
        assert "middle of a row" in caplog.text
        append_row(path, {"seed": 2})
        assert [row["seed"] for row in read_rows(path)] == [0, 2]
    path.write_bytes(b'{"seed"')
    append_row(path, {"seed": 3})
    assert [row["seed"] for row in read_rows(path)] == [3]


def test_damage_inside_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_row(path, {"seed": 0})
    whole = path.read_bytes()
    for damage in (b"nonsense\n", b"[1]\n", b'{"seed": 1}\n', b'"text"\n', b"\xff\xfe\n"):
        path.write_bytes(whole + damage + whole)
        with pytest.raises(BadFile, match="line 2"):
            read_rows(path)
    path.write_bytes(json.dumps({"format_version": 99}).encode() + b"\n")
    with pytest.raises(NewerFormat, match="upgrade"):
        read_rows(path)


def test_numbers_that_json_cannot_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        append_row(tmp_path / "rows.jsonl", {"x": float("nan")})
    assert not (tmp_path / "rows.jsonl").exists()


def test_a_disk_that_refuses_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot write"):
        append_row(tmp_path / "file" / "rows.jsonl", {})


def test_interval_by_hand() -> None:
    # Standard deviation 1, three seeds, Student's 97.5 % point for 2 degrees of freedom 4.3027.
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2.0 and found.n == 3
    assert found.half_width == pytest.approx(4.302652729911275 / 3**0.5)
    assert estimate([0.25]) == Estimate(0.25, None, 1)
    assert str(found) == "2 ± 2.5" and str(estimate([0.25])) == "0.25"


def row(model: str, seed: int, recall: float, **changes: object) -> dict[str, object]:
    values = {"recall": recall, **({"error": 1.0} if model == "ITQ" else {})}
    base = {"dataset": "d", "checksum": "c", "metric": "l2", "asked": {}, "n_bits": 8, "k": 10}
    return {"settings": {**base, "model": model, "seed": seed, **changes}, "values": values}


def test_only_repetitions_are_averaged() -> None:
    rows = [
        row("LSH", 0, 0.1),
        row("ITQ", 0, 0.5),
        row("LSH", 1, 0.3),
        row("LSH", 0, 0.1, n_bits=16),
        row("LSH", 0, 0.1, asked={"center": False}),
        row("LSH", 0, 0.1, checksum="other"),
    ]
    found = summarize(rows)
    assert [s.group["model"] for s in found] == ["LSH", "ITQ", "LSH", "LSH", "LSH"]
    assert found[0].values["recall"].mean == pytest.approx(0.2)
    assert found[0].values["recall"].n == 2
    assert "error" in found[1].values and "error" not in found[0].values
    # The same seed twice is one repetition, the later one.
    again = summarize([row("LSH", 0, 0.1), row("LSH", 0, 0.4)])
    assert again[0].values["recall"] == Estimate(0.4, None, 1)


def test_tables_are_aligned() -> None:
    assert format_table(["model", "x"], [["a", "1.5"], ["long name", "10"]]) == (
        "model        x\na          1.5\nlong name   10"
    )
    assert format_table(["m", "x"], [["a", "10"]], markdown=True) == (
        "| m |  x |\n| - | -: |\n| a | 10 |"
    )
    with pytest.raises(InvalidInput, match="2 cells"):
        format_table(["a", "b"], [["1"]])
