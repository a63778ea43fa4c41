"""What belongs to vectors, one line each: metadata in CSV or JSON lines, ids or keys in text."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sghash.cli import tables
from sghash.cli.columns import BLOCK_ROWS, Column, check_number_of_columns, column_of
from sghash.cli.inputs import data_part, load_named
from sghash.cli.streams import MAX_LINE_BYTES, STDIO, check_readable, spool_stdin
from sghash.data.readers import npy
from sghash.data.readers.text import cells_of, lines_of, refuse_constant
from sghash.errors import BadFile, InvalidInput

Columns = dict[str, Column]

# A whole number as a person writes it: 007 is a text, it would not come back as it was.
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
# Each digit can be read in one way only, so that a long cell takes no longer than its length.
_NUMBER = re.compile(r"-?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)
# The longest number that float64 has, written out without an exponent.
_MAX_DIGITS = 1100
_TRUTH = {"true": True, "false": False}


def read_metadata(text: str, kinds: Mapping[str, str] | None = None) -> Columns:
    """Columns of a `.csv`, `.tsv`, `.jsonl` or Parquet file, of stdin, or of a data set's part.

    A data set has the columns `label` and `text`, where it has such. `kinds` are those that columns
    have already: a CSV says nothing about it, so 12345 is a text where the column holds texts.
    """
    chosen = data_part(text)
    if chosen is not None:
        data = load_named(chosen.name)
        side = "base" if chosen.part == "base" else "query"
        return _of_data_set(text, getattr(data, f"{side}_labels"), getattr(data, f"{side}_texts"))
    path = spool_stdin("stdin") if text == STDIO else Path(text)
    name = "stdin" if text == STDIO else text
    kind = path.suffix.lower() if text != STDIO else _sniffed(path)
    if kind not in (".csv", ".tsv", ".jsonl", ".ndjson", *tables.ENDINGS):
        raise InvalidInput(
            f"{name} has no ending that metadata has: use .csv, .tsv, .jsonl or .parquet"
        )
    check_readable(path, once=kind not in tables.ENDINGS)
    if kind in tables.ENDINGS:
        return _without_empty(tables.read_table(path))
    with open(path, "rb") as stream:
        lines = lines_of(stream, name, MAX_LINE_BYTES)
        if kind in (".jsonl", ".ndjson"):
            columns = _json_lines(lines, name)
        else:
            cells = _csv_cells(lines, name, "\t" if kind == ".tsv" else ",")
            # One at a time, and each as text no longer than needed.
            columns = {head: _typed(cells.pop(head), (kinds or {}).get(head)) for head in [*cells]}
    return _without_empty(columns)


def _without_empty(columns: Columns) -> Columns:
    # A column without any value says nothing, not even what kind it is of.
    return {name: column for name, column in columns.items() if column.n_filled}


def read_ids(text: str, *, as_keys: bool = False) -> list[int] | list[str]:
    """Ids or keys, one per line of a text file or of stdin, or a `.npy` of whole numbers."""
    path = spool_stdin("stdin") if text == STDIO else Path(text)
    name = "stdin" if text == STDIO else text
    check_readable(path, once=True)
    if path.suffix == ".npy":
        return _array_ids(path)
    with open(path, "rb") as stream:
        lines = [line.rstrip("\r\n") for line in lines_of(stream, name, MAX_LINE_BYTES)]
    while lines and not lines[-1]:
        lines.pop()
    return ids_of(lines, name, as_keys=as_keys)


def ids_of(values: Sequence[Any], name: str, *, as_keys: bool) -> list[int] | list[str]:
    """Whole numbers if all of them are, else texts; a gap is refused."""
    for number, value in enumerate(values, start=1):
        if value is None or value == "":
            raise InvalidInput(f"{name}, row {number}: there is no id, every row needs one")
    if as_keys:
        return [str(value) for value in values]
    if all(type(v) is int or (isinstance(v, str) and _WHOLE.fullmatch(v)) for v in values):
        return [int(value) for value in values]
    if any(isinstance(value, (bool, float)) for value in values):
        raise InvalidInput(f"{name} holds ids that are neither whole numbers nor text")
    return [str(value) for value in values]


def _array_ids(path: Path) -> list[int]:
    try:
        array = npy.read_array(path)
    except BadFile as error:
        reason = str(error).removeprefix(f"{path}, ")
        raise BadFile(f"{path} is not a .npy of whole numbers ({reason})") from error
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise BadFile(f"{path} must hold one dimension of whole numbers to be ids")
    return array.tolist()  # type: ignore[no-any-return]


def _sniffed(path: Path) -> str:
    with open(path, "rb") as stream:
        return ".jsonl" if stream.read(1024).lstrip().startswith(b"{") else ".csv"


def _csv_cells(lines: Iterator[str], name: str, delimiter: str) -> Columns:
    """Columns of text; an empty cell is a gap."""
    reader = cells_of(lines, delimiter, MAX_LINE_BYTES)
    n = 0
    try:
        heads = [head.strip() for head in next(reader, [])]
        if not heads or len(set(heads)) != len(heads):
            raise BadFile(f"{name}, line 1: expected a name for each column, each once")
        check_number_of_columns(len(heads), f"{name}, line 1")
        columns = {head: Column() for head in heads}
        rows = _csv_rows(reader, name, len(heads))
        while block := list(islice(rows, BLOCK_ROWS)):
            for column, cells in zip(columns.values(), zip(*block, strict=True), strict=True):
                column.put(n // BLOCK_ROWS, {k: cell for k, cell in enumerate(cells) if cell})
            n += len(block)
    except csv.Error as error:
        raise BadFile(f"{name}, line {reader.line_num}: {error}") from error
    return {head: column.end(n) for head, column in columns.items()}


def _csv_rows(reader: Any, name: str, width: int) -> Iterator[list[str]]:
    for row in filter(None, reader):
        if len(row) != width:
            raise BadFile(f"{name}, line {reader.line_num}: {len(row)} values for {width} columns")
        yield row


def _typed(cells: Column, kind: str | None) -> Column:
    """The values of a CSV column: the narrowest kind that holds all of them."""
    for holds, convert in (
        (_WHOLE.fullmatch, int),
        (_is_number, float),
        (lambda cell: cell.lower() in _TRUTH, lambda cell: _TRUTH[cell.lower()]),
    ):
        if kind != "text" and all(all(map(holds, filter(None, block))) for block in cells.blocks()):
            return cells.converted(convert)
    return cells


def _is_number(cell: str) -> bool:
    if len(cell) > _MAX_DIGITS or not _NUMBER.fullmatch(cell):
        return False
    # Digits that float64 would drop, or an article number with leading zeros, are text.
    whole = bool(_WHOLE.fullmatch(cell)) or not cell.lstrip("-").isdigit()
    return whole and math.isfinite(float(cell))


def _json_lines(lines: Iterator[str], name: str) -> Columns:
    columns: Columns = {}
    n = 0
    records = (
        _record(line, f"{name}, line {k}") for k, line in enumerate(lines, 1) if line.strip()
    )
    while block := list(islice(records, BLOCK_ROWS)):
        found: dict[str, dict[int, Any]] = {}
        for offset, record in enumerate(block):
            for column, value in record.items():
                found.setdefault(column, {})[offset] = value
        for column, values in found.items():
            columns.setdefault(column, Column()).put(n // BLOCK_ROWS, values)
        n += len(block)
        check_number_of_columns(len(columns), f"{name}, the first {n} records")
    return {column: values.end(n) for column, values in columns.items()}


def _record(line: str, place: str) -> dict[str, Any]:
    try:
        record = json.loads(line, parse_constant=refuse_constant)
        if "\\u" in line:
            # Half of a pair of code units can be written in JSON, and is no text.
            json.dumps(record, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{place}: not JSON ({error})") from error
    if not isinstance(record, dict):
        raise BadFile(f'{place}: expected an object as in {{"year": 2000}}')
    check_number_of_columns(len(record), place)
    return {
        name: _plain(value, name, place) for name, value in record.items() if not _vector(value)
    }


def _vector(value: Any) -> bool:
    """Whether a list is a vector, which is no metadata."""
    numbers = isinstance(value, list) and all(type(item) in (int, float) for item in value)
    return numbers and any(type(item) is float for item in value)


def _plain(value: Any, column: str, place: str) -> Any:
    """A plain value as it is, a list of such as JSON text."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        is_plain = isinstance(item, (str, int, float, bool, type(None)))
        if not is_plain or (isinstance(item, float) and not math.isfinite(item)):
            raise BadFile(f"{place}: {column!r} must be a plain, finite value, or a list of such")
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _of_data_set(name: str, labels: Any, texts: Any) -> Columns:
    columns: Columns = {}
    if labels is not None:
        columns["label"] = column_of(np.asarray(labels).tolist())
    if texts is not None:
        columns["text"] = column_of(map(str, texts))
    if not columns:
        raise InvalidInput(f"{name} has neither labels nor texts: leave out --metadata")
    return columns
