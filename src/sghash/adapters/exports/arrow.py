"""Codes in Parquet, or in Arrow's own files, with the fingerprint of their model in the schema.

| layout | columns |
|---|---|
| "words" | `id` int64, `w0`, `w1`, ... uint64: what DuckDB and Polars count the bits of |
| "bytes" | `id` int64, `code` fixed-size binary: the code as it is |

The schema's metadata says what readers need: `sghash.n_bits`, `sghash.fingerprint`,
`sghash.layout`, `sghash.format`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sghash.adapters.databases.base import check_fingerprint, refuse_twice
from sghash.adapters.words import from_words, to_words, word_names
from sghash.errors import BadFile, InvalidInput, NewerFormat
from sghash.files import write_atomically
from sghash.optional import require
from sghash.validation import (
    Codes,
    Ids,
    check_choice,
    check_codes,
    check_ids,
    check_n_bits,
    n_bytes_of,
)

LAYOUTS = ("words", "bytes")
FORMAT = 1
#: Endings of Arrow's own files; all others are Parquet.
IPC_ENDINGS = (".arrow", ".feather", ".ipc")


class CodeFile(NamedTuple):
    """What a file of codes says of itself."""

    n_bits: int
    fingerprint: str
    layout: str


class StoredCodes(NamedTuple):
    """Codes (n, n_bytes) uint8 with their ids, and what the file says of them."""

    ids: Ids
    codes: Codes
    about: CodeFile


def to_arrow(
    codes: ArrayLike,
    *,
    n_bits: int,
    fingerprint: str,
    ids: ArrayLike | None = None,
    layout: str = "words",
) -> Any:
    """Return a `pyarrow.Table` of codes; without `ids` they are numbered from 0."""
    arrow = require("pyarrow", extra="parquet")
    rows = check_codes(codes, check_n_bits(n_bits))
    check_choice(layout, LAYOUTS, name="layout")
    numbers = np.arange(len(rows)) if ids is None else check_ids(ids, len(rows))
    refuse_twice(numbers)
    columns = {"id": arrow.array(numbers, type=arrow.int64())}
    if layout == "bytes":
        kind = arrow.binary(rows.shape[1])
        values = arrow.py_buffer(rows.tobytes())
        columns["code"] = arrow.FixedSizeBinaryArray.from_buffers(kind, len(rows), [None, values])
    else:
        words = to_words(rows)
        for number, name in enumerate(word_names(n_bits)):
            columns[name] = arrow.array(words[:, number].copy())
    said = {"format": FORMAT, "n_bits": n_bits, "fingerprint": check_fingerprint(fingerprint),
            "layout": layout}  # fmt: skip
    metadata = {f"sghash.{name}": str(value) for name, value in said.items()}
    return arrow.table(columns).replace_schema_metadata(metadata)


def from_arrow(table: Any) -> StoredCodes:
    """Take codes from a `pyarrow.Table` that `to_arrow` made, or that was read from its file."""
    about = _described(table.schema, "the table")
    try:
        # Lengths and places that a file only claims would lead to memory that is not its own.
        table.validate(full=True)
        table.column_names  # noqa: B018 - a damaged name is no text
    except (require("pyarrow", extra="parquet").ArrowException, UnicodeDecodeError) as error:
        said = str(error).splitlines()[0]
        raise BadFile(f"the table is damaged ({said}): write it with write_codes") from error
    ids = check_ids(_numbers(table, "id", "int64"))
    if about.layout == "words":
        names = word_names(about.n_bits)
        words = np.stack([_numbers(table, name, "uint64") for name in names], axis=1)
        codes = from_words(words, about.n_bits)
        if not np.array_equal(to_words(codes), words):
            raise InvalidInput("the words have bits behind the code: they are of longer codes")
    else:
        width = n_bytes_of(about.n_bits)
        column = _column(table, "code", f"fixed_size_binary[{width}]").to_pylist()
        codes = np.frombuffer(b"".join(column), dtype=np.uint8).reshape(len(column), width)
    return StoredCodes(ids, check_codes(codes, about.n_bits).copy(), about)


def write_codes(
    path: str | os.PathLike[str],
    codes: ArrayLike,
    *,
    n_bits: int,
    fingerprint: str,
    ids: ArrayLike | None = None,
    layout: str = "words",
) -> None:
    """Write codes to `path`: Arrow's file for .arrow, .feather and .ipc, else Parquet.

    A file that is there is replaced by a whole one, or left as it is.
    """
    table = to_arrow(codes, n_bits=n_bits, fingerprint=fingerprint, ids=ids, layout=layout)
    if Path(path).suffix.lower() in IPC_ENDINGS:
        feather = require("pyarrow.feather", extra="parquet")
        write_atomically(path, lambda new: feather.write_feather(table, new, "uncompressed"))
        return
    # Codes are as good as random: neither dictionaries nor compression make them smaller.
    parquet = require("pyarrow.parquet", extra="parquet")
    options = {"compression": "none", "use_dictionary": False}
    write_atomically(path, lambda new: parquet.write_table(table, new, **options))


def read_codes(path: str | os.PathLike[str]) -> StoredCodes:
    """Read what `write_codes` has written, and check it."""
    return from_arrow(_opened(path, whole=True))


def describe_codes(path: str | os.PathLike[str]) -> CodeFile:
    """What a file of codes says of itself, without reading the codes."""
    return _described(_opened(path, whole=False), os.fspath(path))


def _opened(path: str | os.PathLike[str], *, whole: bool) -> Any:
    """The table in a file, or its schema."""
    arrow = require("pyarrow", extra="parquet")
    file = Path(path)
    if not file.is_file():
        raise InvalidInput(f"there is no file {file}")
    try:
        if file.suffix.lower() in IPC_ENDINGS:
            # Not a memory map: a file that shrinks meanwhile would end the process.
            with arrow.OSFile(str(file), "rb") as source:
                reader = arrow.ipc.open_file(source)
                return reader.read_all() if whole else reader.schema
        parquet = require("pyarrow.parquet", extra="parquet")
        return parquet.read_table(str(file)) if whole else parquet.read_schema(str(file))
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise BadFile(f"{file} cannot be read ({str(error).splitlines()[0]})") from error


def _described(schema: Any, where: str) -> CodeFile:
    # What others say may be no text: only our own names are read.
    said = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (schema.metadata or {}).items()
    }
    try:
        version = int(said["sghash.format"])
        about = CodeFile(
            check_n_bits(int(said["sghash.n_bits"])),
            check_fingerprint(said["sghash.fingerprint"]),
            check_choice(said["sghash.layout"], LAYOUTS, name="layout"),
        )
    except (KeyError, ValueError) as error:
        raise BadFile(
            f"{where} does not say whose codes it holds: write it with write_codes"
        ) from (error)
    if version > FORMAT:
        raise NewerFormat(f"{where} was written by a later version of sghash: upgrade sghash")
    return about


def _column(table: Any, name: str, kind: str) -> Any:
    if name not in table.column_names or str(table.schema.field(name).type) != kind:
        found = str(table.schema.field(name).type) if name in table.column_names else "missing"
        raise BadFile(f"column {name!r} is {found}, expected {kind}: write it with write_codes")
    if table[name].null_count:
        raise BadFile(f"column {name!r} has missing values: write it with write_codes")
    return table[name]


def _numbers(table: Any, name: str, kind: str) -> Any:
    return _column(table, name, kind).to_numpy()
