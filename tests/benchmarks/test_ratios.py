"""From rows to ratios, targets and verdict lines, on rows made up by hand."""

from __future__ import annotations

import math

import pytest
from measuring.ratios import Place, interval, mean_over, median_ratios, medians, paired
from measuring.rivals import cells_of, told
from measuring.tables import tables
from measuring.targets import (
    DEFAULT,
    HIDDEN,
    NEIGHBOURS,
    judged,
    judged_digits,
    judged_halves,
    judged_long,
)
from measuring.verdicts import at_least, at_most, line, verdict


def row(model, values, *, name="SIFT", n_bits=16, seed=0):
    settings = {"set": name, "n_bits": n_bits, "model": model, "seed": seed}
    return {"settings": settings, "values": values}


def rows_of(model, value, numbers, **where):
    return [row(model, {value: number}, seed=seed, **where) for seed, number in enumerate(numbers)]


def test_a_verdict_says_by_how_much_a_target_is_missed():
    assert verdict(0.5, at_most(0.5)) == "met" and verdict(1.2, at_least(1.1)) == "met"
    assert verdict(0.75, at_most(0.5)) == "MISSED by 0.25"
    assert verdict(1.0, at_least(1.25)) == "MISSED by 0.25"
    assert verdict(0.98, at_least(1.0), noise=0.03).startswith("met within noise")
    assert verdict(0.9, at_least(1.0), noise=0.03) == "MISSED by 0.1"
    told = line("CPU", 2.0, at_most(1.5), unit=" s")
    assert "2.000 s" in told and "target <= 1.5 s: MISSED by 0.5" in told


def test_ratios_are_paired_by_seed():
    ours = rows_of("SGH", "recall", [0.2, 0.6, 0.9])
    # Seed 2 has no reference, and seed 1 found nothing: neither has a ratio.
    theirs = rows_of("ITQ", "recall", [0.1, 0.0])
    ratios = paired([*ours, *theirs], "SGH", "recall")
    assert ratios == {Place("SIFT", 16): {0: 2.0}}
    assert paired(ours, "SGH", "recall") == {}


def test_a_seed_measured_twice_counts_once():
    rows = [*rows_of("SGH", "cpu", [5.0]), *rows_of("SGH", "cpu", [7.0])]
    assert medians(rows, "SGH", "cpu") == {Place("SIFT", 16): 7.0}


def test_times_are_compared_by_medians_over_the_same_seeds():
    ours = rows_of("SGH", "cpu", [1.0, 100.0, 3.0, 50.0])
    theirs = rows_of("ITQ", "cpu", [2.0, 4.0, 6.0])
    assert median_ratios([*ours, *theirs], "SGH", "cpu") == {Place("SIFT", 16): 3.0 / 4.0}


def test_means_over_places_are_geometric_and_over_seeds_that_all_have():
    ratios = {
        Place("SIFT", 16): {0: 1.0, 1: 2.0, 2: 9.0},
        Place("GIST", 16): {0: 4.0, 1: 2.0},
        Place("GIST", 32): {0: 100.0},
    }
    mean = mean_over(ratios, (16,))
    assert mean.mean == pytest.approx(2.0) and mean.n == 2
    assert mean_over(ratios, (16,), ["SIFT"]).n == 3
    assert mean_over(ratios, (64,)) is None
    assert interval({0: 1.0}).half_width is None


def whole(model, cpu, recall, *, sets=("SIFT", "MiniLM"), lengths=(16, 32, 64), seeds=3):
    return [
        row(model, {"cpu_seconds": cpu, "recall10@100": recall}, name=s, n_bits=n, seed=seed)
        for s in sets
        for n in lengths
        for seed in range(seeds)
    ]


def test_every_target_is_judged_by_its_own_bound():
    rows = [
        *whole("ITQ", 10.0, 0.4),
        *whole(DEFAULT, 8.0, 0.45),
        *whole(NEIGHBOURS, 50.0, 0.46),
        *whole(HIDDEN, 70.0, 0.56),
    ]
    lines = judged(rows, [DEFAULT, NEIGHBOURS, HIDDEN])
    said = {text.split("  ")[0]: text.rpartition(": ")[2] for text in lines}
    assert said["SGH, MiniLM 64 bits: CPU / ITQ"] == "met"
    assert said["SGH, SIFT 64 bits: CPU / ITQ"] == "MISSED by 0.3"
    assert said["SGH, mean over 2 sets, 16/32/64 bits: recall / ITQ"] == "met"
    assert said["SGH(neighbors=10), SIFT 16 bits: CPU / ITQ"] == "MISSED by 1"
    assert said["SGH(neighbors=10), MiniLM 32 bits: recall / ITQ"] == "MISSED by 0.05"
    hidden = "SGH(neighbors=10, hidden=512)"
    assert said[f"{hidden}, mean over 2 sets, 16 bits: recall / ITQ"] == "MISSED by 0.1"
    assert said[f"{hidden}, mean over 2 sets, 32 bits: recall / ITQ"] == "met"
    assert said[f"{hidden}, MiniLM 32 bits: CPU"] == "MISSED by 10"
    assert not any("128" in text for text in lines)


def test_halves_long_codes_and_digits_are_judged():
    halves = [
        *rows_of("ITQ", "unseen recall10@100", [0.2, 0.2]),
        *rows_of(HIDDEN, "unseen recall10@100", [0.28, 0.28]),
    ]
    (said,) = judged_halves(halves, [HIDDEN])
    assert "1.400" in said and said.endswith("met")
    long = [*whole("ITQ", 10.0, 0.9, lengths=(512,)), *whole(DEFAULT, 11.0, 0.8, lengths=(512,))]
    assert [text.rpartition(": ")[2] for text in judged_long(long)][::2] == [
        "MISSED by 0.1",
        "MISSED by 0.111",
    ]
    (digits,) = judged_digits(rows_of(DEFAULT, "cpu_seconds", [0.3, 0.5, 0.4], name="all digits"))
    assert digits.endswith("met")


def test_tables_have_a_column_per_set_and_gaps_where_nothing_was_measured():
    rows = [
        *whole("ITQ", 10.0, 0.4, sets=("SIFT", "GIST"), lengths=(16,)),
        *whole(DEFAULT, 5.0, 0.5, sets=("SIFT",), lengths=(16,)),
    ]
    lines = [text.split() for text in tables(rows, ["recall10@100"]) if text]
    assert ["mean", "SIFT", "GIST"] in lines
    assert ["CPU", "SGH", "0.500", "0.500", "-"] in lines
    recall = next(cells for cells in lines if cells[:2] == ["recall10@100", "SGH"])
    assert math.isclose(float(recall[2]), 1.25) and recall[-1] == "-"


def recalls(model, ten, hundred, **where):
    values = {"recall10@100": ten, "recall100@100": hundred}
    return [row(model, values, seed=seed, **where) for seed in range(3)]


def test_a_cell_is_ahead_only_if_it_is_ahead_of_every_rival():
    rows = [
        *recalls("SGH", 0.5, 0.3),
        *recalls("ITQ", 0.4, 0.301),
        *recalls("KMeansHashing", 0.45, 0.2),
        *recalls("SGH", 0.5, 0.3, n_bits=32),
        *recalls("ITQ", 0.6, 0.2, n_bits=32),
    ]
    cells = {(cell.n_bits, cell.value): cell for cell in cells_of(rows)}
    ahead = cells[16, "recall10@100"]
    assert (ahead.lead, ahead.rival, ahead.theirs) == (1, "KMeansHashing", pytest.approx(0.45))
    assert cells[16, "recall100@100"].lead == 0 and cells[16, "recall100@100"].rival == "ITQ"
    assert cells[32, "recall10@100"].lead == -1 and cells[32, "recall100@100"].lead == 1
    lines = told(list(cells.values()))
    assert any(text.startswith("  behind") and "32 bits" in text for text in lines)
    assert "4 cells: ahead in 2, within noise in 1, behind in 1" in "\n".join(lines)
    assert lines[-2].endswith("MISSED by 1") and lines[-1].endswith("MISSED by 0.25")
