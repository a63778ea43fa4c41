"""Arrow: tables in a stream, and answers as one.

Only types whose values lie in the body itself are taken: a dictionary, a view, compressed buffers
or columns of nothing let a small body stand for any amount of memory.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.optional import require
from sghash.serve.refusals import Refusal
from sghash.serve.settings import Limits

# Where fields of flatbuffers stand: the header of a message, the compression of a batch.
_HEADER, _COMPRESSION = 2, 3
_ARRAYS = ("queries", "vectors")


def read_table(data: bytes, fields: set[str], vectors: str, limits: Limits) -> dict[str, Any]:
    """Fields of a request from the columns of a table; further columns are metadata."""
    pa = require("pyarrow", extra="parquet")
    try:
        _check_messages(pa, data)
        reader = pa.ipc.open_stream(pa.py_buffer(data))
        _check_columns(pa, reader.schema)
        table = reader.read_all()
        _check_size(table, limits)
        table.validate()  # before sizes are asked for: these are read where the table says
        if table.nbytes > len(data):
            raise Refusal(400, "columns share their bytes: write each for itself", error="BadFile")
        table.validate(full=True)
    except (pa.ArrowException, OSError, struct.error, IndexError, ValueError) as error:
        text = " ".join(str(error).split())[:200]
        raise Refusal(400, f"the body is no stream of Arrow ({text})", error="BadFile") from error
    found: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if name in fields and name in _ARRAYS:
            found[name] = _vectors(pa, name, column)
        elif name in fields and name == "codes":
            found[name] = _codes(pa, name, column)
        elif name in fields and name in ("ids", "keys"):
            found[name] = _values(pa, name, column)
        elif "metadata" in fields and vectors == "vectors":
            metadata[name] = _values(pa, name, column)
        else:
            known = ", ".join(sorted(fields & {*_ARRAYS, "codes", "ids", "keys"}))
            raise Refusal(422, f"there is no column {name[:60]!r} here: known are {known}")
    return found | ({"metadata": metadata} if metadata else {})


def write_table(columns: Mapping[str, Any]) -> bytes:
    """Columns as one stream; arrays of two dimensions become lists."""
    pa = require("pyarrow", extra="parquet")
    table = pa.table({name: _array(pa, column) for name, column in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _array(pa: Any, column: Any) -> Any:
    if not isinstance(column, np.ndarray):
        return pa.array(list(column))
    if column.ndim == 1:
        return pa.array(column)
    if column.dtype == np.uint8:
        return pa.array([row.tobytes() for row in column], pa.binary(column.shape[1]))
    if column.dtype == object:
        return pa.array(column.tolist(), pa.list_(pa.string()))
    flat = pa.array(np.ascontiguousarray(column).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, column.shape[1])


def _check_messages(pa: Any, data: bytes) -> None:
    """Refuse what unfolds to more than the body: compressed buffers and dictionaries."""
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
    for message in reader:
        if message.type == "dictionary":
            raise Refusal(415, "columns with dictionaries are not taken: send plain ones")
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise Refusal(415, "compressed buffers are not taken: write the stream without")


def _is_compressed(metadata: bytes) -> bool:
    """Whether a message is a batch with compressed buffers."""
    message = struct.unpack_from("<I", metadata, 0)[0]
    place = _field(metadata, message, _HEADER)
    if place is None:
        return False
    batch = place + struct.unpack_from("<I", metadata, place)[0]
    return _field(metadata, batch, _COMPRESSION) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer's table stands; None if it is not there."""
    offsets = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, offsets)[0]
    if 4 + 2 * number >= size:
        return None
    offset = struct.unpack_from("<H", data, offsets + 4 + 2 * number)[0]
    return table + offset if offset else None


def _check_columns(pa: Any, schema: Any) -> None:
    """Refuse names that are there twice, and types whose values may take no bytes in the body."""
    seen = set()
    for field in schema:
        if field.name in seen:
            raise Refusal(400, f"the column {field.name[:60]!r} is there twice: name each once")
        seen.add(field.name)
        kind = field.type
        if field.name in _ARRAYS and (_is_list(pa, kind) or _is_fixed(pa, kind)):
            kind = kind.value_type
        types = pa.types
        plain = (
            types.is_integer, types.is_floating, types.is_boolean, types.is_string,
            types.is_large_string, types.is_binary, types.is_fixed_size_binary, types.is_date,
            types.is_timestamp, types.is_time,
        )  # fmt: skip
        is_empty = _is_fixed(pa, field.type) and field.type.list_size == 0
        is_empty |= types.is_fixed_size_binary(kind) and kind.byte_width == 0
        if is_empty or not any(is_of(kind) for is_of in plain):
            raise Refusal(
                415,
                f"the column {field.name[:60]!r} is {str(field.type)[:60]}, which is not taken: "
                "send plain ones",
            )


def _check_size(table: Any, limits: Limits) -> None:
    """Refuse what would be too many objects: a truth value is one bit here, and a word there."""
    rows, values = table.num_rows, table.num_rows * table.num_columns
    if rows > limits.rows:
        raise Refusal(413, f"a table may have {limits.rows} rows, got {rows}: send fewer at a time")
    if values > limits.numbers:
        raise Refusal(
            413, f"a table may have {limits.numbers} values, got {values}: send fewer at a time"
        )


def _is_list(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_fixed(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_list(kind))


def _vectors(pa: Any, name: str, column: Any) -> NDArray[Any]:
    n = len(column)
    is_list = _is_list(pa, column.type)
    if column.null_count or not (is_list or _is_fixed(pa, column.type)):
        raise Refusal(422, f"the column {name!r} must hold a list of numbers in every row")
    flat = column.flatten()
    if flat.null_count or not (pa.types.is_floating(flat.type) or pa.types.is_integer(flat.type)):
        raise Refusal(422, f"the column {name!r} must hold lists of numbers without gaps")
    values = flat.to_numpy(zero_copy_only=False)
    if n == 0:
        return np.empty((0, getattr(column.type, "list_size", 0)), np.float32)
    if is_list and len(set(np.diff(column.offsets.to_numpy()).tolist())) != 1:
        raise Refusal(422, f"the column {name!r} must hold lists of one length")
    return np.asarray(values).reshape(n, len(values) // n)


def _values(pa: Any, name: str, column: Any) -> list[Any]:
    """Values as Python has them; there are days and zones in Arrow that it has not."""
    try:
        values: list[Any] = column.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError, LookupError) as error:
        raise Refusal(
            422, f"the column {name[:60]!r} holds a date or a time zone that cannot be read: "
            "send dates as texts",
        ) from error  # fmt: skip
    return values


def _codes(pa: Any, name: str, column: Any) -> NDArray[np.uint8]:
    is_bytes = pa.types.is_fixed_size_binary(column.type) or pa.types.is_binary(column.type)
    if not is_bytes or column.null_count:
        raise Refusal(422, f"the column {name!r} must hold bytes in every row")
    rows = column.to_pylist()
    if len({len(row) for row in rows}) > 1:
        raise Refusal(422, f"the column {name!r} must hold codes of one length")
    n_bytes = len(rows[0]) if rows else 0
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), n_bytes)
