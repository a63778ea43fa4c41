"""How many values a Parquet file says its columns hold, read from its footer.

pyarrow answers that too, but where the footer of a damaged file lies about a column, its answer
ends the process (26.0). A footer is one structure of Thrift's compact protocol, at the end of the
file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

# Where fields stand in the structures of the format.
_ROW_GROUPS, _COLUMNS, _COLUMN, _NUM_VALUES = 4, 1, 3, 5
# Types of the compact protocol.
_TRUE, _FALSE, _BYTE, _DOUBLE = 1, 2, 3, 7
_BINARY, _LIST, _SET, _MAP, _STRUCT = 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
_DEEPEST = 64


def value_counts(path: Path) -> list[list[int]]:
    """For each group of rows, the number of values in each stored column.

    Raises
    ------
    ValueError
        The footer is no such structure.
    """
    with open(path, "rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(size - 8, 0))
        length = struct.unpack("<I", stream.read(8)[:4].ljust(4, b"\0"))[0]
        if not 0 < length <= size - 12:
            raise ValueError(f"a footer of {length} bytes in a file of {size}")
        stream.seek(size - 8 - length)
        footer = _Footer(stream.read(length))
    try:
        return footer.counts()
    except IndexError as error:
        raise ValueError("the footer ends early") from error


class _Footer:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def counts(self) -> list[list[int]]:
        for field, kind in self.fields():
            if field == _ROW_GROUPS and kind == _LIST:
                return [self.group() for _ in range(self.n_structures())]
            self.skip(kind)
        return []

    def group(self) -> list[int]:
        found: list[int] = []
        for field, kind in self.fields():
            if field == _COLUMNS and kind == _LIST:
                found = [self.chunk() for _ in range(self.n_structures())]
            else:
                self.skip(kind)
        return found

    def chunk(self) -> int:
        found = 0
        for field, kind in self.fields():
            if field == _COLUMN and kind == _STRUCT:
                found = self.column()
            else:
                self.skip(kind)
        return found

    def column(self) -> int:
        found = 0
        for field, kind in self.fields():
            if field == _NUM_VALUES and kind in _INTEGERS:
                number = self.varint()
                found = (number >> 1) ^ -(number & 1)
            else:
                self.skip(kind)
        return found

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field; who asks reads or skips its value."""
        field = 0
        while head := self.byte():
            if head >> 4:
                field += head >> 4
            else:
                number = self.varint()
                field = (number >> 1) ^ -(number & 1)
            yield field, head & 15

    def n_structures(self) -> int:
        n, kind = self.list_head()
        if n and kind != _STRUCT:
            raise ValueError(f"a list of type {kind} in the footer, expected structures")
        return n

    def list_head(self) -> tuple[int, int]:
        head = self.byte()
        n = head >> 4
        return (self.varint() if n == 15 else n), head & 15

    def byte(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number in the footer has more than 64 bits")

    def skip(self, kind: int, depth: int = 0, *, inside: bool = False) -> None:
        """Pass over a value; truth values have a byte of their own only inside lists and maps."""
        if depth > _DEEPEST:
            raise ValueError("the footer is nested too deeply")
        if kind in (_TRUE, _FALSE):
            self.at += inside
        elif kind == _BYTE:
            self.at += 1
        elif kind in _INTEGERS:
            self.varint()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            n = self.varint()
            self.at += n
        elif kind in (_LIST, _SET):
            n, of = self.list_head()
            self.skip_all(n, (of,), depth)
        elif kind == _MAP:
            if n := self.varint():
                types = self.byte()
                self.skip_all(n, (types >> 4, types & 15), depth)
        elif kind == _STRUCT:
            for _, of in self.fields():
                self.skip(of, depth + 1)
        else:
            raise ValueError(f"type {kind} in the footer, which there is not")

    def skip_all(self, n: int, kinds: tuple[int, ...], depth: int) -> None:
        # Every value takes a byte at least.
        if n > len(self.data) - self.at:
            raise ValueError(f"{n} values in {len(self.data) - self.at} bytes of the footer")
        for _ in range(n):
            for kind in kinds:
                self.skip(kind, depth + 1, inside=True)
