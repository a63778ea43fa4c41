"""What each query found, in few characters of a row: methods are compared query by query."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Under this name rows keep it: value -> text.
KEPT = "by_query"
#: A share of 1 as a byte: tenths and hundredths are kept exactly.
_WHOLE = 200


def pack_shares(shares: NDArray[np.floating[Any]]) -> str:
    """Shares of 0 to 1, one per query, as text; each is off by at most 1/400."""
    levels = np.rint(np.asarray(shares) * _WHOLE).astype(np.uint8)
    return base64.b85encode(zlib.compress(levels.tobytes(), 9)).decode()


def unpack_shares(text: str) -> NDArray[np.float64]:
    """What `pack_shares` kept."""
    levels = np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype=np.uint8)
    return levels / _WHOLE


def shares_of(rows: Sequence[Mapping[str, Any]], value: str) -> NDArray[np.float64] | None:
    """The mean over rows (seeds) of what each query found; None where any row does not tell."""
    texts = [row["values"].get(KEPT, {}).get(value) for row in rows]
    if not texts or any(text is None for text in texts):
        return None
    found = [unpack_shares(text) for text in texts]
    if len({len(shares) for shares in found}) > 1:
        return None
    return np.asarray(np.mean(found, axis=0), dtype=np.float64)
