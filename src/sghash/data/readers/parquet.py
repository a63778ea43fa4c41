"""Parquet: vectors in a column of lists, or one column per dimension, read by row group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from sghash.data.readers.columnar import MAX_WIDTH, ColumnarSource
from sghash.data.readers.parquet_footer import value_counts
from sghash.data.sources import RowSource, bad_file
from sghash.optional import require

MAGIC = b"PAR1"
_GROUP_ROWS = 65536
_BUFFER_BYTES = 1 << 20


def open_source(path: Path, *, key: str | None) -> RowSource:
    """Open the columns `key`; without a key, those that are clear."""
    return ParquetSource(path, key)


class ParquetSource(ColumnarSource):
    """Columns of a Parquet file, decoded a few thousand rows at a time, by row groups."""

    format: ClassVar[str] = "a Parquet file"

    def _open(self) -> Any:
        metadata = (file := self._file()).metadata
        groups = range(metadata.num_row_groups)
        self.limits = np.cumsum([0, *(metadata.row_group(group).num_rows for group in groups)])
        return file.schema_arrow

    def _batches(self, group: int, n_rows: int) -> Iterator[Any]:
        file = self._file()
        self._check_counts(file.metadata)
        groups = list(range(group, file.metadata.num_row_groups))
        yield from file.iter_batches(n_rows, row_groups=groups, columns=list(self.chosen.names))

    def _check_counts(self, metadata: Any) -> int:
        """Numbers in the columns according to the footer; too many for its rows are refused.

        A few compressed bytes can be a row of gigabytes, which would be decoded as a whole.
        """
        wanted = set(self.chosen.names)
        # The file stores the leaves of its columns, one after the other.
        schema = metadata.schema.to_arrow_schema()
        owners = [field.name for field in schema for _ in range(_n_leaves(field.type))]
        if len(owners) != metadata.num_columns:
            found = f"{metadata.num_columns} according to the footer"
            raise self._wrong(0, f"{len(owners)} stored columns", found)
        places = [place for place, owner in enumerate(owners) if owner in wanted]
        try:
            n_values = sum(group[place] for group in value_counts(self.path) for place in places)
        except (ValueError, IndexError) as error:
            raise self._wrong(0, "a footer that counts its columns", str(error)) from error
        if n_values > MAX_WIDTH * max(int(self.limits[-1]), 1):
            found = f"{n_values} in {self.limits[-1]} rows according to the footer"
            raise self._wrong(0, f"at most {MAX_WIDTH} numbers", found)
        return n_values

    def _check(self) -> None:
        """Refuse a footer whose own counts of numbers do not make a table.

        A missing list counts as one number there: rows are read to say which one it is.
        """
        n_values = self._check_counts(self._file().metadata)
        if n_values == self.shape[0] * self.shape[1]:
            return
        for _ in self._decoded(0, 0):
            pass
        expected = f"{self.shape[0] * self.shape[1]} numbers for shape {self.shape}"
        found = f"{n_values} according to the footer"
        raise bad_file(self.path, self.path.stat().st_size, expected=expected, found=found)

    def _file(self) -> Any:
        _check_magic(self.path)
        parquet = require("pyarrow.parquet", extra="parquet")
        # Without a buffer, all of a row group is read before its first row: hundreds of megabytes
        # for every file of a folder that is being read.
        return parquet.ParquetFile(self.path, buffer_size=_BUFFER_BYTES, pre_buffer=False)


def _n_leaves(kind: Any) -> int:
    """Columns that the file stores for one column of a type."""
    types = require("pyarrow", extra="parquet").types
    if types.is_struct(kind):
        return sum(_n_leaves(field.type) for field in kind)
    if types.is_map(kind):
        return _n_leaves(kind.key_type) + _n_leaves(kind.item_type)
    if hasattr(kind, "storage_type"):
        return _n_leaves(kind.storage_type)
    if types.is_nested(kind) and hasattr(kind, "value_type"):
        return _n_leaves(kind.value_type)
    return 1


def _check_magic(path: Path) -> None:
    size = path.stat().st_size
    with open(path, "rb") as stream:
        head = stream.read(4)
        stream.seek(max(size - 4, 0))
        tail = stream.read(4)
    for offset, found in ((0, head), (max(size - 4, 0), tail)):
        if found != MAGIC or size < 12:
            raise bad_file(path, offset, expected=f"the bytes {MAGIC!r}", found=repr(found))


def write(
    stream: BinaryIO,
    blocks: Iterable[NDArray[Any]],
    shape: tuple[int, int],
    dtype: np.dtype[Any],
) -> None:
    """Write one column "vectors" of fixed-size lists, in row groups of 65,536 rows."""
    arrow = require("pyarrow", extra="parquet")
    parquet = require("pyarrow.parquet", extra="parquet")
    kind = arrow.list_(arrow.from_numpy_dtype(dtype), shape[1])
    schema = arrow.schema([arrow.field("vectors", kind, nullable=False)])
    with parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        for block in blocks:
            values = arrow.array(np.ascontiguousarray(block).reshape(-1))
            column = arrow.FixedSizeListArray.from_arrays(values, shape[1])
            table = arrow.table([column], schema=schema)
            writer.write_table(table, row_group_size=_GROUP_ROWS)
