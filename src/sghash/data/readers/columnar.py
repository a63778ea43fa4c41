"""Tables of Arrow's kind: vectors in a column of lists or in one column per dimension.

`ColumnarSource` reads record batches in order, a few thousand rows at a time; going back starts
again at the beginning of a group of rows, whose limits the file format knows.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sghash.data.choosing import Chosen, Column, choose
from sghash.data.sources import BLOCK_BYTES, NoRows, RowSource, bad_file
from sghash.optional import require

MAX_WIDTH = 1 << 22
_BATCH_ROWS = 4096


def arrow() -> Any:
    """The package pyarrow."""
    return require("pyarrow", extra="parquet")


class ColumnarSource(RowSource):
    """Abstract: vectors in the columns of a file; `format` is what messages call the file."""

    format: ClassVar[str]
    path: Path
    limits: NDArray[np.int64]

    def __init__(self, path: Path, key: str | None) -> None:
        self.path = path
        self._forget()
        try:
            schema = self._open()
            self.chosen = choose(path, [column_of(field) for field in schema], key)
            self.columns = self.chosen.names
            self.dtype = self._stored_type(schema)
            self.shape = (int(self.limits[-1]), self._width(schema))
            self._check()
        except damage() as error:
            raise self._bad(error) from error

    @abstractmethod
    def _open(self) -> Any:
        """Set `limits`, the rows at which groups begin, and return the schema."""

    @abstractmethod
    def _batches(self, group: int, n_rows: int) -> Iterator[Any]:
        """Record batches of the chosen columns, from a group on."""

    def _check(self) -> None:
        """Refuse what the format itself says, and cannot be."""

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
            except damage() as error:
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
        if self._position == self.shape[0]:
            self._blocks = None  # with it goes what it has read: a folder has many files
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _decoded(self, group: int, row: int) -> Iterator[NDArray[Any]]:
        """Blocks (m, d) of the groups from `group` on; `row` counts for messages."""
        n_rows = min(_BATCH_ROWS, max(1, BLOCK_BYTES // (self.shape[1] * self.dtype.itemsize)))
        for batch in self._batches(group, n_rows):
            for first in range(0, len(batch), n_rows):
                part = batch.slice(first, n_rows)
                if self.chosen.is_list:
                    yield self._of_lists(part.column(self.chosen.names[0]), row)
                else:
                    yield self._of_columns(part, row)
                row += len(part)

    def _of_lists(self, column: Any, row: int) -> NDArray[Any]:
        width, n = self.shape[1], len(column)
        if column.null_count:
            raise self._null(column, row, column.type)
        values = column.flatten()
        if arrow().types.is_fixed_size_list(column.type):
            lengths = np.full(n, column.type.list_size)
        else:
            lengths = np.diff(column.offsets.to_numpy())
        if (lengths != width).any():
            at = int(np.flatnonzero(lengths != width)[0])
            raise self._wrong(row + at, f"{width} numbers", f"{lengths[at]}")
        if values.null_count:
            at = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            raise self._wrong(row + at // width, "no missing values", f"a null at {at % width}")
        return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(n, width)

    def _of_columns(self, batch: Any, row: int) -> NDArray[Any]:
        rows = np.empty((len(batch), self.shape[1]), dtype=self.dtype)
        for place, name in enumerate(self.chosen.names):
            column = batch.column(name)
            if column.null_count:
                raise self._null(column, row, name)
            rows[:, place] = column.to_numpy(zero_copy_only=False)
        return rows

    def _null(self, column: Any, row: int, where: Any) -> Exception:
        at = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        return self._wrong(row + at, "no missing values", f"a null ({where})")

    def _stored_type(self, schema: Any) -> np.dtype[Any]:
        kinds = [schema.field(name).type for name in self.chosen.names]
        found = [kind.value_type if self.chosen.is_list else kind for kind in kinds]
        return np.result_type(*{np.dtype(kind.to_pandas_dtype()) for kind in found})

    def _width(self, schema: Any) -> int:
        if not self.chosen.is_list:
            return self._checked_width(len(self.chosen.names))
        kind = schema.field(self.chosen.names[0]).type
        if arrow().types.is_fixed_size_list(kind):
            return self._checked_width(kind.list_size)
        first = next((batch for batch in self._batches(0, 1) if len(batch)), None)
        if first is None:
            return self._checked_width(0)
        column = first.slice(0, 1).column(self.chosen.names[0])
        if column.null_count:
            raise self._wrong(0, "a first row that is a list", "a null")
        return self._checked_width(len(column.flatten()))

    def _checked_width(self, width: int) -> int:
        if not 1 <= width <= MAX_WIDTH or not self.limits[-1]:
            found = f"{self.limits[-1]} rows of width {width}"
            error = self._wrong(0, "at least one row of at least one number", found)
            raise error if self.limits[-1] else NoRows(str(error))
        return width

    def _wrong(self, row: int, expected: str, found: str) -> Exception:
        what = ", ".join(map(repr, self.chosen.names[:3]))
        return bad_file(self.path, 4, expected=f"{expected} in row {row} of {what}", found=found)

    def _bad(self, error: BaseException) -> Exception:
        self._blocks = self._left = None
        reason = " ".join(str(error).split())
        return bad_file(self.path, 4, expected=self.format, found=f"damage ({reason})")


def damage() -> tuple[type[BaseException], ...]:
    """What pyarrow raises about a damaged file."""
    kinds = (OSError, KeyError, IndexError, UnicodeDecodeError, OverflowError)
    return (arrow().ArrowException, *kinds)


def column_of(field: Any) -> Column:
    """Name and kind of a column of Arrow's."""
    types, kind = arrow().types, field.type
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if is_list and (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)):
        return Column(field.name, "list")
    if types.is_floating(kind):
        return Column(field.name, "float")
    return Column(field.name, "int" if types.is_integer(kind) else "other")


__all__ = ["MAX_WIDTH", "Chosen", "ColumnarSource", "arrow", "column_of", "damage"]
