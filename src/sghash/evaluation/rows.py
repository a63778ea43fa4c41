"""Result rows: one JSON object per line, appended as soon as it is measured.

Every row of `evaluate`, of the experiments and of benchmarks that keep rows has the same fields:

| field                             | holds                                                  |
|-----------------------------------|--------------------------------------------------------|
| `key`                             | `key_of` all that determines the values                |
| `settings`                        | what was measured: data, model, length, seed and so on |
| `values`                          | what came out: numbers by name, or lists of numbers    |
| `written`                         | when, in UTC                                           |
| `versions`, `revision`, `machine` | where it comes from                                    |
| `source`                          | the content of the source, as git names it (from 0.2)  |
| `format_version`                  | of this table                                          |

Rows of version 1 had their settings beside the values; they are read as if they had not.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sghash.errors import BadFile, NewerFormat
from sghash.evaluation.provenance import provenance
from sghash.files import storage_errors

_log = logging.getLogger(__name__)
FORMAT_VERSION = 2
_FIELDS = (
    "format_version", "key", "settings", "values", "written", "versions", "revision", "machine",
)  # fmt: skip


def key_of(parts: Any) -> str:
    """SHA-256 of `parts`, which hold all that determines the values of a row except time and code.

    `parts` are what JSON can hold; the order of names does not matter.
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def make_row(key: str, settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a measurement that was just made."""
    return {
        "key": key,
        "settings": dict(settings),
        "values": dict(values),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        **provenance(),
    }


def read_rows(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """All rows of a file; none if it does not exist. A last line without its end is left out."""
    file = Path(path)
    if not file.exists():
        return []
    lines = file.read_bytes().split(b"\n")
    if lines[-1]:
        _log.warning("%s ends in the middle of a row, which is left out", file)
    return [_parse(line, file, number) for number, line in enumerate(lines[:-1], 1) if line.strip()]


def append_row(path: str | os.PathLike[str], row: Mapping[str, Any]) -> None:
    """Add a row, durably; half a row that a crash left at the end is removed first."""
    file = Path(path)
    text = json.dumps({"format_version": FORMAT_VERSION, **row}, sort_keys=True, allow_nan=False)
    with storage_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "ab+") as stream:
            _drop_half_row(stream)
            # One write, so that two processes appending to one file do not mix their rows.
            stream.write(text.encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())


def _drop_half_row(stream: Any) -> None:
    size = stream.seek(0, os.SEEK_END)
    if not size:
        return
    stream.seek(size - 1)
    if stream.read(1) == b"\n":
        return
    stream.seek(0)
    whole = stream.read().rfind(b"\n") + 1
    stream.truncate(whole)
    stream.seek(whole)


def _parse(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadFile(
            f"{path}, line {number}: expected a row as a JSON object, found {line[:40]!r}: "
            "remove the line"
        ) from error
    if not isinstance(row, dict) or not isinstance(row.get("format_version"), int):
        raise BadFile(f"{path}, line {number}: expected a result row, found something else")
    if row["format_version"] > FORMAT_VERSION:
        raise NewerFormat(
            f"{path}, line {number} has format version {row['format_version']}, this sghash "
            f"reads up to {FORMAT_VERSION}: upgrade sghash"
        )
    return _nested(row) if row["format_version"] == 1 and "settings" not in row else row


def _nested(row: dict[str, Any]) -> dict[str, Any]:
    """A row of version 1 with its settings where they are now."""
    settings = {name: value for name, value in row.items() if name not in _FIELDS}
    return {name: row[name] for name in _FIELDS if name in row} | {"settings": settings}
