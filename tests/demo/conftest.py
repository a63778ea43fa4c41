"""One demonstration for all tests that look at it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from sghash.demo.page import write_page
from sghash.demo.sets import load_set
from sghash.demo.story import tell


class Told(NamedTuple):
    story: object
    folder: object
    said: list
    hint: str


@pytest.fixture(scope="session")
def told(tmp_path_factory):
    """The demonstration on the digits, with its report; a fifth of the steps shows as much."""
    folder = tmp_path_factory.mktemp("a demo") / "out"
    said: list = []
    material = load_set("digits")
    material = replace(material, set=replace(material.set, n_steps=300))
    story = tell(material, folder, seed=0, say=said.append)
    hint = write_page(story, folder / "report.html", next_steps=["sghash info"])
    return Told(story, folder, said, hint)
