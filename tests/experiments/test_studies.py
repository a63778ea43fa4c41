"""Studies beyond the paper: every one runs on built-in data, keeps rows and is listed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from sghash.errors import InvalidInput, MissingExtra
from sghash.evaluation.summary import Estimate
from sghash.experiments import EXPERIMENTS, STUDIES, experiment
from sghash.experiments.comparisons import Measured
from sghash.experiments.experiment import Context, Table
from sghash.experiments.hashing import repetitions
from sghash.experiments.sets import BenchSet
from sghash.experiments.studies.integer_programs import PROBLEMS
from sghash.experiments.studies.published_precision import mean_average_precision
from sghash.experiments.studies.recall_table import mean_of, ratio, ratios
from sghash.experiments.studies.tables import table_of

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_runs_once_and_draws_its_rows(name, tmp_path):
    study, said = experiment(name), []
    context = Context(tmp_path, quick=True, seeds=2, threads=1)
    if name == "networks" and importlib.util.find_spec("torch") is None:
        with pytest.raises(MissingExtra, match="torch"):
            study.run(context)
        return
    rows = study.run(context)
    again = Context(tmp_path, quick=True, seeds=2, threads=1, say=said.append)
    assert [row["key"] for row in study.run(again)] == [row["key"] for row in rows]
    assert rows and not said, "rows that exist were measured again"
    for part in study.draw(rows):
        assert isinstance(part, Table) and part.cells
        assert all(len(line) == len(part.headings) for line in part.cells)
        assert any(character.isdigit() for line in part.cells for character in line[-1])
    assert f"{len(rows)} rows" in study.verdict(rows).sentence


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_named_listed_and_refuses_no_rows(name):
    study = experiment(name)
    assert study.name == name and name not in EXPERIMENTS
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert f"| `{name}` | {study.claim} |" in page
    with pytest.raises(InvalidInput, match="no rows"):
        study.verdict([])
    with pytest.raises(InvalidInput, match="no rows"):
        study.draw([])


def test_no_benchmark_measures_accuracy():
    """Speed is measured there; recall only where speed is shown at a recall."""
    trading = {
        "collection_recall_qps.py", "collection_storage.py", "databases.py", "kept_kinds.py",
        "partition_targets.py", "partitions.py",
    }  # fmt: skip
    for file in (ROOT / "benchmarks").glob("*.py"):
        text = file.read_text(encoding="utf-8")
        if file.name not in trading:
            assert "evaluation.metrics" not in text and "ground_truth(" not in text, file.name


def rows_of(recalls):
    return [
        {"settings": {"set": s, "n_bits": b, "model": m}, "values": {"recall10@100": value}}
        for (s, b, m), values in recalls.items()
        for value in values
    ]


def test_ratios_have_the_interval_of_both_means():
    value, half = ratio(Estimate(0.6, 0.06, 3), Estimate(0.5, 0.05, 3))
    assert value == pytest.approx(1.2) and half == pytest.approx(1.2 * np.hypot(0.1, 0.1))
    mean, spread = mean_of([(2.0, 0.2), (0.5, 0.0)])
    assert mean == pytest.approx(1.0) and spread == pytest.approx(0.05)


def test_one_seed_of_a_method_that_draws_has_no_interval():
    once, often = Estimate(0.6, None, 1), Estimate(0.5, 0.05, 3)
    assert ratio(once, often) == (pytest.approx(1.2), None)
    assert ratio(Measured(once, is_fixed=True), often)[1] == pytest.approx(0.12)
    assert mean_of([(2.0, 0.2), (0.5, None)]) == (pytest.approx(1.0), None)
    rows = rows_of({("a", 16, "ITQ"): [0.4, 0.5], ("a", 16, "LSH"): [0.3],
                    ("a", 16, "SpectralHashing"): [0.3]})  # fmt: skip
    cells = {line[0]: line[2:] for line in ratios(rows).cells}
    assert cells["LSH"] == ["0.667", "0.667"]
    assert all("±" in cell for cell in cells["SpectralHashing"])


def test_pca_hashing_is_repeated_where_it_draws(tmp_path):
    context = Context(tmp_path, seeds=5)
    words, texts = (BenchSet("s", source, 9, 9) for source in ("glove100", "minilm-wordnet"))
    assert len(repetitions(context, words, "PCAHashing", 128)) == 5
    assert len(repetitions(context, words, "PCAHashing", 64)) == 1
    assert len(repetitions(context, texts, "PCAHashing", 128)) == 1


def test_a_mean_over_sets_needs_all_of_them():
    rows = rows_of(
        {
            ("a", 16, "ITQ"): [0.5], ("a", 16, "SGH"): [0.6], ("b", 16, "ITQ"): [0.4],
            ("b", 16, "SGH"): [0.4], ("a", 32, "ITQ"): [0.5], ("a", 32, "SGH"): [0.7],
        }
    )  # fmt: skip
    assert ratios(rows).cells == [
        ["SGH", "16", "1.200", "1.000", "1.095"],
        ["SGH", "32", "1.400", "", ""],
    ]


def test_a_table_has_a_line_per_setting():
    rows = rows_of({("a", 16, "SGH"): [0.5, 0.7], ("a", 32, "SGH"): [0.8]})
    table = table_of(rows, ("n_bits", "model"), ("recall10@100", "missing"))
    assert table.headings == ["n bits", "model", "recall10@100", "missing"]
    assert table.cells[1] == ["32", "SGH", "0.800", ""] and table.cells[0][2].startswith("0.600 ±")


def test_average_precision_by_hand():
    codes = np.array([[0b11], [0b00], [0b01]], np.uint8)
    # Ranked from 0: rows 1, 2, 0. The right ones, 0 and 1, stand at ranks 3 and 1.
    found = mean_average_precision(codes, np.array([[0]], np.uint8), np.array([[0, 1]]))
    assert found == pytest.approx((1 / 1 + 2 / 3) / 2)


@pytest.mark.parametrize("name", PROBLEMS)
def test_slopes_of_integer_programs_are_those_of_the_function(name, rng):
    problem = PROBLEMS[name](6, rng)
    bits = rng.random((4, 6)) < 0.5
    values, slopes = problem.f(bits), problem.slope(bits)
    for k in range(6):
        flipped = bits.copy()
        flipped[:, k] = ~flipped[:, k]
        change = problem.f(flipped) - values
        along = slopes[:, k] * np.where(bits[:, k], -1, 1)
        if name == "max-cut":  # linear in each bit
            np.testing.assert_allclose(change, along)
        else:  # convex in each bit
            assert np.all(change >= along - 1e-6)
