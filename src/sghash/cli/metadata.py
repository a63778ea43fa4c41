"""What belongs to vectors, one line each: metadata in CSV or JSON lines, ids or keys in text."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sghash.cli.inputs import data_part, load_named
from sghash.cli.streams import STDIO, lines_of, refuse_constant, spool_stdin
from sghash.errors import BadFile, InvalidInput

Columns = dict[str, list[Any]]

# A whole number as a person writes it: 007 is a text, it would not come back as it was.
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_TRUTH = {"true": True, "false": False}


def read_metadata(text: str, kinds: Mapping[str, str] | None = None) -> Columns:
    """Columns of a `.csv`, `.tsv` or `.jsonl` file, of stdin, or of a data set's part.

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
    if kind not in (".csv", ".tsv", ".jsonl"):
        raise InvalidInput(f"{name} has no ending that metadata has: use .csv, .tsv or .jsonl")
    with open(path, "rb") as stream:
        lines = lines_of(stream, name)
        if kind == ".jsonl":
            columns = _json_lines(lines, name)
        else:
            cells = _csv_cells(lines, name, "\t" if kind == ".tsv" else ",")
            columns = {head: _typed(c, (kinds or {}).get(head)) for head, c in cells.items()}
    # A column without any value says nothing, not even what kind it is of.
    return {column: v for column, v in columns.items() if any(item is not None for item in v)}


def read_ids(text: str, *, as_keys: bool = False) -> list[int] | list[str]:
    """Ids or keys, one per line of a text file or of stdin, or a `.npy` of whole numbers."""
    path = spool_stdin("stdin") if text == STDIO else Path(text)
    name = "stdin" if text == STDIO else text
    if path.suffix == ".npy":
        return _array_ids(path)
    with open(path, "rb") as stream:
        lines = [line.rstrip("\r\n") for line in lines_of(stream, name)]
    while lines and not lines[-1]:
        lines.pop()
    return ids_of(lines, name, as_keys=as_keys)


def ids_of(values: list[Any], name: str, *, as_keys: bool) -> list[int] | list[str]:
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
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise BadFile(f"{path} is not a .npy of whole numbers: {error}") from error
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        raise BadFile(f"{path} must hold one dimension of whole numbers to be ids")
    return array.tolist()  # type: ignore[no-any-return]


def _sniffed(path: Path) -> str:
    with open(path, "rb") as stream:
        return ".jsonl" if stream.read(1024).lstrip().startswith(b"{") else ".csv"


def _csv_cells(lines: Iterator[str], name: str, delimiter: str) -> dict[str, list[str]]:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        heads = [head.strip() for head in next(reader, [])]
        if not heads or len(set(heads)) != len(heads):
            raise BadFile(f"{name}, line 1: expected a name for each column, each once")
        cells: list[list[str]] = [[] for _ in heads]
        for row in filter(None, reader):
            if len(row) != len(heads):
                raise BadFile(
                    f"{name}, line {reader.line_num}: {len(row)} values for {len(heads)} columns"
                )
            for column, cell in zip(cells, row, strict=True):
                column.append(cell)
    except csv.Error as error:
        raise BadFile(f"{name}, line {reader.line_num}: {error}") from error
    return dict(zip(heads, cells, strict=True))


def _typed(cells: list[str], kind: str | None) -> list[Any]:
    """The values of a CSV column: the narrowest kind that holds all of them; empty is a gap."""
    filled = [cell for cell in cells if cell]
    if kind == "text":
        convert: Any = str
    elif all(_WHOLE.fullmatch(cell) for cell in filled):
        convert = int
    elif all(_is_number(cell) for cell in filled):
        convert = float
    elif all(cell.lower() in _TRUTH for cell in filled):
        convert = lambda cell: _TRUTH[cell.lower()]  # noqa: E731
    else:
        convert = str
    return [convert(cell) if cell else None for cell in cells]


def _is_number(cell: str) -> bool:
    if not _NUMBER.fullmatch(cell):
        return False
    # Digits that float64 would drop, or an article number with leading zeros, are text.
    whole = bool(_WHOLE.fullmatch(cell)) or not cell.lstrip("-").isdigit()
    return whole and math.isfinite(float(cell))


def _json_lines(lines: Iterator[str], name: str) -> Columns:
    columns: Columns = {}
    n = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            raise BadFile(f"{name}, line {number}: not JSON ({error})") from error
        if not isinstance(record, dict):
            raise BadFile(f'{name}, line {number}: expected an object as in {{"year": 2000}}')
        for column, value in record.items():
            plain = isinstance(value, (str, int, float, bool, type(None)))
            if not plain or (isinstance(value, float) and not math.isfinite(value)):
                raise BadFile(f"{name}, line {number}: {column!r} must be a plain, finite value")
            # A column may begin late: the rows before have gaps.
            columns.setdefault(column, [None] * n).append(value)
        n += 1
        for values in columns.values():
            if len(values) < n:
                values.append(None)
    return columns


def _of_data_set(name: str, labels: Any, texts: Any) -> Columns:
    columns: Columns = {}
    if labels is not None:
        columns["label"] = np.asarray(labels).tolist()
    if texts is not None:
        columns["text"] = [str(text) for text in texts]
    if not columns:
        raise InvalidInput(f"{name} has neither labels nor texts: leave out --metadata")
    return columns
