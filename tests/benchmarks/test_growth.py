"""Exponents, sizes and data of the growth benchmark."""

from __future__ import annotations

import math
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

GROWTH = Path(__file__).resolve().parents[2] / "benchmarks" / "growth.py"


@pytest.fixture(scope="module")
def growth():
    return runpy.run_path(str(GROWTH), run_name="imported")


def test_the_exponent_is_that_of_the_upper_half(growth):
    sizes = np.array([1.0, 10.0, 100.0, 1000.0])
    assert growth["exponent"](sizes, 3 * sizes**1.5) == pytest.approx(1.5)
    # A fixed cost hides the growth at small sizes only.
    assert growth["exponent"](sizes, [5.0, 5.0, 7.0, 70.0]) == pytest.approx(1.0)
    assert growth["exponent"]([1.0, 2.0], [4.0, 4.0]) == pytest.approx(0.0)
    assert math.isnan(growth["exponent"]([1.0], [4.0]))


def test_one_size_grows_and_the_others_stay(growth):
    for axis, sizes in growth["AXES"].items():
        cells = growth["cells_of"](axis, sizes)
        assert [getattr(cell, axis) for cell in cells] == sizes
        for other in set(growth["AXES"]) - {axis}:
            assert len({getattr(cell, other) for cell in cells}) == 1


@pytest.mark.parametrize("as_bytes", [False, True])
def test_rows_are_written_block_by_block(growth, tmp_path, as_bytes, monkeypatch):
    path = tmp_path / "rows.npy"
    monkeypatch.setitem(growth["generate"].__globals__, "BLOCK", 300)
    growth["generate"](path, 700, 8, as_bytes=as_bytes)
    rows = np.load(path)
    assert rows.shape == (700, 8) and rows.dtype == (np.uint8 if as_bytes else np.float32)
    assert len(np.unique(rows, axis=0)) == 700


@pytest.mark.slow
def test_a_small_run_prints_a_line_per_model_and_leaves_no_file(
    growth, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(growth["main"].__globals__, "QUICK_AXES", {"rows": [200, 400]})
    arguments = ["growth.py", "--quick", "--axes", "rows", "--models", "ITQ", "LSH", "LSH(no=1)"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--folder", str(tmp_path)])
    growth["main"]()
    said = capsys.readouterr().out
    assert "this version has no LSH(no=1): left out" in said
    assert sum(text.startswith(("  ITQ", "  LSH ")) for text in said.splitlines()) == 2
    assert list(tmp_path.iterdir()) == []
