"""The stress programme in short form, and the proof that it can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs fork and /proc")
PROGRAM = Path(__file__).with_name("run.py")
# Two writers without a lock: the first thing seen may be that one took the other's files away.
NO_LOCK = {"two writers at once", "wrong ids", "wrong contents", "refused without reason"}


@pytest.fixture
def run(tmp_path):
    def run(*options, patience=30):
        command = [sys.executable, str(PROGRAM), *map(str, options)]
        own = {"SGHASH_STRESS_PATIENCE": str(patience), "TMPDIR": str(tmp_path)}
        done = subprocess.run(
            command, env={**os.environ, **own}, capture_output=True, text=True, check=False
        )
        print(done.stdout[-6000:], done.stderr[-3000:])
        return done.returncode, json.loads(done.stdout.splitlines()[-1])

    return run


def test_a_short_run_finds_nothing_wrong(run):
    code, told = run("--seed", 11, "--events", 30)
    assert code == 0 and not told["faults"]
    assert told["counts"]["events"] >= 30 and told["counts"]["kills"] >= 5


@pytest.mark.slow
def test_a_lost_row_is_noticed(run):
    code, told = run(
        "--seed", 1, "--events", 3, "--jobs", 1, "--only", "plain", "--break", "lost-row"
    )
    assert code == 1 and told["faults"].keys() & {"wrong contents", "wrong answer"}


@pytest.mark.slow
def test_two_minutes_of_stress_find_nothing_wrong(run):
    code, told = run("--seed", 12, "--events", 100_000, "--seconds", 130)
    counts = told["counts"]
    assert code == 0 and told["raw errors"] == 0
    assert counts["events"] > 500 and counts["kills"] > 100
    kinds = ["stops", "torn writes", "errors", "interrupts", "flips", "forks after open",
             "readers beside a writer", "threads beside a writer", "creation races",
             "second writers", "moves after open", "kills while creating"]  # fmt: skip
    kinds += ["programs that begin with bits", "programs that begin with tables"]
    assert all(counts[kind] >= 3 for kind in kinds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "only", "kinds"),
    [
        ("doubled-row", "plain,killed", {"wrong contents", "wrong answer", "wrong ids"}),
        ("forgotten-delete", "killed", {"wrong contents", "refused without reason"}),
        ("half-change", "errors", {"wrong contents"}),
        ("torn-answer", "threads", {"wrong answer"}),
        ("raw-error", "interrupts", {"raw error"}),
        ("no-lock", "second_writer", {"two writers at once"}),
        ("no-lock", "contention", NO_LOCK),
        ("blind-verify", "flipped,plain", {"damage not noticed"}),
        ("used-ids", "stopped", {"wrong ids"}),
        ("stale-reader", "readers", {"reader saw a wrong state"}),
        ("never-returns", "plain", {"hung"}),
    ],
)
def test_a_collection_broken_on_purpose_is_noticed(run, way, only, kinds):
    options = ["--seed", 2, "--events", 150, "--only", only, "--break", way, "--faults", 1]
    code, told = run(*options, patience=3)
    assert code == 1 and told["faults"].keys() & kinds


@pytest.mark.slow
def test_a_program_does_the_same_when_it_is_run_again(run):
    options = ["--seed", 5_000_003, "--replay", "--only", "errors,stopped,flipped,plain"]
    assert run(*options)[1]["counts"] == run(*options)[1]["counts"]
