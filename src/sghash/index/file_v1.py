"""The first format of index files, which is read but no longer written.

    offset 0    8 bytes   magic "SGHINDEX"
    offset 8    u32       format version (1), little-endian as all numbers
    offset 12   u32       length of the header in bytes
    offset 16   u32       CRC-32 of the header
    offset 20             header: JSON, UTF-8
    data_start            rows: n * ceil(n_bits / 8) bytes, in packed order (a multiple of 64)
    ids_start             ids: n * 8 bytes, int64 (only if they are not 0, 1, 2, ...)

The header names n_bits, n, next_id, data_start, ids_start and the CRC-32 of rows and ids. A file
may be damaged in ways that its checksums do not show: every number is checked before anything is
allocated, read or mapped by what it says.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import BadFile, NewerFormat
from sghash.validation import MAX_BITS, MAX_ID, Codes, Ids, n_bytes_of

MAGIC = b"SGHINDEX"
VERSION = 1
_PREFIX = struct.Struct("<8sIII")
_ALIGN = 64
_BLOCK = 1 << 24
# What is written takes a few hundred bytes.
_MAX_HEADER = 1 << 16
# Smallest and largest value of every number of the header.
_RANGES = {
    "n_bits": (1, MAX_BITS),
    "n": (0, 1 << 56),
    "next_id": (0, MAX_ID + 1),
    "data_start": (_PREFIX.size, 1 << 62),
    "ids_start": (_PREFIX.size, 1 << 62),
    "codes_crc32": (0, (1 << 32) - 1),
    "ids_crc32": (0, (1 << 32) - 1),
}


class Contents(NamedTuple):
    """What an index file holds; `ids` is None where they are 0, 1, 2, ..."""

    n_bits: int
    next_id: int
    codes: Codes
    ids: Ids | None


class _Header(NamedTuple):
    n_bits: int
    n: int
    next_id: int
    data_start: int
    ids_start: int | None
    codes_crc32: int
    ids_crc32: int | None

    @property
    def n_bytes(self) -> int:
        """Bytes of all rows."""
        return self.n * n_bytes_of(self.n_bits)

    @property
    def end(self) -> int:
        """Length of the file."""
        if self.ids_start is None:
            return self.data_start + self.n_bytes
        return self.ids_start + 8 * self.n


def is_version_1(path: Path) -> bool:
    """Whether a file is an index of the first format."""
    with open(path, "rb") as stream:
        prefix = stream.read(_PREFIX.size)
    return prefix.startswith(MAGIC) and prefix[8:12] == struct.pack("<I", VERSION)


def read_index(path: str | os.PathLike[str], *, mmap: bool) -> Contents:
    """Read and check an index file; with `mmap` the rows stay on disk and are not read yet."""
    target = Path(path)
    with open(target, "rb") as stream:
        header = _read_header(target, stream)
        codes = _section(target, stream, header.data_start, header.n_bytes, mmap)
        ids = None
        if header.ids_start is not None:
            stored = _section(target, stream, header.ids_start, 8 * header.n, False)
            _verify(target, "ids", stored, header.ids_crc32)
            ids = stored.view("<i8").astype(np.int64, copy=False)
    _check_ids(target, header, ids)
    rows = codes.reshape(header.n, n_bytes_of(header.n_bits))
    if not mmap:
        _verify(target, "codes", codes, header.codes_crc32)
        spare = 8 * rows.shape[1] - header.n_bits
        if np.any(rows[:, -1] & np.uint8((1 << spare) - 1)):
            raise _damaged(target, f"codes have bits set in the padding after bit {header.n_bits}")
    return Contents(header.n_bits, header.next_id, rows, ids)


def _read_header(path: Path, stream: BinaryIO) -> _Header:
    size = os.fstat(stream.fileno()).st_size
    prefix = stream.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size or not prefix.startswith(MAGIC):
        raise BadFile(f"{path} is not an sghash index: it does not begin with {MAGIC.decode()}")
    _, version, length, checksum = _PREFIX.unpack(prefix)
    if version > VERSION:
        raise NewerFormat(
            f"{path} has format version {version}, this sghash reads up to {VERSION}: "
            "upgrade sghash"
        )
    text = stream.read(min(length, _MAX_HEADER))
    # Nothing has the checksum 0: zeros instead of a header would pass for one.
    if version < 1 or not text or len(text) < length or zlib.crc32(text) != checksum:
        raise _damaged(path, "its header is cut short or fails its checksum")
    header = _parsed(path, text)
    if header.data_start < _PREFIX.size + length:
        raise _damaged(path, "its rows begin within its header")
    if size != header.end:
        raise BadFile(
            f"{path} has {size} bytes where {header.end} are expected: it was truncated or "
            "written to; restore it from a copy"
        )
    return header


def _parsed(path: Path, text: bytes) -> _Header:
    """The header's numbers, each of the right kind and in its range, sections side by side."""
    try:
        fields = json.loads(text.decode())
        header = _Header(**{name: fields[name] for name in _Header._fields})
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise _damaged(path, "its header is not the JSON that belongs there") from error
    without_ids = header.ids_start is None and header.ids_crc32 is None
    for name, number in header._asdict().items():
        if without_ids and name in ("ids_start", "ids_crc32"):
            continue
        least, most = _RANGES[name]
        if type(number) is not int or not least <= number <= most:
            shown = repr(number)[:40]
            raise _damaged(path, f"its header gives {name} as {shown}, not as {least} to {most}")
    rows_end = header.data_start + header.n_bytes
    ids_start = _aligned(rows_end) if header.ids_start is None else header.ids_start
    if header.data_start % _ALIGN or ids_start % _ALIGN or ids_start < rows_end:
        raise _damaged(path, "its rows and ids overlap, or do not begin at multiples of 64")
    return header


def _check_ids(path: Path, header: _Header, ids: Ids | None) -> None:
    largest = header.n - 1
    if ids is not None and len(ids):
        largest = int(ids[-1])
        if ids[0] < 0 or np.any(ids[1:] <= ids[:-1]):
            raise _damaged(path, "its ids do not rise")
    if header.next_id <= largest:
        raise _damaged(path, f"its next id is {header.next_id}, but {largest} is in use")


def _section(
    path: Path, stream: BinaryIO, start: int, length: int, mmap: bool
) -> NDArray[np.uint8]:
    if length == 0:
        return np.empty(0, dtype=np.uint8)
    try:
        if mmap:
            return np.memmap(stream, dtype=np.uint8, mode="r", offset=start, shape=(length,))
        stream.seek(start)
        return np.fromfile(stream, dtype=np.uint8, count=length).reshape(length)
    except ValueError as error:
        raise _damaged(path, "it was cut short while it was read") from error


def _verify(path: Path, name: str, array: NDArray[np.uint8], expected: int | None) -> None:
    if _checksum(array) != expected:
        raise _damaged(path, f"the checksum of its {name} fails")


def _damaged(path: Path, reason: str) -> BadFile:
    return BadFile(f"{path} is damaged: {reason}; restore it from a copy")


def _checksum(array: NDArray[Any]) -> int:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    value = 0
    for start in range(0, len(flat), _BLOCK):
        value = zlib.crc32(flat[start : start + _BLOCK].data, value)
    return value


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN
