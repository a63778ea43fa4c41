"""The README says what is true: its Python runs, its commands and links exist."""

from __future__ import annotations

import re
from pathlib import Path

import sghash
from sghash.cli.frame import VERBS
from sghash.evaluation.metrics import recall

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_examples_run_and_print_what_is_shown(monkeypatch, tmp_path, capsys):
    """As they stand, but for the number of training steps: nothing here depends on it."""
    fit = sghash.SGH.fit
    monkeypatch.setattr(
        sghash.SGH, "fit", lambda self, *given: fit(self.set_params(n_steps=100), *given)
    )
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)
    (shown,) = re.findall(r"```text\n(.*?)```", TEXT, flags=re.DOTALL)
    *sentences, figures = shown.splitlines()
    *printed, measured = capsys.readouterr().out.splitlines()
    assert printed == sentences
    for got, expected in zip(
        *(re.findall(r"\d\.\d+", line) for line in (measured, figures)), strict=True
    ):
        assert abs(float(got) - float(expected)) <= 0.02
    assert names["codes"].shape == (3000, 8) and names["ids"].shape == (200, 10)
    assert names["restored"].shape == names["data"].base.shape
    truth = sghash.ground_truth(names["data"].base, names["data"].queries, 3, metric="cosine").ids
    assert recall(truth, names["found"].ids, k=3, n=3) > 0.9
    names["notes"].close()


def test_named_verbs_targets_models_and_files_exist():
    for verb in re.findall(r"^sghash (\w+)", TEXT, flags=re.MULTILINE):
        assert verb in VERBS
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([\w-]+)", TEXT, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile
    for link in re.findall(r"\]\((\S+?)\)", TEXT):
        path, _, anchor = link.partition("#")
        assert (ROOT / path).exists(), link
        if anchor:
            page = (ROOT / (path or "README.md")).read_text(encoding="utf-8")
            headings = re.findall(r"^##+ (.*)$", page, flags=re.M)
            assert anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
    listed = re.search(r"compares with: (.*?)\.\n", TEXT, flags=re.DOTALL)
    assert listed is not None
    for name in re.findall(r"`(\w+)`", listed.group(1)):
        assert hasattr(sghash.models, name), name


def test_the_scoreboard_counts_the_verdicts():
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    lines = re.findall(
        r"^\| `(\w+)` \| (.*?) \| .* \| (agrees|differs|open) \|$", results, flags=re.M
    )
    claims = [(name, verdict) for name, shown, verdict in lines if shown != "not in the paper"]
    for verdict in ("agrees", "differs", "open"):
        own = [name for name, said in claims if said == verdict]
        assert f"| {verdict} | {len(own)} | {', '.join(f'`{name}`' for name in own)} |" in TEXT
    assert f"Of the paper's {len(claims)} claims" in TEXT


def test_every_benchmark_is_listed():
    table = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "benchmarks").glob("*.py"):
        assert f"`{path.name}`" in table, path.name
