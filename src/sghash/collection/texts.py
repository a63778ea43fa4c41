"""Many strings as two arrays, so that they can be mapped; and finding a key among them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Texts(NamedTuple):
    """String i is `blob[offsets[i] : offsets[i + 1]]` in UTF-8; offsets (n + 1,) int64."""

    offsets: NDArray[np.int64]
    blob: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def at(self, row: int) -> str:
        """One string."""
        return bytes(self.blob[self.offsets[row] : self.offsets[row + 1]]).decode()

    def take(self, rows: NDArray[np.int64]) -> Texts:
        """Return the strings of these rows, in that order."""
        starts, lengths = self.offsets[rows], np.diff(self.offsets)[rows]
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # Position of every byte: its row's start, plus how far into the row it stands.
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        return Texts(offsets, self.blob[np.repeat(starts, lengths) + within])

    def slice(self, start: int, stop: int) -> Texts:
        """Strings `start` to `stop` - 1."""
        offsets = self.offsets[start : stop + 1]
        return Texts(offsets - offsets[0], self.blob[offsets[0] : offsets[-1]])

    def to_list(self) -> list[str]:
        """All strings."""
        data, edges = self.blob.tobytes(), self.offsets.tolist()
        return [data[a:b].decode() for a, b in pairwise(edges)]


def texts_of(strings: Sequence[str]) -> Texts:
    """Strings in memory as `Texts`."""
    encoded = [text.encode() for text in strings]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return Texts(offsets, np.frombuffer(b"".join(encoded), dtype=np.uint8))


def empty_texts(n: int) -> Texts:
    """Return n empty strings."""
    return Texts(np.zeros(n + 1, dtype=np.int64), np.empty(0, dtype=np.uint8))


def join_texts(parts: Sequence[Texts]) -> Texts:
    """All strings of all parts, one after the other."""
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Texts(offsets, np.concatenate([_used(part) for part in parts]))


def _used(part: Texts) -> NDArray[np.uint8]:
    return part.blob[part.offsets[0] : part.offsets[-1]]


def hashes_of(keys: Iterable[str]) -> NDArray[np.uint64]:
    """64 bits of BLAKE2b of each key: the same in every process and version."""
    digests = b"".join(hashlib.blake2b(key.encode(), digest_size=8).digest() for key in keys)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


class KeyTable(NamedTuple):
    """Hashes of keys, rising, and the row that each belongs to."""

    hashes: NDArray[np.uint64]
    rows: NDArray[np.int64]


def key_table(keys: Texts) -> KeyTable:
    """Table of all rows that have a key (an empty string is none)."""
    rows = np.flatnonzero(np.diff(keys.offsets))
    hashes = hashes_of(keys.take(rows).to_list())
    order = np.argsort(hashes, kind="stable")
    return KeyTable(hashes[order], rows[order])


def rows_of_keys(
    wanted: Sequence[str], hashes: NDArray[np.uint64], keys: Texts, table: KeyTable
) -> list[list[int]]:
    """Rows whose key is `wanted[i]`, whose hash is `hashes[i]`; a deleted row may share a key."""
    starts = np.searchsorted(table.hashes, hashes, side="left").tolist()
    stops = np.searchsorted(table.hashes, hashes, side="right").tolist()
    found = []
    for key, start, stop in zip(wanted, starts, stops, strict=True):
        rows = table.rows[start:stop].tolist()
        found.append([row for row in rows if keys.at(row) == key])
    return found
