"""Damaged model folders are refused in a sentence, or hold a model that works."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "fuzz_models", Path(__file__).with_name("fuzz_models.py")
)
assert _spec is not None and _spec.loader is not None
fuzz_models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fuzz_models)


def test_a_few_hundred_damaged_folders():
    counts = fuzz_models.run(seed=7, n=300)
    assert sum(counts.values()) == 300
    # A fuzzer that refuses or spares everything tests nothing.
    assert counts["refused"] > 150 and counts["used"] > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_many_damaged_folders(seed):
    assert sum(fuzz_models.run(seed=seed, n=5000).values()) == 5000
