"""docs/cli.md says what is true: its commands run, it knows every verb and every exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sghash.cli.frame import EXIT_CODES, VERBS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.slow
def test_every_block_runs(shell):
    """In this process: what a line prints is looked at where the page makes a promise."""
    assert {language for language, _ in BLOCKS} == {"sh"}
    said = {line: shell(line) for _, block in BLOCKS for line in block.splitlines()}
    found = {
        line: next(text for command, text in said.items() if line in command)
        for line in (
            "info vectors.npy",
            "--where",
            "verify shelf",
            "delete named -",
            "info nothing",
        )
    }
    assert "1600" in found["info vectors.npy"]
    assert "gamma" in found["--where"] and "alpha" not in found["--where"]
    assert found["verify shelf"].startswith("whole: collection of 1597 rows")
    assert found["delete named -"].startswith("2 rows deleted, 1596 left")
    assert found["info nothing"] == "exit code 1\n"


@pytest.mark.slow
def test_every_block_runs_in_a_real_shell(bash):
    for _, block in BLOCKS:
        bash(block)


def test_every_verb_and_exit_code_is_on_the_page():
    table = TEXT[: TEXT.index("## Where")]
    for verb in VERBS:
        assert f"`{verb}`" in table, verb
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in TEXT
    used = set(re.findall(r"sghash (\w+)", TEXT))
    # These two take too long for a page that is run; their own tests run them.
    assert set(VERBS) - used <= {"demo", "reproduce"} and used <= {*VERBS, "VERB", "itself"}
