"""What is released: one version, archives with what belongs there, a citation, a notebook."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest

import sghash

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"\d+\.\d+")


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_stands_in_one_place():
    project = tomllib.loads(text_of("pyproject.toml"))
    assert project["project"]["dynamic"] == ["version"] and "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/sghash/__init__.py"
    assert tool("check_dist").version() == sghash.__version__
    newest = re.search(r"^## (\S+)", text_of("CHANGELOG.md"), flags=re.MULTILINE).group(1)
    assert newest in (sghash.__version__, "Unreleased")


def test_pythons_that_are_tried_are_those_that_are_promised():
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert tuple(promised) == tool("try_pythons").PYTHONS
    assert project["requires-python"] == f">={promised[0]}"


def test_the_citation_is_valid():
    """What schema 1.2.0 of the Citation File Format asks for, as far as we use it."""
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load(text_of("CITATION.cff"))
    assert cited["cff-version"] == "1.2.0" and cited["type"] == "software"
    assert cited["version"] == sghash.__version__
    assert isinstance(cited["message"], str) and isinstance(cited["title"], str)
    assert isinstance(cited.get("date-released", date.today()), date)
    known = {
        "abstract", "authors", "cff-version", "date-released", "keywords", "license", "message",
        "references", "title", "type", "version",
    }  # fmt: skip
    assert set(cited) <= known
    for work in (cited, *cited["references"]):
        assert work["authors"] and work["title"]
        for author in work["authors"]:
            assert set(author) in ({"name"}, {"family-names", "given-names"})
    (paper,) = cited["references"]
    assert paper["type"] == "conference-paper" and paper["year"] == 2017
    assert isinstance(paper["conference"]["name"], str)


def test_no_address_is_invented():
    for name in ("SECURITY.md", "CITATION.cff", "pyproject.toml"):
        assert not re.search(r"[\w.]+@[\w.]+", text_of(name)), name
    assert "private advisory" in text_of("SECURITY.md")


def test_files_that_the_security_page_names_exist():
    for path in re.findall(r"`(tests/[\w/]+\.py)`", text_of("SECURITY.md")):
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sghash/py.typed": None}, "sghash/py.typed is missing"),
        ({"tests/test_x.py": 1}, "tests/test_x.py is outside of the package"),
        ({"sghash/__pycache__/a.nbi": 1}, "sghash/__pycache__/a.nbi does not belong there"),
    ],
)
def test_a_wheel_with_the_wrong_files_is_refused(change, sentence):
    check = tool("check_dist")
    files = dict.fromkeys(check.NEEDED["wheel"], 1)
    assert check.complaints("wheel", files, 1) == []
    files.update(change)
    files = {name: size for name, size in files.items() if size is not None}
    assert check.complaints("wheel", files, 1) == [sentence]
    (large,) = check.complaints("wheel", dict.fromkeys(check.NEEDED["wheel"], 1), 10**8)
    assert "100,000,000 bytes" in large


@pytest.mark.slow
def test_wheel_and_sdist_hold_what_they_should(tmp_path):
    pytest.importorskip("hatchling")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert tool("check_dist").main(str(tmp_path)) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        f"sghash-{sghash.__version__}-py3-none-any.whl", f"sghash-{sghash.__version__}.tar.gz"
    }  # fmt: skip


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_small_and_whole(path):
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5) and path.stat().st_size < 20_000
    ids = [cell["id"] for cell in book["cells"]]
    assert len(ids) == len(set(ids))
    for cell in book["cells"]:
        for link in re.findall(r"\]\(([^)#:]+)\)", "".join(cell["source"])):
            assert (path.parent / link).exists(), link


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_print_what_they_show(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    compared = 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile("".join(cell["source"]), f"{path.name} {cell['id']}", "exec"), names)
        shown = "".join("".join(part["text"]) for part in cell["outputs"])
        printed = out.getvalue()
        if "bits that differ" not in shown:  # whole numbers that hang on the last digit of floats
            assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
        pairs = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
        assert all(abs(float(a) - float(b)) <= 0.05 for a, b in pairs), (printed, shown)
        compared += bool(shown)
    assert compared >= 5
    names["notes"].close()
