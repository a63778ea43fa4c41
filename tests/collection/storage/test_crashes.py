"""A writer that dies at any moment loses nothing it acknowledged; see `crashing` for the proof.

The programs run on their own, in processes that can be forked safely. Nothing here needs a disk: a
process that dies takes no file with it, and what a power cut leaves is worked out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="stopping writers needs fork")
PROGRAM = Path(__file__).with_name("crashing.py")


def run(verb, folder, number):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), verb, str(folder), str(number)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(verb, done.stdout)
    return json.loads(done.stdout)


def test_stopped_at_some_moments(memory_path):
    """The quick selection: the slow tests stop everywhere."""
    counts = run("sample", memory_path, 83)
    assert counts["kills"] == 8
    assert min(counts["stops"], counts["torn"], counts["power cuts"]) >= 3


@pytest.mark.slow
def test_killed_five_hundred_times(memory_path):
    counts = run("kill", memory_path / "c", 500)
    assert counts["kills"] == 500
    assert counts["acknowledged"] > 500 and counts["under way and kept"] > 0


@pytest.mark.slow
def test_stopped_after_every_write_sync_and_rename(memory_path):
    counts = run("stop", memory_path, 1)
    assert counts["stops"] > 200 and counts["torn"] > 200


@pytest.mark.slow
def test_power_lost_after_every_write_sync_and_rename(memory_path):
    assert run("power", memory_path, 1)["power cuts"] > 150
