"""A short run of the damaged index files; `fuzz_index.py` runs longer ones."""

from __future__ import annotations

import pytest

from tests.stress import fuzz_index

NAMES = ("hamming 1", "hamming 2", "tables 2")


def check(counts, n):
    assert sum(counts.values()) == 2 * n
    for name in NAMES:
        both = counts[name, "refused"] + counts[name, "consistent"]
        # Each must happen often for every kind, or nothing was tested.
        assert counts[name, "refused"] > both / 2 and counts[name, "consistent"] > both / 20


def test_damaged_files_are_refused_or_consistent():
    check(fuzz_index.run(seed=1, n=400), 400)


@pytest.mark.slow
def test_twenty_thousand_damaged_files():
    check(fuzz_index.run(seed=2, n=20_000), 20_000)


def test_the_fuzzer_notices_what_it_shall(monkeypatch):
    """With the checks of ids gone, ids that fall are taken, and that is seen."""
    from sghash.index import file

    monkeypatch.setattr(file, "_check_ids", lambda *arguments: None)
    with pytest.raises(AssertionError):
        fuzz_index.run(seed=1, n=2000)
