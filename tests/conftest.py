"""Fixtures that every test may use."""

from __future__ import annotations

import os
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
