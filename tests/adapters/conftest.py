from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

FINGERPRINT = "ab" * 32


@pytest.fixture
def fingerprint():
    return FINGERPRINT


_numbers = itertools.count()


@pytest.fixture
def table():
    """A name that no other test uses."""
    return f"own_{next(_numbers)}"


@pytest.fixture(scope="session")
def server():
    """PostgreSQL 18 with pgvector."""
    from servers import running_server

    with running_server() as running:
        yield running


@pytest.fixture(scope="session")
def milvus_file(tmp_path_factory):
    """A file of Milvus Lite, whose engine runs as long as the tests: starting it takes a second."""
    from sghash.adapters.databases.milvus import MilvusIndex

    path = tmp_path_factory.mktemp("milvus") / "codes.db"
    with MilvusIndex.create(path, "first", n_bits=8, fingerprint=FINGERPRINT):
        yield path
