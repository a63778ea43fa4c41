"""What workers do with tables of Arrow: a table comes, a table goes, nothing is kept but mappings.

These are the functions for engines that move Arrow: `DataFrame.mapInArrow` of Spark,
`Dataset.map_batches` of Ray.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.adapters.clusters.blocks import missing_here
from sghash.collection import Collection, ShardedCollection, encode_part
from sghash.collection.jobs.tasks import refuse_version
from sghash.collection.storage.folders import resolved
from sghash.errors import InvalidInput
from sghash.optional import require
from sghash.validation import Vectors, check_k

#: Columns of what `encode_tasks` takes and gives.
TASK, SEGMENT = "task", "segment"


def encode_tasks(table: Any) -> Any:
    """Tasks in JSON, in a column "task", to segments in JSON, in a column "segment"."""
    arrow = require("pyarrow", extra="parquet")
    lines = table.column(TASK).to_pylist()
    return arrow.table({SEGMENT: arrow.array([encode_part(x).to_json() for x in lines], "string")})


class Encoder:
    """A table with a column of vectors to the same with their codes, as bytes."""

    def __init__(self, model: Any, *, vectors: str, codes: str) -> None:
        from sghash import __version__

        model.fingerprint_  # noqa: B018 - raises NotFitted
        self.model, self.vectors, self.codes, self.version = model, vectors, codes, __version__

    def encoded(self, table: Any) -> Any:
        """The table with the column of codes."""
        refuse_version(self.version)
        arrow = require("pyarrow", extra="parquet")
        rows = vectors_of(table, self.vectors, width=self.model.n_features_in_)
        n_bytes = self.model.code_columns
        codes = self.model.encode(rows) if len(rows) else np.empty((0, n_bytes), dtype=np.uint8)
        data = arrow.py_buffer(np.ascontiguousarray(codes))
        kind = arrow.binary(n_bytes)
        fixed = arrow.FixedSizeBinaryArray.from_buffers(kind, len(rows), [None, data])
        return table.append_column(self.codes, fixed.cast("binary"))


class Searcher:
    """A table with a column of queries to the same with ids and distances, k of each."""

    def __init__(
        self,
        shards: Any,
        k: int,
        *,
        vectors: str,
        allow_partial: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        from sghash import __version__

        self.folders, self.k = tuple(folders_of(shards)), check_k(k)
        self.vectors, self.options = vectors, {"threads": 1, **(options or {})}
        self.version, self.allow_partial = __version__, allow_partial
        # Refuses what is missing, before any worker starts.
        self.width = self._shards().moment.state.manifest.width

    def answered(self, table: Any) -> Any:
        """The table with the columns of ids and distances."""
        refuse_version(self.version)
        arrow = require("pyarrow", extra="parquet")
        rows, opened = vectors_of(table, self.vectors, width=self.width), self._shards()
        opened.refresh()
        found = opened.search(rows, self.k, **self.options)
        offsets = arrow.array(np.arange(len(rows) + 1, dtype=np.int32) * self.k)
        # Spark needs one type, whatever the last stage measures: small integers are exact in it.
        distances = np.asarray(found.distances, dtype=np.float32)
        for name, values in (("ids", found.ids), ("distances", distances)):
            numbers = arrow.array(np.ascontiguousarray(values).reshape(-1))
            table = table.append_column(name, arrow.ListArray.from_arrays(offsets, numbers))
        return table

    def _shards(self) -> Collection | ShardedCollection:
        missing = missing_here(self.folders) if self.allow_partial else {}
        return _opened(self.folders, tuple(missing))


@lru_cache(maxsize=16)
def _opened(folders: tuple[str, ...], missing: tuple[str, ...]) -> Collection | ShardedCollection:
    """The shards, mapped once by each process; those that are `missing` may be."""
    if len(folders) == 1:
        return Collection.open(folders[0])
    return ShardedCollection.open(folders, allow_partial=bool(missing))


def folders_of(shards: Any) -> list[str]:
    """Folders of shards, as workers are told of them."""
    if isinstance(shards, ShardedCollection):
        return [str(folder) for folder in shards.folders]
    several = isinstance(shards, Sequence) and not isinstance(shards, str)
    folders = []
    for shard in shards if several else [shards]:
        if isinstance(shard, Collection):
            folders.append(str(shard.folder))
        elif isinstance(shard, (str, os.PathLike)):
            folders.append(str(resolved(shard)))
        else:
            raise InvalidInput(f"a shard is a collection or its path, got {type(shard).__name__}")
    if not folders or len(set(folders)) != len(folders):
        raise InvalidInput("give at least one shard, and each only once")
    return folders


def vectors_of(table: Any, name: str, *, width: int) -> Vectors:
    """A column of lists of numbers as (n, width) float32; gaps and other lengths are refused."""
    if name not in table.column_names:
        raise InvalidInput(
            f"there is no column {name!r}: name the one that holds vectors among "
            f"{', '.join(map(repr, table.column_names))}"
        )
    column = table.column(name).combine_chunks()
    if not len(column):
        return np.empty((0, width), dtype=np.float32)
    values, lengths = _flat(column, name)
    if (lengths != width).any():
        at = int(np.argmax(lengths != width))
        raise InvalidInput(
            f"row {at} of the column {name!r} has {lengths[at]} numbers, not {width}: use vectors "
            "of the same kind"
        )
    return np.asarray(values, dtype=np.float32).reshape(len(column), width)


def _flat(column: Any, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """All numbers of a column of lists, and how many each row has."""
    types = require("pyarrow", extra="parquet").types
    kind = column.type
    fixed = types.is_fixed_size_list(kind)
    if not (fixed or types.is_list(kind) or types.is_large_list(kind)):
        raise InvalidInput(f"the column {name!r} holds {kind}: vectors are lists of numbers")
    values = column.flatten()
    if column.null_count or values.null_count:
        raise InvalidInput(f"the column {name!r} has gaps: leave out rows without a vector")
    if fixed:
        return values.to_numpy(zero_copy_only=False), np.full(len(column), kind.list_size)
    return values.to_numpy(zero_copy_only=False), np.diff(column.offsets.to_numpy())
