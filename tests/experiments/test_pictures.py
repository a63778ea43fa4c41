"""What figures of experiments show: differences that are right, and sentences that state them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import sghash
from sghash.evaluation.summary import estimate
from sghash.experiments.findings import beside, best_at, ends, listed, number, power, winners_told
from sghash.experiments.memory import CODES, IDS, LISTS, code_bytes, kept_bytes
from sghash.experiments.pictures import (
    by_length_differences,
    recall_by_bytes_drawing,
    recall_drawing,
)
from sghash.index import PartitionedIndex

pytest.importorskip("matplotlib")
ROOT = Path(__file__).parents[2]


def rows(recalls, seeds=3, name="recall10@100"):
    """Rows with (model, n_bits) -> recall, a little more with each seed."""
    return [
        {"settings": {"model": model, "n_bits": n_bits, "seed": seed},
         "values": {name: value + seed / 1000}}
        for (model, n_bits), value in recalls.items() for seed in range(seeds)
    ]  # fmt: skip


RECALLS = {
    ("SGH", 16): 0.4, ("ITQ", 16): 0.3, ("LSH", 16): 0.1,
    ("SGH", 32): 0.5, ("ITQ", 32): 0.6, ("LSH", 32): 0.2,
}  # fmt: skip


def test_recalls_are_drawn_less_those_of_itq():
    drawing = recall_drawing(rows(RECALLS), k=10, title="toy")
    figure = drawing.make()
    curves = {
        (axes.get_title(loc="left"), line.get_label()): line.get_ydata()
        for axes in figure.axes for line in axes.lines
    }  # fmt: skip
    assert curves["16 bits", "SGH"] == pytest.approx([0.1])
    assert curves["32 bits", "LSH"] == pytest.approx([-0.4])
    assert set(curves["16 bits", "ITQ"]) == {0}
    # LSH is so far behind that it would flatten the rest, which is said.
    assert figure.axes[0].get_ylim()[0] == pytest.approx(-0.15)
    assert "run off the plot" in drawing.caption
    assert "SGH is highest at 16 bits; ITQ is highest at 32 bits" in drawing.alt
    assert "above ITQ in some places only: SGH; below ITQ everywhere: LSH" in drawing.alt


def test_differences_by_length_have_intervals_from_three_seeds_on():
    for seeds, n_bars in ((3, 2), (2, 0)):
        drawing = by_length_differences(rows(RECALLS, seeds), "recall10@100", "R", title="toy")
        (axes,) = drawing.make().axes
        assert len(axes.collections) == n_bars
        sgh = next(line for line in axes.lines if line.get_label() == "SGH")
        assert sgh.get_ydata().tolist() == pytest.approx([0.1, -0.1])


def test_the_winner_by_bytes_is_named_in_words_and_in_the_figure():
    found = {("SGH", 8): 0.3, ("OPQ", 8): 0.2, ("SGH", 16): 0.4, ("OPQ", 16): 0.6, ("LSH", 32): 0.1}
    drawing = by_bytes(found, {cell: float(cell[1]) for cell in found})
    assert drawing.alt == (
        "text: R; SGH is best within 8 bytes (0.300); OPQ is best within 16 and 32 bytes (0.600)."
    )
    texts = [text.get_text() for text in drawing.make().axes[0].texts]
    assert texts == ["best: SGH", "best: OPQ"]


def by_bytes(found, stored):
    cells = {cell: estimate([value]) for cell, value in found.items()}
    names = ["SGH", "OPQ", "LSH", "nobody"]
    return recall_by_bytes_drawing(cells, stored, names, "R", title="text")


def test_methods_stand_at_what_they_store_and_win_only_budgets_that_hold_it():
    found = {("SGH", 8): 0.3, ("OPQ", 8): 0.9, ("LSH", 8): 0.1, ("SGH", 16): 0.4, ("LSH", 16): 0.2}
    stored = {cell: float(cell[1]) for cell in found} | {("OPQ", 8): 12.2}
    drawing = by_bytes(found, stored)
    # It was asked for 8 bytes, stores 12, and is best of what 16 hold.
    assert drawing.alt == (
        "text: R; SGH is best within 8 bytes (0.300); OPQ is best within 16 bytes (0.900)."
    )
    above, below = drawing.make().axes
    curves = {line.get_label(): line.get_xdata().tolist() for line in below.lines}
    assert curves["OPQ"] == [12.2] and curves["SGH"] == [8, 16]
    marks = [line.get_xdata().tolist() for line in above.lines if line.get_marker() != "None"]
    assert marks == [[8], [16]]


def test_findings_in_words():
    assert listed([1]) == "1" and listed([1, 2, 3]) == "1, 2 and 3"
    assert listed(["ITQ, own 1", "SGH 2"]) == "ITQ, own 1; SGH 2"
    assert [number(v) for v in (958_766.2, 0.66234, 1000, -12.5)] == [
        "958,800", "0.6623", "1,000", "-12.5"
    ]  # fmt: skip
    times = {8: {"A": 2.0, "B": 1.0}, 16: {"A": 1.0, "B": 3.0}, 32: {"A": 1.0, "B": 3.0}}
    assert best_at(times, "bits", lowest=True) == (
        "A is lowest at 16 and 32 bits; B is lowest at 8 bits"
    )
    assert (
        best_at({8: {"A": 0.5, "B": 0.5001, "C": 0.1}}, "bits") == "A and B are highest at 8 bits"
    )
    gaps = {8: {"A": 0.1, "B": -0.1}, 16: {"A": 0.3, "B": -0.2}}
    assert beside(gaps, "ITQ") == (
        "above ITQ everywhere: A (+0.100 to +0.300); below ITQ everywhere: B"
    )
    assert ends({"A": 2.0, "B": 1500.0}) == "At their ends, the lowest first: A 2 and B 1,500"
    assert power([1, 10, 100], [8, 5, 0.8]) == pytest.approx(-0.5)
    assert winners_told({8: {"A": 0.5, "B": 0.1}, 9: {"A": 0.7}}, "bytes") == (
        "A is best within 8 and 9 bytes (0.500 to 0.700)"
    )


@pytest.mark.parametrize("n_bits", [64, 256])
def test_memory_is_what_an_index_takes(n_bits, rng):
    n, d, n_lists = 20_000, 24, 24
    vectors = rng.standard_normal((n, d)).astype(np.float32)
    codes = rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)
    index = PartitionedIndex(n_bits // 8, n_bits=n_bits, n_lists=n_lists)
    # Ids with gaps take 8 bytes each, those without take none.
    index.add(codes, ids=3 * np.arange(n), vectors=vectors)
    parts = code_bytes(n, d, n_bits, n_lists=n_lists)
    assert set(parts) == {CODES, IDS, LISTS}
    assert sum(parts.values()) == pytest.approx(index.nbytes, rel=0.02)


def test_three_million_rows():
    kinds = {name: sum(parts.values()) for name, parts in kept_bytes(3_000_000, 384, (64,)).items()}
    assert kinds["float32"] == 2 * kinds["float16"] == 3_000_000 * 1536
    assert 3_000_000 * 20 < kinds["codes of 64 bits"] < 3_000_000 * 22


@pytest.fixture(scope="module")
def figures():
    path = ROOT / "docs" / "images" / "figures.py"
    spec = importlib.util.spec_from_file_location("figures", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_of_the_readme_is_told_by_what_its_rows_say(figures):
    _, alt = figures.text_figure()
    page = figures.README.read_text(encoding="utf-8")
    assert f"![{alt}](docs/images/recall-bytes-text.svg)" in page, "python docs/images/figures.py"
    other = figures.with_alt(page, "recall-bytes-text.svg", "Something else.")
    assert alt not in other and "![Something else.](docs/images/recall-bytes-text.svg)" in other


def test_the_command_draws_the_figures_of_the_documents(figures, tmp_path, monkeypatch, capsys):
    module = figures
    monkeypatch.setattr(module.sghash, "SGH", lambda *a, **o: sghash.models.ITQ(*a, **o))
    monkeypatch.setattr("sys.argv", ["figures.py", "--out", str(tmp_path)])
    module.main()
    drawn = {"recall-bytes-text.svg", "memory.svg", "flipped-bits.svg"}
    assert {file.name for file in tmp_path.iterdir()} == drawn
    told = capsys.readouterr().out
    assert re.search(r"is best within [\d, and]+ bytes", told) and "float32 4.61 GB" in told
    assert "3 becomes 8 after" in told
    for name in drawn:
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "prefers-color-scheme: dark" in text and len(text) < 150_000
