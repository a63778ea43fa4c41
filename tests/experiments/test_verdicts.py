"""Every verdict, on rows made up to support the claim and on rows made up against it."""

from __future__ import annotations

import pytest

from sghash.errors import InvalidInput
from sghash.experiments import EXPERIMENTS, experiment
from sghash.experiments.hashing import PAPER
from tests.experiments.made_up_rows import (
    CASES,
    by_recall,
    modern,
    reconstruction,
    streamed,
    times,
    times_on_sift,
)


def test_every_experiment_has_cases():
    assert set(CASES) == set(EXPERIMENTS)


@pytest.mark.parametrize(
    ("name", "rows", "outcome"),
    [(name, rows, outcome) for name, cases in CASES.items() for rows, outcome in cases],
)
def test_the_verdict_follows_from_the_rows(name, rows, outcome):
    verdict = experiment(name).verdict(rows)
    assert verdict.outcome == outcome, verdict.sentence
    assert any(character.isdigit() for character in verdict.sentence)
    assert "nan" not in verdict.sentence


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_nothing_is_judged_without_rows(name):
    with pytest.raises(InvalidInput, match="no rows"):
        experiment(name).verdict([])


def test_training_is_judged_on_sift_alone_and_tells_when_it_is_as_good_as_itq():
    found = experiment("training_time")
    verdict = found.verdict(times_on_sift(1.0, 2.0, 5.0))
    assert "the whole training of SGH.paper takes 0.50 times as long as ITQ (8 bits 0.50 (0.4" in (
        verdict.sentence
    )
    assert "3 seeds each, 95 % intervals" in verdict.sentence
    assert "own decoder at 4 of 4 lengths, in 0.10 times" in verdict.sentence
    assert "never reaches the training error of ITQ's fitted decoder" in verdict.sentence
    # MNIST takes nine times as long: it is told, and does not decide.
    assert "on the other sets, not judged, SGH.paper takes 8.9" in verdict.sentence
    parts = found.draw(times_on_sift(1.0, 2.0, 5.0))
    (table,) = [part for part in parts if part.caption.startswith("SIFT: processor seconds, med")]
    lines = {line[0]: line[1:] for line in table.cells}
    assert lines["SGH.paper"] == ["1.00"] * 4 and lines["ITQ"] == ["2.00"] * 4
    assert lines["SGH.paper to the training error of ITQ's own decoder"] == ["0.20"] * 4
    assert lines["SGH.paper to the training error of ITQ's fitted decoder"] == ["never"] * 4


def test_rows_without_the_times_to_an_error_are_judged_by_the_whole_training():
    found = experiment("training_time")
    assert "training error" not in found.verdict(times(1.0, 2.0, 5.0)).sentence
    headings = [line[0] for p in found.draw(times(1.0, 2.0, 5.0)) if hasattr(p, "cells")
                for line in p.cells]  # fmt: skip
    assert not any("training error" in line for line in headings)


def test_a_stream_cannot_confirm_but_tells_its_direction():
    found = experiment("streamed_recall")
    assert "points the same way" in found.verdict(streamed(0.5, 0.4)).sentence
    assert "points the other way" in found.verdict(streamed(0.4, 0.5)).sentence
    assert "shows no difference" in found.verdict(streamed(0.4, 0.4)).sentence


def test_all_that_are_level_with_the_best_are_named():
    sentence = experiment("recall_l2").verdict(by_recall({PAPER: 0.5, "ITQ": 0.503, "LSH": 0.2}))
    assert "MNIST 16 bits ITQ and SGH.paper" in sentence.sentence


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("reconstruction", "MNIST 16 bits -0.2 ± 0.023, 3 and 3 seeds"),
        ("inner_product", "16 bits +0.100 ± 0.002 from ProductQuantizer, 3 and 3 seeds"),
        ("streamed_recall", "3 seeds each; ± is half of the 95 % interval"),
        ("streamed_recall", "16 bits 0.501, ITQ 0.401, ± 0.002"),
        ("online", "online, one pass 0.791 ± 0.002, 3 seeds"),
        ("online", "98.8 % of a batch training on as many vectors (95 % interval 98.5 to 99.0 %)"),
        ("convergence", "to the power -0.50 ± 0.00 (3 seeds)"),
        ("convergence", "with the whole 95 % interval over seeds at 5 of 5 lengths"),
        ("templates", "; 3 seeds"),
        ("sensitivity", "3 paired seeds and over queries"),
    ],
)
def test_sentences_state_seeds_and_intervals(name, text):
    assert text in experiment(name).verdict(CASES[name][0][0]).sentence


def test_the_best_of_the_modern_table_is_named():
    found = experiment("modern_embeddings")
    sentence = found.verdict(modern(0.9, 0.5)).sentence
    assert "8 bytes SGH (8 bytes) 0.901 ± 0.002 ahead of FAISS OPQ (8 bytes) 0.501" in sentence
    # A shorter code fits into a larger budget.
    assert "16 bytes SGH (16 bytes) 0.901 ± 0.002 ahead of FAISS OPQ (8 bytes) 0.501" in sentence
    assert (
        "SGH (8 bytes) 0.401 ± 0.002 behind FAISS OPQ" in found.verdict(modern(0.4, 0.5)).sentence
    )
    assert "not told apart from" in found.verdict(modern(0.5, 0.5)).sentence


def test_what_takes_more_bytes_than_its_budget_is_not_within_it():
    rows = modern(0.9, 0.5)
    for one in rows:
        if one["settings"]["method"] == "SGH":
            one["values"]["stored_bytes"] += 1
    sentence = experiment("modern_embeddings").verdict(rows).sentence
    assert "within 8 bytes" not in sentence and "within 16 bytes SGH (9 bytes)" in sentence


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rows_can_be_drawn(name):
    pytest.importorskip("matplotlib")
    rows = CASES[name][0][0]
    parts = experiment(name).draw(rows)
    assert parts
    for part in parts:
        if hasattr(part, "make"):
            assert part.make().get_axes() and part.caption and part.alt
        else:
            assert part.cells
            assert all(len(line) == len(part.headings) for line in part.cells)
            assert not any("nan" in cell for line in part.cells for cell in line)


def test_after_how_many_vectors_the_error_is_below_itqs_is_told():
    # ITQ ends at 1.5 after 750 vectors on average. Curves end at the final models' errors: the
    # paper's training goes from 1 to 0.5, or from 1.8 to 0.9, in 500 and 1000 vectors.
    for paper, share in ((0.5, 66.7), (0.9, 133.3)):
        sentence = experiment("reconstruction").verdict(reconstruction(paper, 1.0)).sentence
        assert "falls below the end of ITQ, own decoder in 4 of 4 cells" in sentence
        assert f"{share} to {share} % as many vectors as its 50 iterations" in sentence
