"""The command that prints the comparison: it measures once, and then only reads rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sghash.evaluation import read_rows

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "recall_table.py"


def call(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--rows", str(tmp_path / "rows.jsonl"), *arguments]
    environment = {"SGHASH_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
def test_a_second_call_only_prints(tmp_path: Path) -> None:
    models = ("--models", "LSH", "LSH(center=False)")
    empty = call(tmp_path, "--quick", "--table-only", *models)
    assert empty.returncode == 1 and "holds no rows" in empty.stderr
    first = call(tmp_path, "--quick", *models)
    assert first.returncode == 0, first.stderr
    assert len(read_rows(tmp_path / "rows.jsonl")) == 8
    assert "0 of 8 runs, next LSH 16 bits, seed 0" in first.stderr
    for part in ("## digits", "recall10@1000", "LSH(center=False)", "±", "RecallK@N: the fraction"):
        assert part in first.stdout
    second = call(tmp_path, "--quick", *models)
    assert second.stdout == first.stdout and "0 of 0 runs" in second.stderr
    assert call(tmp_path, "--quick", "--table-only", *models).stdout == first.stdout
    expected = call(tmp_path, "--quick", "--table-only", "--expected", *models).stdout
    assert "expected_recall10@10" in expected and "broken at random" in expected
