"""Fixtures that every test may use."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# A time limit on one example judges the machine, not the code: the first call of anything compiles,
# and other tests run beside it.
settings.register_profile(
    "sghash", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("sghash")


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


#: What Chromium is called.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, or a skip that says what is missing."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no browser driver: pip install playwright"
    )
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium: install it, or name it in the environment variable CHROMIUM")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        yield chromium
        chromium.close()
