"""Fixtures that every test may use."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20170806)


@pytest.fixture
def data_folder() -> Path:
    """The folder of real data, or a skip that says what is missing."""
    folder = os.environ.get("SGHASH_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data is not here: set SGHASH_DATA to its folder")
    return Path(folder)


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A folder in memory where the system has one: there a sync takes no time."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)
