"""Vectors as text: CSV with or without a header, lines of numbers, JSON lines.

    .csv .tsv      cells; a first line that is not all numbers names the columns
    .txt           numbers with blanks or commas between them, or JSON, a vector per line
    .jsonl .ndjson a list per line, or an object that holds one

Text is read once, when it is opened, into a temporary file of float32, which is gone with the
source; a source that travels to another process reads the text again there.
"""

from __future__ import annotations

import csv
import json
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.data.choosing import Chosen, Column, choose
from sghash.data.sources import NoRows, RowSource
from sghash.errors import BadFile
from sghash.files import storage_errors

# A vector of a hundred thousand numbers with all their digits; as objects they take far more.
MAX_LINE_BYTES = 1 << 21
_EXPECTED = "numbers as in 0.1 0.2 or [0.1, 0.2]"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


class Row(NamedTuple):
    """A vector, the line it stands in, and the columns it was taken from, where they have names."""

    line: int
    numbers: Any
    columns: tuple[str, ...] = ()


def open_source(path: Path, *, key: str | None) -> RowSource:
    """Read text; `key` is the field, the column or the pattern of columns that holds vectors."""
    return TextSource(path, key)


class TextSource(RowSource):
    """Vectors of a text file, (n, d) float32."""

    def __init__(self, path: Path, key: str | None) -> None:
        self.path, self.key = path, key
        self.dtype = np.dtype(np.float32)
        self._parse()

    def _parse(self) -> None:
        self._lock = threading.Lock()
        self._copy = tempfile.TemporaryFile(prefix="sghash-")  # noqa: SIM115 - until `__del__`
        n = width = 0
        with storage_errors(tempfile.gettempdir()), open(self.path, "rb") as stream:
            for line, numbers, names in _rows(stream, self.path, self.key):
                row = _as_floats(self.path, line, numbers)
                if n and len(row) != width:
                    found = f"{len(row)} numbers, {width} before: expected as many"
                    raise _wrong(self.path, line, found)
                if not len(row):
                    raise _wrong(self.path, line, f"expected {_EXPECTED}, found none")
                self._copy.write(row.tobytes())
                n, width, self.columns = n + 1, len(row), names
        if not n:
            size = self.path.stat().st_size
            what = "empty lines only" if size else "an empty file"
            error = _wrong(self.path, 1, f"expected one vector per line, found {what}")
            # A file of no bytes is more often one that was never written.
            raise NoRows(str(error)) if size else error
        self._copy.flush()
        self.shape = (n, width)

    def __del__(self) -> None:
        if "_copy" in self.__dict__:
            self._copy.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "key": self.key, "dtype": self.dtype}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._parse()

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        width = self.shape[1]
        with self._lock:
            self._copy.seek(4 * start * width)
            content = self._copy.read(4 * (stop - start) * width)
        values = np.frombuffer(content, dtype=np.float32)
        return values.reshape(stop - start, width).copy()


def lines_of(stream: BinaryIO, name: str | Path, most: int) -> Iterator[str]:
    """Lines of UTF-8 text with their ends; anything else is refused with its line number."""
    number = 0
    while line := stream.readline(most + 1):
        number += 1
        if len(line) > most:
            raise BadFile(f"{name}, line {number}: longer than {most} bytes, expected text")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise BadFile(f"{name}, line {number}: expected UTF-8 text, found {error}") from error


def numbers_of(line: str, number: int, name: str | Path = "stdin") -> list[float]:
    """The numbers of a line: a JSON list, or numbers with blanks or commas between them."""
    text = line.strip()
    try:
        if text.startswith("["):
            return _list_of(json.loads(text, parse_constant=refuse_constant))
        return [float(part) for part in text.replace(",", " ").split()]
    except (ValueError, OverflowError, RecursionError) as error:
        raise _wrong(name, number, f"expected {_EXPECTED}, found {text[:40]!r}") from error


def refuse_constant(name: str) -> float:
    """NaN and Infinity are no JSON, though Python reads them."""
    raise ValueError(f"{name} is no JSON")


def _list_of(values: Any) -> list[float]:
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        raise ValueError("not a list of numbers")
    return [float(value) for value in values]


def _rows(stream: BinaryIO, path: Path, key: str | None) -> Iterable[Row]:
    lines = _text_lines(stream, path)
    delimiter = _DELIMITERS.get(path.suffix.lower())
    if delimiter is not None:
        return _cells(lines, path, key, delimiter)
    return _plain(lines, path, key)


def _text_lines(stream: BinaryIO, path: Path) -> Iterator[str]:
    for number, line in enumerate(lines_of(stream, path, MAX_LINE_BYTES), start=1):
        if "\0" in line:
            raise _wrong(path, number, "expected text, found a zero byte")
        yield line


def _plain(lines: Iterator[str], path: Path, key: str | None) -> Iterator[Row]:
    """One vector per line, as numbers or as JSON."""
    chosen: Chosen | None = None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        if not text.startswith("{"):
            yield Row(number, numbers_of(text, number, path))
            continue
        record = _record(path, number, text)
        if chosen is None:
            columns = [Column(name, _kind_of(value)) for name, value in record.items()]
            if key is None and all(column.kind != "list" for column in columns):
                raise _wrong(path, number, f"expected {_EXPECTED}, found {text[:40]!r}")
            chosen = choose(path, columns, key)
        yield Row(number, _of_record(path, number, record, chosen), chosen.names)


def _record(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _wrong(path, number, f"expected {_EXPECTED}, found no JSON ({error})") from error
    return record


def _of_record(path: Path, number: int, record: dict[str, Any], chosen: Chosen) -> Any:
    try:
        if chosen.is_list:
            return _list_of(record[chosen.names[0]])
        return _list_of([record[name] for name in chosen.names])
    except (ValueError, KeyError, OverflowError) as error:
        names = ", ".join(chosen.names[:3])
        raise _wrong(path, number, f"expected numbers in {names}, found none") from error


def _kind_of(value: Any) -> str:
    if isinstance(value, list):
        numbers = bool(value) and all(type(item) in (int, float) for item in value)
        return "list" if numbers else "other"
    return {float: "float", int: "int"}.get(type(value), "other")


def cells_of(lines: Iterator[str], delimiter: str, most: int = MAX_LINE_BYTES) -> Any:
    """A `csv.reader` of lines whose cells may be as long as a line, which has `most` bytes."""
    # The limit is one for the process: it is only ever raised.
    if csv.field_size_limit() < most:
        csv.field_size_limit(most)
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _cells(lines: Iterator[str], path: Path, key: str | None, delimiter: str) -> Iterator[Row]:
    """Rows of a table of cells; a first row that is not all numbers holds the names."""
    first = next(lines, "")
    if delimiter == "," and "," not in first and ";" in first:
        delimiter = ";"
    reader = cells_of(_again(first, lines), delimiter)
    header: list[str] | None = None
    places: list[int] | None = None
    names: tuple[str, ...] = ()
    is_list = False
    try:
        for cells in filter(None, reader):
            if header is None and places is None and _names_columns(cells):
                header = [cell.strip() for cell in cells]
                continue
            if places is None:
                places, is_list = _chosen_places(path, header, cells, key)
                width = len(cells)
                names = () if header is None else tuple(header[place] for place in places)
            if len(cells) != width:
                found = f"{len(cells)} cells, {width} before: expected as many"
                raise _wrong(path, reader.line_num, found)
            numbers: Any = [cells[place] for place in places]
            if is_list:
                numbers = numbers_of(numbers[0], reader.line_num, path)
            yield Row(reader.line_num, numbers, names)
    except csv.Error as error:
        raise _wrong(path, reader.line_num, f"expected cells, found {error}") from error


def _names_columns(cells: list[str]) -> bool:
    is_list = any(cell.strip().startswith("[") for cell in cells)
    return not is_list and not all(map(_is_number, cells))


def _again(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines


def _chosen_places(
    path: Path, header: list[str] | None, cells: list[str], key: str | None
) -> tuple[list[int], bool]:
    """Which cells of a row are the vector, and whether it is one cell that holds a list."""
    names = [str(place) for place in range(len(cells))] if header is None else header
    if len(names) != len(cells) or len(set(names)) != len(names):
        found = f"{len(names)} names for {len(cells)} cells, or one twice"
        raise _wrong(path, 1, f"expected a name for each column, found {found}")
    kinds = ["list" if c.strip().startswith("[") else _kind_of_cell(c) for c in cells]
    chosen = choose(path, [Column(*pair) for pair in zip(names, kinds, strict=True)], key)
    return [names.index(name) for name in chosen.names], chosen.is_list


def _kind_of_cell(cell: str) -> str:
    # A column of fractions may hold a whole number in its first row: only its name tells an id.
    return "float" if _is_number(cell) else "other"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _as_floats(path: Path, line: int, numbers: Any) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # what overflows is refused as infinite, as in a file
            return np.asarray(numbers, dtype=np.float64).astype(np.float32)
    except ValueError as error:
        raise _wrong(path, line, f"expected {_EXPECTED}, found {str(error)[-40:]}") from error


def _wrong(name: Path | str, line: int, reason: str) -> BadFile:
    return BadFile(f"{name}, line {line}: {reason}")
