"""Indexes over codes: one contract, several ways to look."""

from __future__ import annotations

import os

from sghash.index.base import CodeIndex
from sghash.index.file import stored_kind
from sghash.index.hamming import HammingIndex
from sghash.index.lists.partitioned import PartitionedIndex
from sghash.index.multi import MultiIndex
from sghash.index.tables import TableIndex

#: Every index: kind -> class. One contract test serves all of them.
INDEXES: dict[str, type[CodeIndex]] = {
    index.kind: index for index in (HammingIndex, TableIndex, PartitionedIndex, MultiIndex)
}


def load_index(path: str | os.PathLike[str], *, mmap: bool = False) -> CodeIndex:
    """Read an index of any kind from `path`, and check it; `mmap` is that of `CodeIndex.load`."""
    return INDEXES[stored_kind(path)].load(path, mmap=mmap)


__all__ = [
    "INDEXES",
    "CodeIndex",
    "HammingIndex",
    "MultiIndex",
    "PartitionedIndex",
    "TableIndex",
    "load_index",
]
