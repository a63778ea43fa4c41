"""The table of the paper's equations in docs/mathematics.md: complete, and every target exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8")
TABLE = re.findall(r"^\| (.+?) \| .+? \| (`.+:.+`) \|$", PAGE, flags=re.MULTILINE)
TARGETS = [target for _, cell in TABLE for target in re.findall(r"`([^`]+)`", cell)]


def test_every_equation_algorithm_and_theorem_has_a_line():
    named = " ".join(what for what, _ in TABLE)
    wanted = [f"({number})" for number in range(1, 13)]
    wanted += ["Lemma 2", "Proposition 3", "Algorithm 1", "Theorem 1", "Theorem 2"]
    assert [what for what in wanted if what not in named] == []


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_exists(target):
    file, name = target.split(":")
    assert (ROOT / "src" / "sghash" / file).is_file()
    value = importlib.import_module(f"sghash.{file.removesuffix('.py').replace('/', '.')}")
    module = value.__name__
    for part in name.split("."):
        value = getattr(value, part)
    assert value.__module__ == module, f"{name} only passes through {file}: name its own file"


def test_no_target_stands_twice():
    assert len(set(TARGETS)) == len(TARGETS)
