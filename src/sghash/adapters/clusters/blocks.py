"""What workers of any engine do: stateless functions of plain values.

Every function here runs in a process that has sghash and sees the files it is told of; engines
differ in how they hand out the values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.collection import Collection
from sghash.collection.jobs.tasks import Source, refuse_version
from sghash.collection.shards.asking import Share, Wanted, share_of
from sghash.collection.storage.folders import why_missing
from sghash.data import open_vectors, parts_of
from sghash.errors import MissingData
from sghash.validation import Codes, Vectors, check_vectors


class FileBlock:
    """Rows `start` to `stop` - 1 of a file, to be read by a worker."""

    def __init__(self, file: str, key: str | None, start: int, stop: int) -> None:
        self.file, self.key, self.start, self.stop = file, key, start, stop

    def __len__(self) -> int:
        return self.stop - self.start


def file_blocks(source: Source, key: str | None, n_rows: int) -> list[FileBlock]:
    """Files by ranges of at most `n_rows` rows, in their order."""
    blocks = []
    for part in parts_of(source, key=key):
        n, place = part.source.shape[0], os.path.abspath(part.path)
        blocks += [FileBlock(place, key, s, min(s + n_rows, n)) for s in range(0, n, n_rows)]
    return blocks


def rows_of_file(block: FileBlock, rows: NDArray[np.int64]) -> Vectors:
    """Some rows of a block, rising, as float32; read in runs, a few thousand rows at a time."""
    source = open_vectors(block.file, key=block.key)
    if source.shape[0] < block.stop:
        raise MissingData(f"{block.file} is shorter than it was: look for who changed it")
    found = [np.empty((0, source.shape[1]), dtype=np.float32)]
    step = 4096
    for start in range(block.start, block.stop, step):
        stop = min(start + step, block.stop)
        low, high = np.searchsorted(rows, [start - block.start, stop - block.start])
        if low < high:
            read = source.read(start, stop)[rows[low:high] + block.start - start]
            found.append(check_vectors(read))
    return np.concatenate(found)


def rows_of_array(block: Any, rows: NDArray[np.int64]) -> Vectors:
    """Some rows of a block in memory: a table, or a list of vectors."""
    return check_vectors(_array(block)[rows])


def _array(block: Any) -> NDArray[Any]:
    # Partitions of a bag may be iterators.
    return np.asarray(list(block) if isinstance(block, Iterator) else block)


def encode_block(block: Any, model: Any, version: str) -> Codes:
    """Codes of a block of vectors, by the model that came along."""
    refuse_version(version)
    array = _array(block)
    if not array.size:
        return np.empty((0, model.code_columns), dtype=np.uint8)
    codes: Codes = model.encode(check_vectors(array, width=model.n_features_in_))
    return codes


def missing_here(folders: Sequence[str]) -> dict[str, str]:
    """Folders of shards that this worker does not find, with the reason where there is one."""
    found = {folder: why_missing(Path(folder)) for folder in folders}
    return {folder: why for folder, why in found.items() if why is not None}


@lru_cache(maxsize=64)
def _opened(folder: str) -> Collection:
    return Collection.open(folder)


def _shard(folder: str, version: str) -> Collection | None:
    """A shard as it is now; None where this worker does not find it.

    It stays mapped between two calls, and every call sees what its writer has done since.
    """
    refuse_version(version)
    if missing_here([folder]):
        _opened.cache_clear()
        return None
    collection = _opened(folder)
    collection.refresh()
    return collection


def shard_kinds(folder: str, version: str) -> dict[str, str] | None:
    """The kinds of a shard's columns; None where this worker does not find it."""
    collection = _shard(folder, version)
    return None if collection is None else dict(collection.moment.state.kinds)


def shard_share(
    folder: str, queries: Vectors, wanted: Wanted, version: str, threads: int | None
) -> Share | None:
    """What the shard in `folder` says now; None where this worker does not find it."""
    collection = _shard(folder, version)
    if collection is None:
        return None
    return share_of(folder, collection.moment, queries, wanted, threads=threads)
