"""Damaged collections with right checksums are told, harmless, or true to themselves."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.stress import fuzz_collections


def check(counts, n):
    assert sum(counts.values()) == n
    outcomes = Counter()
    for (_, outcome), count in counts.items():
        outcomes[outcome] += count
    assert outcomes["told"] > n / 2 and outcomes["harmless"] > n / 100
    assert outcomes["true to itself"] > n / 1000
    assert {kind for kind, _ in counts} == set(fuzz_collections.DAMAGES)
    # What the manifest names, it knows to the byte: only the log can be true to itself.
    assert {kind for kind, outcome in counts if outcome == "true to itself"} <= {"log"}


def test_some_damages():
    check(fuzz_collections.run(seed=0, n=200), 200)


@pytest.mark.slow
def test_twenty_thousand_damages():
    counts = fuzz_collections.run(seed=1, n=20_000)
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:10s} {outcome:15s} {count:8d}")
    check(counts, 20_000)


def test_the_fuzzer_notices_what_it_shall(monkeypatch):
    """With the checks of identity gone, rows of another collection are taken, and that is seen."""
    from sghash.collection.storage import segments

    monkeypatch.setattr(segments, "check_identity", lambda *arguments: None)
    with pytest.raises(AssertionError, match="rows are others"):
        fuzz_collections.run(seed=0, n=1000)
