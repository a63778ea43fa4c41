"""The page of all experiments: whole where something is missing, and true to the rows."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sghash.data.builtin import digits
from sghash.errors import MissingData, MissingExtra
from sghash.experiments import EXPERIMENTS, experiment, reproduction
from sghash.experiments.experiment import Context, Drawing, Experiment, Table, Verdict
from sghash.experiments.history import EARLIER, UNSAID, Earlier, why_changed
from tests.experiments.made_up_rows import row

ROOT = Path(__file__).parents[2]


def stub(name, rows):
    def run(context):
        if rows is None:
            raise MissingData("the set is not here")
        return [context.measured(name, {"seed": s}, lambda: {"value": 1.0}) for s in range(rows)]

    return Experiment(
        name=name,
        title=name.capitalize(),
        claim=f"claim of {name}",
        shown="Figure 0",
        setup="nothing",
        run=run,
        verdict=lambda found: Verdict("agrees", f"{len(found)} rows."),
        draw=lambda found: [Table(["a", "b"], [["1", "2"]], "a table")],
    )


def test_missing_data_leaves_a_claim_open_and_the_page_whole(tmp_path, monkeypatch):
    known = {"here": stub("here", 2), "absent": stub("absent", None)}
    monkeypatch.setattr(reproduction, "experiment", known.__getitem__)
    said = []
    context = reproduction.make_context(tmp_path, Context(tmp_path, say=said.append))
    with pytest.raises(MissingData):
        reproduction.reproduce(["absent"], context)
    results = reproduction.reproduce(["here", "absent"], context, tolerant=True)
    assert [result.verdict.outcome for result in results] == ["agrees", "open"]
    assert any(line.startswith("absent: open, after") for line in said)
    html, markdown = reproduction.write(results, tmp_path, quick=False)
    for path in (html, markdown):
        text = path.read_text(encoding="utf-8")
        assert "claim of here" in text and "the set is not here" in text and "a table" in text
    assert (tmp_path / "results" / "rows" / "here.jsonl").exists()


def test_a_page_without_the_plots_extra_has_its_tables(tmp_path, monkeypatch):
    def make():
        raise MissingExtra("this needs matplotlib: pip install 'sghash[plots]'")

    found = replace(stub("here", 1), draw=lambda rows: [Drawing(make, "A curve.", "it rises")])
    monkeypatch.setattr(reproduction, "experiment", lambda name: found)
    results = reproduction.reproduce(["here"], Context(tmp_path))
    text = reproduction.page_of(results, quick=False).markdown()
    assert "A curve. The figure is left out: this needs matplotlib" in text


def test_the_page_names_the_data_by_checksum(tmp_path, monkeypatch):
    monkeypatch.setenv("SGHASH_DATA", str(tmp_path))
    settings = [
        {"set": "digits", "source": "digits", "n_vectors": 1600, "n_queries": 150},
        {"set": "elsewhere", "source": "sift-photos", "n_vectors": 9, "n_queries": 9},
    ]
    context = Context(tmp_path)
    rows = [context.measured("store", one, lambda: {"value": 1.0}) for one in settings]
    result = reproduction.Result(stub("here", 1), rows, Verdict("agrees", "So."), 0.0)
    text = reproduction.page_of([result], quick=False).markdown()
    assert f"| digits | digits | 1,600 | 150 | {digits().checksum[:16]} |" in text
    assert "| sift-photos | 9 | 9 | not here |" in text


def test_the_page_says_what_changed_since_the_first_version(tmp_path):
    kept = Context(tmp_path).measured("store", {"set": "here"}, lambda: {"value": 1.0})
    found = replace(stub("here", 1), name="sensitivity")
    result = reproduction.Result(found, [kept], Verdict("agrees", "So."), 0.0)
    text = reproduction.page_of([result], quick=False).markdown()
    assert "| `sensitivity` | open | agrees | what seeds and queries alone do" in text
    assert "verdict then" not in reproduction.page_of([result], quick=True).markdown()
    assert set(EARLIER) <= set(EXPERIMENTS)


def test_another_verdict_has_its_reason(tmp_path, monkeypatch):
    kept = Context(tmp_path).measured("store", {"set": "here"}, lambda: {"value": 1.0})
    result = reproduction.Result(
        replace(stub("here", 1), name="online"), [kept], Verdict("open", "So."), 0.0
    )
    monkeypatch.setitem(EARLIER, "online", Earlier("agrees", "nothing"))
    assert f"| nothing | {UNSAID} |" in reproduction.page_of([result], quick=False).markdown()
    monkeypatch.setitem(EARLIER, "online", Earlier("agrees", "nothing", "two seeds less"))
    assert "| nothing | two seeds less |" in reproduction.page_of([result], quick=False).markdown()
    assert why_changed("online", "agrees") == ""


def test_the_page_that_is_kept_says_why_its_verdicts_are_others():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    now = dict(re.findall(r"^\| `(\w+)` \| .* \| (agrees|differs|open) \|$", text, flags=re.M))
    assert set(EARLIER) <= set(now)
    unsaid = [name for name in EARLIER if why_changed(name, now[name]) == UNSAID]
    assert not unsaid, f"sghash.experiments.history: say why {unsaid} changed"


def test_the_page_that_is_kept_is_of_one_committed_revision():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert "Warning, " not in text
    assert re.search(r"Revisions [0-9a-f]{40}( \([^()]*\))?\. Measured between", text)


def test_rows_of_several_revisions_are_warned_of():
    def result(name, *revisions):
        rows = [{**row({}), "revision": revision} for revision in revisions]
        return reproduction.Result(stub(name, 1), rows, Verdict("agrees", "So."), 0.0)

    results = [result("one", "a", "a"), result("many", "b", "a", "b"), result("odd", "a-dirty"),
               result("nowhere", None), result("nothing")]  # fmt: skip
    assert reproduction.mixed_revisions(results) == [
        "Warning, `many`: rows come from 2 revisions: a, b.",
        "Warning, `odd`: rows come from 1 revision, 1 of them not committed: a-dirty.",
        "Warning, `nowhere`: rows come from 1 revision, 1 of them not committed: None.",
    ]
    text = reproduction.page_of(results, quick=False).markdown()
    assert "rows come from 2 revisions" in text
    assert "Warning" not in reproduction.page_of(results, quick=True).markdown()


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_figures_are_measured_with_the_timed_ones_last_and_failures_are_named(tmp_path):
    """The target, with a program in the place of Python that only keeps how it was called."""
    calls, program = tmp_path / "calls", tmp_path / "python"
    program.write_text(
        f'#!/bin/bash\necho "$OPENBLAS_NUM_THREADS $(nproc) $*" >>{calls}\n'
        'case "$*" in *inner_product|*estimators) exit 1;; esac\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    (tmp_path / ".dev").touch()
    command = ["make", "-s", "figures", f"VENV={tmp_path}", f"RUN={program}"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode != 0 and "failed, see above: inner_product estimators" in run.stderr
    lines = calls.read_text(encoding="utf-8").splitlines()
    names = [line.split()[-1] for line in lines]
    assert set(EXPERIMENTS) == set(names[:-2])
    assert names[-2:] == ["all", "docs/images/figures.py"]
    assert names[-5:-2] == ["estimators", "modern_embeddings", "training_time"]
    assert all(line.startswith("1 ") for line in lines[:-1])
    if shutil.which("taskset"):
        assert all(line.startswith("1 1 ") for line in lines[-5:-1])
    program.write_text("#!/bin/bash\n", encoding="utf-8")
    subprocess.run(command, cwd=ROOT, check=True)


@pytest.mark.slow
def test_everything_runs_quickly_and_resumes(tmp_path):
    names = list(EXPERIMENTS)
    context = Context(tmp_path / "rows", quick=True, seeds=2)
    results = reproduction.reproduce(names, context)
    assert all(result.rows for result in results)
    written = reproduction.write(results, tmp_path, quick=True)
    assert "mean nothing" in written[0].read_text(encoding="utf-8")
    said = []
    again = Context(tmp_path / "rows", quick=True, seeds=2, say=said.append)
    repeated = reproduction.reproduce(names, again)
    assert [r.verdict for r in repeated] == [r.verdict for r in results]
    measured = [line for line in said if line.startswith("  ")]
    assert not measured, "rows that exist were measured again"


def test_every_experiment_is_listed_with_its_verdict():
    docs = Path(__file__).parents[2] / "docs"
    pages = [(docs / name).read_text(encoding="utf-8") for name in ("experiments.md", "results.md")]
    for name in EXPERIMENTS:
        found = experiment(name)
        assert found.name == name and found.setup
        start = f"| `{name}` | {found.shown} | {found.claim} | "
        lines = [line.replace("\\", "") for page in pages for line in page.splitlines()]
        rows = [line for line in lines if line.startswith(start)]
        assert len(rows) == 2 and rows[0] == rows[1], name
        assert rows[0].removeprefix(start) in ("agrees |", "differs |", "open |"), name
