"""The pages about partners say what is true: their blocks run, and print what is shown."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.adapters
DOCS = Path(__file__).resolve().parents[2] / "docs"
NUMBER = re.compile(r"\d\.\d+")
TOLERANCE = 0.05


def numbers_of(text):
    return [float(number) for number in NUMBER.findall(text)]


@pytest.fixture
def database_of_a_page(server):
    """The address of a database of the page's own, where it may create extensions."""
    import psycopg

    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("CREATE DATABASE page")
    return server.address.replace("dbname=postgres", "dbname=page")


PAGES = [f"i-have-{partner}" for partner in
         ("postgresql", "duckdb", "langchain", "llama-index", "faiss")]  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs_and_prints_what_is_shown(page, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page == "i-have-postgresql":
        monkeypatch.setenv("ADDRESS", request.getfixturevalue("database_of_a_page"))
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    names: dict = {}
    printed = ""
    for language, block in re.findall(
        r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE
    ):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block, f"{page}.md", "exec"), names)
            printed = out.getvalue()
        else:
            assert language == "text"
            assert NUMBER.sub("#", printed) == NUMBER.sub("#", block)
            assert numbers_of(printed) == pytest.approx(numbers_of(block), abs=TOLERANCE)
