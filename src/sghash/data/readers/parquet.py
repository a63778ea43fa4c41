"""Parquet: vectors in a column of lists, all of one length, read by row group."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sghash.data.sources import BLOCK_BYTES, RowSource, bad_file
from sghash.errors import InvalidInput
from sghash.optional import require

MAGIC = b"PAR1"
MAX_WIDTH = 1 << 22
_BATCH_ROWS = 4096
_GROUP_ROWS = 65536


def open_source(path: Path, *, key: str | None) -> RowSource:
    """Open the column `key`; without a key, the only column of lists of numbers."""
    return ParquetSource(path, key)


class ParquetSource(RowSource):
    """A column of lists, decoded a few thousand rows at a time, in order.

    Going back starts again at the beginning of the row group.
    """

    def __init__(self, path: Path, key: str | None) -> None:
        self.path = path
        self._forget()
        try:
            file = self._file()
            self.key, self.dtype = self._column(file.schema_arrow, key)
            counts = [
                file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)
            ]
            self.limits = np.cumsum([0, *counts])
            self._n_values = self._count_values(file.metadata)
            self.shape = (int(self.limits[-1]), self._width())
            self._check_footer()
        except _damage() as error:
            raise self._bad(error) from error

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._blocks: Iterator[NDArray[Any]] | None = None
        self._left: NDArray[Any] | None = None
        self._position = 0

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        with self._lock:
            try:
                return self._take(start, stop)
            except _damage() as error:
                raise self._bad(error) from error

    def _take(self, start: int, stop: int) -> NDArray[Any]:
        group = int(np.searchsorted(self.limits, start, side="right")) - 1
        if self._blocks is None or not self.limits[group] <= self._position <= start:
            self._blocks = self._decoded(group, int(self.limits[group]))
            self._left, self._position = None, int(self.limits[group])
        parts: list[NDArray[Any]] = []
        while self._position < stop:
            block = self._left if self._left is not None else next(self._blocks, None)
            if block is None:
                self._blocks = None
                expected = f"{self.shape[0]} rows, as the footer says"
                raise bad_file(self.path, 4, expected=expected, found=f"{self._position} rows")
            skip, take = max(start - self._position, 0), min(stop - self._position, len(block))
            if skip < take:
                parts.append(block[skip:take])
            self._position += take
            self._left = block[take:] if take < len(block) else None
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _decoded(self, group: int, row: int) -> Iterator[NDArray[Any]]:
        """Blocks (m, d) of the row groups from `group` on; `row` counts for messages."""
        file = self._file()
        groups = range(group, file.metadata.num_row_groups)
        n_rows = min(_BATCH_ROWS, max(1, BLOCK_BYTES // (self.shape[1] * self.dtype.itemsize)))
        for batch in file.iter_batches(n_rows, row_groups=list(groups), columns=[self.key]):
            yield self._table(batch.column(0), row)
            row += len(batch)

    def _table(self, column: Any, row: int) -> NDArray[Any]:
        arrow = require("pyarrow", extra="parquet")
        width, n = self.shape[1], len(column)
        values = column.flatten()
        if column.null_count or values.null_count:
            raise self._wrong(row, "no missing values", "a null")
        if arrow.types.is_fixed_size_list(column.type):
            lengths = np.full(n, column.type.list_size)
        else:
            lengths = np.diff(column.offsets.to_numpy())
        if (lengths != width).any():
            at = int(np.flatnonzero(lengths != width)[0])
            raise self._wrong(row + at, f"{width} numbers", f"{lengths[at]}")
        return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(n, width)

    def _width(self) -> int:
        arrow = require("pyarrow", extra="parquet")
        kind = self._file().schema_arrow.field(self.key).type
        if arrow.types.is_fixed_size_list(kind):
            return self._checked_width(kind.list_size)
        batches = self._file().iter_batches(1, columns=[self.key])
        first = next(batches, None)
        if first is None or not len(first) or first.column(0).null_count:
            raise self._wrong(0, "a first row that is a list", "none")
        return self._checked_width(len(first.column(0).flatten()))

    def _checked_width(self, width: int) -> int:
        if width < 1 or not self.limits[-1]:
            found = f"{self.limits[-1]} rows of width {width}"
            raise self._wrong(0, "at least one row of at least one number", found)
        return width

    def _count_values(self, metadata: Any) -> int:
        """Numbers in the column according to the footer; too many for its rows are refused.

        A few compressed bytes can be a row of gigabytes, which would be decoded as a whole.
        """
        n_values = 0
        for g in range(metadata.num_row_groups):
            group = metadata.row_group(g)
            for column in map(group.column, range(group.num_columns)):
                if column.path_in_schema.startswith(f"{self.key}."):
                    n_values += column.num_values
        if n_values > MAX_WIDTH * max(int(self.limits[-1]), 1):
            found = f"{n_values} in {self.limits[-1]} rows according to the footer"
            raise self._wrong(0, f"at most {MAX_WIDTH} numbers", found)
        return n_values

    def _check_footer(self) -> None:
        """Refuse a footer whose own counts of numbers do not make a table."""
        if self._n_values != self.shape[0] * self.shape[1]:
            expected = f"{self.shape[0] * self.shape[1]} numbers for shape {self.shape}"
            found = f"{self._n_values} according to the footer"
            raise bad_file(self.path, self.path.stat().st_size, expected=expected, found=found)

    def _column(self, schema: Any, key: str | None) -> tuple[str, np.dtype[Any]]:
        arrow = require("pyarrow", extra="parquet")
        found = {}
        for field in schema:
            kind = field.type
            is_list = arrow.types.is_list(kind) or arrow.types.is_large_list(kind)
            if (is_list or arrow.types.is_fixed_size_list(kind)) and (
                arrow.types.is_integer(kind.value_type) or arrow.types.is_floating(kind.value_type)
            ):
                found[field.name] = np.dtype(kind.value_type.to_pandas_dtype())
        if key is None and len(found) == 1:
            key = next(iter(found))
        if key is None or key not in found:
            listed = ", ".join(sorted(found)) or "none"
            asked = "no single column" if key is None else f"no column {key!r}"
            raise InvalidInput(
                f"{self.path} has {asked} of lists of numbers, it has {listed}: give one as key"
            )
        return key, found[key]

    def _file(self) -> Any:
        _check_magic(self.path)
        return require("pyarrow.parquet", extra="parquet").ParquetFile(self.path)

    def _wrong(self, row: int, expected: str, found: str) -> Exception:
        return bad_file(
            self.path, 4, expected=f"{expected} in row {row} of {self.key!r}", found=found
        )

    def _bad(self, error: BaseException) -> Exception:
        self._blocks = self._left = None
        reason = " ".join(str(error).split())
        return bad_file(self.path, 4, expected="a Parquet file", found=f"damage ({reason})")


def _damage() -> tuple[type[BaseException], ...]:
    arrow = require("pyarrow", extra="parquet")
    return (arrow.ArrowException, OSError, KeyError, IndexError, UnicodeDecodeError, OverflowError)


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
