"""Indexes over codes: one contract, several ways to look."""

from __future__ import annotations

from sghash.index.base import CodeIndex
from sghash.index.hamming import HammingIndex
from sghash.index.tables import TableIndex

#: Every index: kind -> class. One contract test serves all of them.
INDEXES: dict[str, type[CodeIndex]] = {index.kind: index for index in (HammingIndex, TableIndex)}

__all__ = ["INDEXES", "CodeIndex", "HammingIndex", "TableIndex"]
