"""The kills of a server in short form, and the proof that a lost write is noticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("serving.py")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]


def run(*options):
    done = subprocess.run(
        [sys.executable, PROGRAM, *options], capture_output=True, text=True, timeout=900
    )
    print(done.stderr[-3000:])
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def test_what_was_acknowledged_survives_every_kill():
    code, told = run("--kills", "40", "--seed", "7")
    assert code == 0 and not told["faults"]
    assert told["counts"]["kills"] == 40 and told["counts"]["acknowledged writes"] > 400
    assert told["counts"]["open requests"] > 20


def test_a_write_that_is_acknowledged_and_lost_is_noticed():
    code, told = run("--kills", "20", "--seed", "7", "--break")
    # A client finds that a row is gone when all are compared, or before, when it changes it.
    assert code == 1 and any(
        text in told["faults"][0] for text in ("rows differ", "is not in the collection")
    )
