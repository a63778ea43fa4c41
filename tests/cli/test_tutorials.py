"""The pages of docs/ say what is true: their blocks run, and print what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from sghash.cli.frame import VERBS

DOCS = Path(__file__).resolve().parents[2] / "docs"
TUTORIALS = (
    "i-have-embeddings",
    "i-have-images",
    "i-do-research",
    "i-run-a-database",
    "how-accurate",
    "scale",
)
NUMBER = re.compile(r"\d+\.\d+")
#: Decimals on a page may differ by so much: other processors round sums in another order.
TOLERANCE = 0.05


def blocks(page):
    """(language, text) of every block of a page, in its order."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def assert_shown(printed, shown):
    # Columns are padded to the longest number, which may have a digit more elsewhere.
    blanked = [re.sub(rf" *{NUMBER.pattern}", " #", text) for text in (printed, shown)]
    assert blanked[0] == blanked[1]
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    for got, expected in pairs:
        assert abs(float(got) - float(expected)) <= TOLERANCE, (printed, shown)


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS)
def test_every_block_runs_and_prints_what_is_shown(page, shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    printed = ""
    for language, text in blocks(page):
        if language == "sh":
            # What is shown below several commands is what the last of them prints.
            *_, printed = map(shell, text.splitlines())
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, f"{page}.md", "exec"), names)
            printed = out.getvalue()
        else:
            assert language == "text", f"{page}: blocks are sh, python or text, not {language!r}"
            assert_shown(printed, text)


@pytest.mark.parametrize("page", TUTORIALS)
def test_pages_name_verbs_and_files_that_exist(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for verb in re.findall(r"^sghash (\w+)", text, flags=re.MULTILINE):
        assert verb in VERBS
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (DOCS / link).exists(), link


def test_the_clock_follows_the_same_pages():
    tool = (DOCS.parent / "tools" / "clock_pages.py").read_text(encoding="utf-8")
    listed = re.search(r"^PAGES = \((.*?)\)", tool, flags=re.DOTALL | re.MULTILINE)
    assert listed is not None and tuple(re.findall(r'"([\w-]+)"', listed.group(1))) == TUTORIALS


def test_no_shown_number_may_stray():
    assert_shown("recall 0.91 of 10\n", "recall 0.93 of 10\n")
    for wrong in ("recall 0.80 of 10\n", "recall 0.93 of 11\n", "precision 0.93 of 10\n"):
        with pytest.raises(AssertionError):
            assert_shown(wrong, "recall 0.93 of 10\n")
