"""Many strings as two arrays, so that they can be mapped; and finding a key among them.

The arrays may come from a damaged file: they are checked where they are used, before anything is
read or allocated by what they say. Nothing here makes objects or indices of all bytes at once, so
that long columns of text cost little more memory than their own bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import BadFile, InvalidInput

# Rows and bytes that are made into Python objects at a time.
_ROWS = 1 << 13
_BYTES = 1 << 20


class Texts(NamedTuple):
    """String i is `blob[offsets[i] : offsets[i + 1]]` in UTF-8; offsets (n + 1,) int64 from 0."""

    offsets: NDArray[np.int64]
    blob: NDArray[np.uint8]

    def __len__(self) -> int:
        return max(0, self.offsets.size - 1)

    def at(self, row: int) -> str:
        """One string."""
        self._check_types()
        self._check_rows(row, row)
        start, stop = int(self.offsets[row]), int(self.offsets[row + 1])
        if not 0 <= start <= stop <= len(self.blob):
            raise _damaged("where they begin and end does not fit their bytes")
        try:
            return self.blob[start:stop].tobytes().decode()
        except UnicodeDecodeError as error:
            raise _damaged(f"row {row} is not UTF-8") from error

    def lengths(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes of the strings of these rows."""
        self._check_types()
        if len(rows):
            self._check_rows(int(rows.min()), int(rows.max()))
        found: NDArray[np.int64] = self.offsets[rows + 1] - self.offsets[rows]
        return found

    def take(self, rows: NDArray[np.int64]) -> Texts:
        """Return the strings of these rows, in that order; all rows as they are is no copy."""
        old = self.check()
        if len(rows):
            self._check_rows(int(rows.min()), int(rows.max()))
        # Rows that follow each other lie together: each such run is copied as one piece.
        breaks = np.flatnonzero(rows[1:] != rows[:-1] + 1)
        if len(breaks) == 0 and len(rows) == len(self):
            return self
        offsets = _offsets_of(old[rows + 1] - old[rows])
        if not len(rows):
            return Texts(offsets, np.empty(0, dtype=np.uint8))
        heads, tails = np.append(0, breaks + 1), np.append(breaks, len(rows) - 1)
        blob = np.empty(offsets[-1], dtype=np.uint8)
        source, target = np.ascontiguousarray(self.blob).data, blob.data
        place = 0
        for first in range(0, len(heads), _ROWS):
            part = slice(first, first + _ROWS)
            starts, stops = old[rows[heads[part]]].tolist(), old[rows[tails[part]] + 1].tolist()
            for start, stop in zip(starts, stops, strict=True):
                target[place : place + stop - start] = source[start:stop]
                place += stop - start
        return Texts(offsets, blob)

    def to_list(self) -> list[str]:
        """All strings."""
        strings: list[str] = []
        for data, edges in self._pieces():
            try:
                strings += [data[a:b].decode() for a, b in pairwise(edges)]
            except UnicodeDecodeError as error:
                raise _damaged(
                    f"a row from {len(strings)} to {len(strings) + len(edges) - 2} is not UTF-8"
                ) from error
        return strings

    def raw(self) -> Iterator[bytes]:
        """All strings, one after the other, as their bytes in UTF-8, which order as they do."""
        for data, edges in self._pieces():
            for start, stop in pairwise(edges):
                yield data[start:stop]

    def check(self) -> NDArray[np.int64]:
        """Return the offsets, or raise `BadFile` if they do not fit the bytes."""
        self._check_types()
        offsets = self.offsets
        ends = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(self.blob)
        if not ends or np.any(offsets[1:] < offsets[:-1]):
            raise _damaged("where they begin and end does not fit their bytes")
        return offsets

    def _check_types(self) -> None:
        whole = self.offsets.dtype.kind == "i" and self.blob.dtype == np.uint8
        if not whole or self.offsets.ndim != 1 or self.blob.ndim != 1:
            raise _damaged("they are no row of numbers and no row of bytes")

    def _check_rows(self, least: int, most: int) -> None:
        if least < 0 or most >= len(self):
            wrong = least if least < 0 else most
            raise _damaged(f"row {wrong} is asked for, there are {len(self)} rows")

    def _pieces(self) -> Iterator[tuple[bytes, list[int]]]:
        """Bytes of a few rows, and where each of them begins and the last ends."""
        offsets, start = self.check(), 0
        while start < len(self):
            fits = int(np.searchsorted(offsets, offsets[start] + _BYTES, side="right")) - 1
            stop = min(len(self), start + _ROWS, max(start + 1, fits))
            edges = offsets[start : stop + 1]
            yield self.blob[edges[0] : edges[-1]].tobytes(), (edges - edges[0]).tolist()
            start = stop


def texts_of(strings: Iterable[str], what: str = "a key") -> Texts:
    """Strings in memory as `Texts`; `what` names one of them in an error."""
    blob = bytearray()

    def lengths() -> Iterator[int]:
        for text in strings:
            encoded = encode(text, what)
            blob.extend(encoded)
            yield len(encoded)

    offsets = _offsets_of(np.fromiter(lengths(), dtype=np.int64))
    return Texts(offsets, np.frombuffer(blob, dtype=np.uint8))


def encode(text: str, what: str) -> bytes:
    """UTF-8 of a string; half of a surrogate pair has none and is refused."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        shown = text[error.start : error.start + 20]
        raise InvalidInput(
            f"{what} holds half of a surrogate pair ({shown!r}), which is no text: "
            "decode it from its source again, or leave it out"
        ) from error


def empty_texts(n: int) -> Texts:
    """Return n empty strings."""
    return Texts(np.zeros(n + 1, dtype=np.int64), np.empty(0, dtype=np.uint8))


def join_texts(parts: Sequence[Texts]) -> Texts:
    """All strings of all parts, one after the other."""
    lengths = np.concatenate([np.diff(part.check()) for part in parts])
    return Texts(_offsets_of(lengths), np.concatenate([part.blob for part in parts]))


def _offsets_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _damaged(reason: str) -> BadFile:
    return BadFile(f"stored texts are damaged: {reason}; restore the file from a copy")


def hashes_of(keys: Iterable[str]) -> NDArray[np.uint64]:
    """64 bits of BLAKE2b of each key: the same in every process and version."""
    return _hashes(encode(key, "a key") for key in keys)


def _hashes(encoded: Iterable[bytes]) -> NDArray[np.uint64]:
    digests = bytearray()
    for key in encoded:
        digests += hashlib.blake2b(key, digest_size=8).digest()
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


class KeyTable(NamedTuple):
    """Hashes of keys, rising, and the row that each belongs to."""

    hashes: NDArray[np.uint64]
    rows: NDArray[np.int64]


def key_table(keys: Texts) -> KeyTable:
    """Table of all rows that have a key (an empty string is none)."""
    rows = np.flatnonzero(np.diff(keys.check()))
    hashes = _hashes(key for key in keys.raw() if key)
    order = np.argsort(hashes, kind="stable")
    return KeyTable(hashes[order], rows[order])


def rows_of_keys(
    wanted: Sequence[str], hashes: NDArray[np.uint64], keys: Texts, table: KeyTable
) -> list[list[int]]:
    """Rows whose key is `wanted[i]`, whose hash is `hashes[i]`; a deleted row may share a key."""
    kinds = (table.hashes.dtype.kind, table.rows.dtype.kind, table.rows.ndim)
    if kinds != ("u", "i", 1) or table.hashes.shape != table.rows.shape:
        raise _damaged("the table of keys does not name one row for each of them")
    starts = np.searchsorted(table.hashes, hashes, side="left").tolist()
    stops = np.searchsorted(table.hashes, hashes, side="right").tolist()
    found = []
    for key, start, stop in zip(wanted, starts, stops, strict=True):
        rows = table.rows[start:stop].tolist()
        found.append([row for row in rows if keys.at(row) == key])
    return found
