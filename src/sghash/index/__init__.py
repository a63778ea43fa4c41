"""Indexes over packed codes."""

from __future__ import annotations

from sghash.index.hamming import HammingIndex

#: Every index: name -> class. One contract test serves all of them.
INDEXES = {"HammingIndex": HammingIndex}

__all__ = ["INDEXES", "HammingIndex"]
