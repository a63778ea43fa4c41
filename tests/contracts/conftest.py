from __future__ import annotations

import pytest

from sghash.kernels.tables import best_rows
from sghash.models.quantizers import generative
from sghash.models.shared.blockwise import BLOCK_ROWS


@pytest.fixture(scope="module")
def quick_quantizer():
    """Blocks as small as those of the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generative, "BLOCK_ROWS", BLOCK_ROWS // 8)
        yield


@pytest.fixture(scope="module", autouse=True)
def threads_that_always_pay():
    """Threads share even the few rows of a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_rows, "WORTH_A_THREAD", 1)
        yield
