"""The command line as a user meets it: exit codes, stdout, stderr, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import sghash
from sghash.cli.frame import VERBS, table_of


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "sghash", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


def test_version_and_help():
    assert run("--version").stdout.strip().endswith(sghash.__version__)
    out = run("--help")
    assert out.returncode == 0
    for verb in VERBS:
        assert verb in out.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb):
    out = run(verb, "--help")
    assert out.returncode == 0 and "Example" in out.stdout and f"sghash {verb}" in out.stdout


@pytest.mark.parametrize("verb", [*VERBS, "no-such-verb"])
def test_a_wrong_option_is_a_usage_error(verb):
    out = run(verb, "--no-such-option")
    assert out.returncode == 2 and "Traceback" not in out.stderr and out.stdout == ""


def test_info_about_the_installation():
    facts = json.loads(run("info", "--json").stdout)
    assert facts["sghash"] == sghash.__version__ and facts["packages"]["numpy"] == np.__version__


def test_info_about_a_model_and_an_index(tmp_path, rng):
    model = sghash.LSH(n_bits=12, random_state=0).fit(rng.standard_normal((30, 4)))
    model.save(tmp_path / "model")
    facts = json.loads(run("info", tmp_path / "model", "--json").stdout)
    assert facts["class"] == "LSH" and facts["n_bits"] == 12 and facts["dimensions"] == 4
    index = sghash.HammingIndex(n_bits=12)
    index.add(model.encode(rng.standard_normal((30, 4))))
    index.save(tmp_path / "codes")
    assert "codes" in run("info", tmp_path / "codes").stdout


@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"SGHINDEX\x01\0\0\0"])
def test_info_about_something_else_is_one_sentence(content, tmp_path):
    path = tmp_path / "thing"
    if content is not None:
        path.write_bytes(content)
    out = run("info", path)
    assert out.returncode == 1 and out.stdout == ""
    assert out.stderr.startswith("sghash: ") and len(out.stderr.strip().splitlines()) == 1


def test_demo_prints_a_table_on_stdout_and_progress_on_stderr():
    out = run("demo")
    assert out.returncode == 0 and "recall10@10" in out.stdout and "fitting" in out.stderr
    rows = json.loads(run("demo", "--json", "--seed", 1).stdout)["rows"]
    by_bits = {(row["model"], row["n_bits"]): row["recall10_at_10"] for row in rows}
    assert by_bits["LSH", 64] > by_bits["LSH", 16] > 0.05


def test_a_reader_that_goes_away_is_no_traceback():
    process = subprocess.run(
        f"{sys.executable} -m sghash info | true", shell=True, capture_output=True, text=True
    )
    assert "Traceback" not in process.stderr


def test_tables_align():
    text = table_of(("name", "n"), [("a", 1), ("bbb", 22)])
    assert text.splitlines() == ["name   n", "----  --", "a      1", "bbb   22"]
