"""A short run of the damaged index files; `fuzz_index.py` runs longer ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def load_fuzz():
    path = Path(__file__).with_name("fuzz_index.py")
    spec = importlib.util.spec_from_file_location("fuzz_index", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_damaged_files_are_refused_or_consistent():
    counts = load_fuzz().run(seed=1, n=300)
    assert counts["refused"] + counts["consistent"] == 600
    # Both must happen often, or nothing was tested.
    assert counts["refused"] > 300 and counts["consistent"] > 50
