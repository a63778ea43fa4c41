"""docs/cli.md says what is true: its commands run, it knows every verb and every exit code."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sghash.cli.frame import EXIT_CODES, VERBS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, flags=re.DOTALL)


def bash(line, folder, stdin=b""):
    """A line in the shell, where `sghash` is this installation's."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line], cwd=folder, input=stdin, capture_output=True,
        env={**os.environ, "PATH": path}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, (line, done.stderr.decode())
    return done.stdout


@pytest.fixture
def shell(run, tmp_path):
    """A line in a shell that runs `sghash` in this process: pipes and > are all it knows."""

    def call(line):
        data = b""
        for stage in line.split(" | "):
            words = shlex.split(stage)
            if words[0] != "sghash" or {"&&", "||"} & set(words):
                data = bash(stage, tmp_path, data)
                continue
            target = words[words.index(">") + 1] if ">" in words else None
            out = run(*words[1 : words.index(">") if target else None], stdin=data, cwd=tmp_path)
            assert out.returncode == 0, (line, out.stderr)
            data = out.raw
            if target is not None:
                (tmp_path / target).write_bytes(data)
        return data.decode(errors="replace")

    return call


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
def test_every_block_runs_in_a_real_shell(tmp_path):
    for _, block in BLOCKS:
        bash(block, tmp_path)


def test_every_verb_and_exit_code_is_on_the_page():
    table = TEXT[: TEXT.index("## Where")]
    for verb in VERBS:
        assert f"`{verb}`" in table, verb
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in TEXT
    used = set(re.findall(r"sghash (\w+)", TEXT))
    # These two take too long for a page that is run; their own tests run them.
    assert set(VERBS) - used <= {"demo", "reproduce"} and used <= {*VERBS, "VERB", "itself"}
