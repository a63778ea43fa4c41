"""Threads are started for however few scores: what they share must be right at any size."""

from __future__ import annotations

import pytest

from sghash.kernels.tables import best_rows


@pytest.fixture(autouse=True)
def threads_that_always_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_rows, "WORTH_A_THREAD", 1)
