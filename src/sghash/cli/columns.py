"""Columns of metadata while they are read: about as small in memory as they are in the file.

A value as a Python object takes ten times the bytes that it has in a file. So only the rows of one
block are objects; the blocks before lie here as JSON, and long gaps take nothing at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, overload

import numpy as np

from sghash.errors import BadFile

BLOCK_ROWS = 1024
#: More columns than anybody describes things by; each takes space for every row in a collection.
MAX_COLUMNS = 1024


class Column(Sequence[Any]):
    """Values of n rows, None where there is none; filled block by block."""

    def __init__(self) -> None:
        self._n = 0
        self._blocks: dict[int, bytes] = {}
        self._n_filled = 0
        self._kinds: set[type] = set()

    def put(self, block: int, values: Mapping[int, Any]) -> None:
        """Set values of rows `block` * BLOCK_ROWS + offset, by offset."""
        present = {offset: value for offset, value in values.items() if value is not None}
        if not present:
            return
        self._n_filled += len(present)
        self._kinds.update(map(type, present.values()))
        # Where most rows have a value, a list is shorter than their numbers.
        is_dense = 8 * len(present) > max(present)
        form: Any = [*map(present.get, range(max(present) + 1))] if is_dense else present
        self._blocks[block] = _packed(form)

    def end(self, n: int) -> Column:
        """Say how many rows there are; returns the column."""
        self._n = n
        return self

    @property
    def n_filled(self) -> int:
        """Rows that have a value."""
        return self._n_filled

    def blocks(self) -> Iterator[list[Any]]:
        """All values in order, as lists of at most BLOCK_ROWS."""
        for first in range(0, self._n, BLOCK_ROWS):
            yield self._block(first // BLOCK_ROWS)

    def _block(self, block: int) -> list[Any]:
        n_rows = min(BLOCK_ROWS, self._n - block * BLOCK_ROWS)
        found = json.loads(self._blocks.get(block, b"{}"))
        if isinstance(found, list):
            return found + [None] * (n_rows - len(found))
        return [found.get(str(offset)) for offset in range(n_rows)] if found else [None] * n_rows

    def converted(self, convert: Callable[[Any], Any]) -> Column:
        """The same column with `convert` of every value."""
        return column_of(
            None if v is None else convert(v) for values in self.blocks() for v in values
        )

    def for_storage(self) -> Any:
        """An array where there are numbers of one kind and no gaps, else the column itself."""
        kind = next(iter(self._kinds), str)
        if self._n_filled < self._n or len(self._kinds) > 1 or kind is str:
            return self
        try:
            return np.concatenate([np.asarray(values, dtype=kind) for values in self.blocks()])
        except OverflowError:
            return self

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[Any]:
        for values in self.blocks():
            yield from values

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Column: ...

    def __getitem__(self, place: int | slice) -> Any:
        if not isinstance(place, slice):
            block, offset = divmod(range(self._n)[place], BLOCK_ROWS)
            return self._block(block)[offset]
        if place.indices(self._n) == (0, self._n, 1):
            return self
        return column_of(islice(self, *place.indices(self._n)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, Column)) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Column({list(self)!r})"


def column_of(values: Iterable[Any]) -> Column:
    """A column of the values of all rows."""
    column, rest, n = Column(), iter(values), 0
    while block := list(islice(rest, BLOCK_ROWS)):
        column.put(n // BLOCK_ROWS, dict(enumerate(block)))
        n += len(block)
    return column.end(n)


def _packed(values: Any) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def check_number_of_columns(n: int, place: str) -> None:
    """Refuse more columns than a collection can be meant to have."""
    if n > MAX_COLUMNS:
        raise BadFile(
            f"{place}: {n} columns, and at most {MAX_COLUMNS} are read: leave some out, or put "
            "what few rows have into one column of text"
        )
