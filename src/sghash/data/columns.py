"""Columns that stand beside the vectors of a file: keys and metadata, read by ranges of rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sghash.data.readers.columnar import arrow, damage
from sghash.data.sources import bad_file
from sghash.errors import InvalidDtype, InvalidInput
from sghash.files import check_plain_file
from sghash.optional import require

_BATCH_ROWS = 65536
_TEXTS = (
    "is_string", "is_large_string", "is_date", "is_timestamp", "is_time", "is_decimal", "is_list",
    "is_large_list",
)  # fmt: skip


class ParquetColumns:
    """Some columns of a Parquet file; `kinds` are "bool", "int", "float" or "text" by name."""

    def __init__(self, path: str | os.PathLike[str], names: Sequence[str]) -> None:
        self.path, self.names = Path(path), list(dict.fromkeys(names))
        if self.path.suffix != ".parquet":
            raise InvalidInput(
                f"{path} is no Parquet file: keys and metadata can be named there only; add these "
                "vectors with Collection.add, which takes keys and metadata as they are"
            )
        check_plain_file(self.path)
        try:
            schema = self._file().schema_arrow
        except damage() as error:
            raise self._bad(error) from error
        for name in self.names:
            if schema.get_field_index(name) < 0:
                raise InvalidInput(
                    f"{path} has no column {name!r}, or has it twice: its columns are "
                    f"{', '.join(map(repr, schema.names))}"
                )
        self.kinds: Mapping[str, str] = {
            name: self._kind(name, schema.field(name).type) for name in self.names
        }

    def read(self, start: int, stop: int) -> dict[str, Any]:
        """Values of rows `start` to `stop` - 1 by name: an array, or a list where some are None."""
        try:
            table = self._table(start, stop)
            return {name: self._values(table.column(name)) for name in self.names}
        except damage() as error:
            raise self._bad(error) from error

    def _table(self, start: int, stop: int) -> Any:
        """The rows that are wanted, out of the row groups that hold them."""
        file = self._file()
        counts = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
        limits = np.cumsum([0, *counts])
        first, last = np.searchsorted(limits, [start, stop - 1], side="right") - 1
        groups, at = list(range(int(first), int(last) + 1)), int(limits[first])
        kept = []
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=self.names):
            low, high = max(start - at, 0), min(stop - at, len(batch))
            if low < high:
                kept.append(batch.slice(low, high - low))
            at += len(batch)
        table = arrow().Table.from_batches(kept)
        if len(table) != stop - start:
            expected = f"{stop - start} rows from row {start} on"
            raise bad_file(self.path, 4, expected=expected, found=f"{len(table)} rows")
        return table

    def _values(self, column: Any) -> Any:
        types, kind = arrow().types, column.type
        if types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        elif types.is_timestamp(kind) and kind.unit == "ns":
            # Python's times are of microseconds: what is finer is refused, not cut off.
            column = column.cast(arrow().timestamp("us", kind.tz))
        plain = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
        if plain and not column.null_count:
            return column.to_numpy()
        return column.to_pylist()

    def _kind(self, name: str, kind: Any) -> str:
        types = arrow().types
        if types.is_dictionary(kind):
            kind = kind.value_type
        if types.is_boolean(kind):
            return "bool"
        if types.is_integer(kind):
            return "int"
        if types.is_floating(kind):
            return "float"
        if any(getattr(types, test)(kind) for test in _TEXTS):
            return "text"
        raise InvalidDtype(
            f"the column {name!r} of {self.path} holds {kind}: keys are text, metadata whole "
            "numbers, numbers, truth values, text or times"
        )

    def _file(self) -> Any:
        parquet = require("pyarrow.parquet", extra="parquet")
        return parquet.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False)

    def _bad(self, error: BaseException) -> Exception:
        reason = " ".join(str(error).split())
        return bad_file(self.path, 4, expected="columns of a Parquet file", found=reason)
