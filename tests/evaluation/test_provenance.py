"""A revision names the source that measured, not the rows that were committed since."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import sghash
from sghash.evaluation.provenance import revision, source_tree

WHO = ("-c", "user.name=a", "-c", "user.email=a@b")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("git") is None:
        pytest.skip("no git")
    package = tmp_path / "src" / "sghash"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(sghash, "__file__", str(package / "__init__.py"))
    git(tmp_path, "init", "-q")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "a")
    return git(folder, "rev-parse", "HEAD")


def test_it_is_the_last_commit_of_the_source(checkout: Path) -> None:
    first = commit(checkout)
    (checkout / "rows.jsonl").write_text("{}\n")
    assert revision() == first
    commit(checkout)
    assert revision() == first
    (checkout / "src" / "sghash" / "more.py").write_text("")
    assert revision() == f"{first}-dirty"
    assert commit(checkout) == revision() != first


def test_the_content_keeps_its_name_where_a_commit_does_not(checkout: Path) -> None:
    first, content = commit(checkout), source_tree()
    git(checkout, "commit", "-q", "--amend", "-m", "the same under another name")
    assert revision() != first and source_tree() == content
    (checkout / "src" / "sghash" / "more.py").write_text("")
    commit(checkout)
    assert source_tree() not in (None, content)


def test_without_a_commit_or_a_checkout_there_is_none(checkout: Path) -> None:
    assert revision() is None and source_tree() is None
    shutil.rmtree(checkout / ".git")
    assert revision() is None and source_tree() is None
