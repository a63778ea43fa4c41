"""The README says what is true: its Python runs, its commands and links exist."""

from __future__ import annotations

import re
from pathlib import Path

import sghash
from sghash.cli.frame import VERBS

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs(monkeypatch):
    """As it stands, but for the number of training steps: nothing here depends on it."""
    fit = sghash.SGH.fit
    monkeypatch.setattr(
        sghash.SGH, "fit", lambda self, *given: fit(self.set_params(n_steps=100), *given)
    )
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["codes"].shape == (10_000, 8)
    assert names["ids"].shape == (5, 10) and names["ids"][:, 0].tolist() == [0, 1, 2, 3, 4]
    assert names["restored"].shape == names["vectors"].shape


def test_named_verbs_targets_models_and_files_exist():
    for verb in re.findall(r"^sghash (\w+)", TEXT, flags=re.MULTILINE):
        assert verb in VERBS
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([\w-]+)", TEXT, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile
    for link in re.findall(r"\]\((\S+?)\)", TEXT):
        assert (ROOT / link).exists(), link
    listed = re.search(r"compares with: (.*?)\.\n", TEXT, flags=re.DOTALL)
    assert listed is not None
    for name in re.findall(r"`(\w+)`", listed.group(1)):
        assert hasattr(sghash.models, name), name


def test_every_benchmark_is_listed():
    table = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "benchmarks").glob("*.py"):
        assert f"`{path.name}`" in table, path.name
