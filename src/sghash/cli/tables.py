"""Metadata of a Parquet, Arrow or Feather file: every column but those of the vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sghash.cli.columns import BLOCK_ROWS, Column, check_number_of_columns
from sghash.collection.storage.plain_values import plain
from sghash.data.choosing import LEAST_NUMBERED, is_coordinate
from sghash.data.readers.columnar import column_of
from sghash.errors import BadFile, SghashError
from sghash.optional import require

ENDINGS = (".parquet", ".feather", ".arrow", ".ipc")


def read_table(path: Path) -> dict[str, Column]:
    """Columns by name, block by block; dates become texts in ISO 8601, lists become JSON."""
    dataset = require("pyarrow.dataset", extra="parquet")
    kind = "parquet" if path.suffix.lower() == ".parquet" else "ipc"
    arrow = require("pyarrow", extra="parquet")
    try:
        table = dataset.dataset(str(path), format=kind)
        known = [column_of(field) for field in table.schema]
        vectors = {field.name for field in table.schema if _holds_vectors(field.type)}
        names = [c.name for c in known if c.name not in vectors and not is_coordinate(c, known)]
        check_number_of_columns(len(names), str(path))
        return _filled(path, table.to_batches(columns=names, batch_size=BLOCK_ROWS), names)
    except SghashError:
        raise
    except (arrow.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise BadFile(f"{path} cannot be read as {kind} ({reason}): write it again") from error


def _holds_vectors(kind: Any) -> bool:
    """Whether lists in a column are vectors: of floats, or all of one length that is not short."""
    types = require("pyarrow", extra="parquet").types
    if types.is_fixed_size_list(kind):
        return bool(types.is_floating(kind.value_type) or kind.list_size >= LEAST_NUMBERED)
    is_list = types.is_list(kind) or types.is_large_list(kind)
    return bool(is_list and types.is_floating(kind.value_type))


def _stored(path: Path, name: str, value: Any) -> Any:
    found = plain(name, value)
    if found is not None and type(found) not in (bool, int, float, str):
        raise BadFile(
            f"{path}: column {name!r} holds {type(found).__name__}, which no metadata can be: "
            "leave it out, or write it as text"
        )
    return found


def _filled(path: Path, batches: Any, names: list[str]) -> dict[str, Column]:
    columns = {name: Column() for name in names}
    waiting: dict[str, list[Any]] = {name: [] for name in names}
    n = 0
    for batch in batches:
        # Lengths and places that a file only claims would lead to memory that is not its own.
        batch.validate(full=True)
        for name in names:
            waiting[name] += [_stored(path, name, v) for v in batch.column(name).to_pylist()]
        n_waiting = len(batch) + n % BLOCK_ROWS
        n += len(batch)
        for start in range(0, n_waiting - BLOCK_ROWS + 1, BLOCK_ROWS):
            block = (n - n_waiting + start) // BLOCK_ROWS
            for name, values in waiting.items():
                columns[name].put(block, dict(enumerate(values[:BLOCK_ROWS])))
                del values[:BLOCK_ROWS]
    for name, values in waiting.items():
        if values:
            columns[name].put(n // BLOCK_ROWS, dict(enumerate(values)))
    return {name: column.end(n) for name, column in columns.items()}
