"""Rows in PostgreSQL's binary format of COPY, whole arrays at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.adapters.databases.base import Found
from sghash.errors import StorageError
from sghash.validation import Codes, Ids, n_bytes_of

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_UNREADABLE = (
    "the server sent rows that are not an id and a code each: look whether the table is as create "
    "made it"
)


def rows_to_copy(
    ids: Ids, lists: Ids, codes: Codes, n_bits: int, halves: NDArray[np.float16] | None = None
) -> bytes:
    """Rows (id bigint, list_id integer, code bit(n_bits)) for COPY ... (FORMAT binary).

    `halves` (n, d) come behind, as pgvector's halfvec(d).
    """
    fields: list[Any] = [
        ("fields", ">i2"),
        ("id_size", ">i4"), ("id", ">i8"),
        ("list_size", ">i4"), ("list", ">i4"),
        ("code_size", ">i4"), ("n_bits", ">i4"), ("code", "u1", (codes.shape[1],)),
    ]  # fmt: skip
    if halves is not None:
        fields += [("vector_size", ">i4"), ("width", ">i2"), ("unused", ">i2"),
                   ("vector", ">f2", (halves.shape[1],))]  # fmt: skip
    rows = np.zeros(len(ids), dtype=fields)
    rows["fields"], rows["id_size"], rows["list_size"] = 3 + (halves is not None), 8, 4
    rows["code_size"], rows["n_bits"] = 4 + codes.shape[1], n_bits
    rows["id"], rows["list"], rows["code"] = ids, lists, codes
    if halves is not None:
        rows["vector_size"], rows["width"] = 4 + 2 * halves.shape[1], halves.shape[1]
        rows["vector"] = halves
    return _HEADER + rows.tobytes() + _TRAILER


def copied_out(query: str) -> str:
    """The statement that sends what a query gives in this format."""
    return f"COPY ({query}) TO STDOUT (FORMAT binary)"


def rows_of_copy(data: bytes, n_bits: int) -> Found:
    """Ids and codes of what a query of `id, code` sent."""
    code = [("code_size", ">i4"), ("n_bits", ">i4"), ("code", "u1", (n_bytes_of(n_bits),))]
    rows = _rows_of(data, code)
    if not ((rows["fields"] == 2) & (rows["n_bits"] == n_bits)).all():
        raise StorageError(_UNREADABLE)
    return Found(rows["id"].astype(np.int64), np.ascontiguousarray(rows["code"]))


def ids_of_copy(data: bytes) -> Ids:
    """Ids of what a query of `id` sent."""
    rows = _rows_of(data, [])
    if not (rows["fields"] == 1).all():
        raise StorageError(_UNREADABLE)
    return rows["id"].astype(np.int64)


def _rows_of(data: bytes, behind: list[Any]) -> NDArray[Any]:
    """Rows of an id and what stands behind it."""
    kind = np.dtype([("fields", ">i2"), ("id_size", ">i4"), ("id", ">i8"), *behind])
    body = data[len(_HEADER) : -len(_TRAILER)]
    if not data.startswith(_HEADER) or not data.endswith(_TRAILER) or len(body) % kind.itemsize:
        raise StorageError(_UNREADABLE)
    rows = np.frombuffer(body, dtype=kind)
    if not (rows["id_size"] == 8).all():
        raise StorageError(_UNREADABLE)
    return rows
