"""What a model can do beyond `fit` and `encode`, declared by its class and asked for in one way."""

from __future__ import annotations

from typing import NamedTuple


class Capabilities(NamedTuple):
    """What callers may use of a model.

    `codes` are "bits" (compared by Hamming distance), "bytes" (compared through query tables) or
    "numbers" (decoded and compared as vectors).
    """

    codes: str = "bits"
    #: `decode` turns codes into vectors.
    decodes: bool = False
    #: `query_tables` and `code_layout` score real queries against codes.
    tables: bool = False
    #: `encode` takes `sweeps`.
    sharpens: bool = False
    #: `partial_fit` goes on learning.
    online: bool = False
    #: `fit` learns from labels or pairs.
    supervised: bool = False
