"""Servers of small collections."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sghash.serve.settings import Settings

sys.path.insert(0, str(Path(__file__).resolve().parent))

from small_server import make_collection, running


@pytest.fixture
def start(tmp_path):
    """Start a server of collections of the same rows; one, called rows, unless names are given."""
    stack = []

    def start(*names, keep_vectors="float32", decodes=False, **settings):
        made = {
            name: make_collection(tmp_path / name, keep_vectors=keep_vectors, decodes=decodes)
            for name in names or ("rows",)
        }
        if not settings.get("writable"):
            for collection in made.values():
                collection.close()
        manager = running(made, Settings(**settings))
        stack.append(manager)
        return manager.__enter__()

    yield start
    for manager in stack:
        manager.__exit__(None, None, None)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A writable server that tests of a file share; what they add they add under own ids."""
    collection = make_collection(tmp_path_factory.mktemp("served") / "rows", keep_vectors="float32")
    with running({"rows": collection}, Settings(writable=True)) as run:
        yield run
