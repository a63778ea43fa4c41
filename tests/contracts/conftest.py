from __future__ import annotations

import pytest

from sghash.models.quantizers import generative
from sghash.models.shared.blockwise import BLOCK_ROWS


@pytest.fixture(scope="module")
def quick_quantizer():
    """Blocks as small as those of the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generative, "BLOCK_ROWS", BLOCK_ROWS // 8)
        yield
