"""The obvious commands: `create` and `search` without knobs, and `plan` before both."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sghash import Collection
from sghash.collection.planning.forecast import advised, effort, forecast
from sghash.experiments.memory import kept_bytes


@pytest.mark.slow
def test_two_commands_lead_from_a_file_to_answers(run, folder):
    vectors = np.load(folder / "vectors.npy")
    facts = run("create", "new", "vectors.npy", "--json", cwd=folder).facts
    assert facts["rows"] == len(vectors) and facts["expected_recall"] >= 0.95
    assert facts["tried"] and facts["keep_vectors"]
    found = json.loads(
        run("search", "new", "vectors.npy", "--stop", "5", "--json", cwd=folder).stdout
    )
    assert [answer["neighbors"][0]["id"] for answer in found] == list(range(5))
    assert isinstance(found[0]["neighbors"][0]["distance"], float)
    text = run("create", "other", "vectors.npy", "--target-recall", "0.9", cwd=folder).stdout
    assert "chosen" in text and "of float32" in text


def test_what_is_said_by_hand_is_done_by_hand(run, folder):
    run("create", "new", "vectors.npy", "--model", "LSH", "--bits", "16", cwd=folder)
    assert Collection.open(folder / "new").plan is None


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--bits", "16", "--target-recall", "0.9"), "has no use here"),
        (("--model", "LSH", "--bytes-per-vector", "8"), "says by hand"),
        (("--partitions", "2", "--queries", "vectors.npy"), "has no use here"),
        (("--target-recall", "2"), "at most 1"),
        (("--queries", "no.npy"), "no.npy"),
    ],
)
def test_contradictions_are_refused_and_leave_nothing(run, folder, options, part):
    before = sorted(path.name for path in folder.iterdir())
    found = run("create", "new", "vectors.npy", *options, cwd=folder)
    assert found.returncode in (1, 2) and part in found.stderr
    assert sorted(path.name for path in folder.iterdir()) == before


def test_info_shows_what_was_promised(run, folder):
    run("create", "new", "vectors.npy", "--keep-vectors", "int8", cwd=folder)
    text = run("info", "new", cwd=folder).stdout
    for word in ("expected_recall", "bytes_of_row", "plan_measured"):
        assert word.replace("_", " ") in text or word in text


def test_plan_counts_bytes_and_orders_the_ways(run, folder):
    facts = run("plan", "--rows", "3e6", "--dims", "384", "--json", cwd=folder).facts
    sizes = {way["name"]: way["memory_bytes"] for way in facts["ways"]}
    assert sizes["float32, every row compared"] == 3_000_000 * 384 * 4
    assert sizes["sghash, int4 vectors"] < sizes["sghash, int8 vectors"] < 3_000_000 * 384 * 2
    assert sizes["HNSW over float32"] > 3_000_000 * 384 * 4
    assert "GB" in run("plan", "--rows", "3,000,000", "--dims", "384", cwd=folder).stdout


def test_a_forecast_counts_what_the_picture_of_memory_shows():
    for n, width in ((58_000, 384), (3_000_000, 384), (1_000_000, 100)):
        (built,) = [
            sum(parts.values())
            for name, parts in kept_bytes(n, width, (64,)).items()
            if name.startswith("built")
        ]
        assert forecast(n, width, 0.95)[0].memory_bytes == pytest.approx(built, rel=1e-3)
    # As docs/images and the README's table have it: 295 bytes on the disk, with all headers.
    assert forecast(58_000, 384, 0.95)[0].disk_bytes / 58_000 == pytest.approx(295, rel=0.05)


def test_a_forecast_grows_with_the_rows_and_the_target():
    few, many = (forecast(n, 128, 0.95) for n in (10_000, 10_000_000))
    for small, large in zip(few, many, strict=True):
        assert small.memory_bytes < large.memory_bytes and small.milliseconds < large.milliseconds
    assert effort(0.5) <= effort(0.9) < effort(0.93) < effort(0.95) < effort(0.98) < effort(0.999)
    assert "int8" in advised(few, 0.98) and "will reach" in advised(few, 0.9)
