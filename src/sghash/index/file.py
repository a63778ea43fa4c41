"""The index file: a line of identity, a checked header, packed rows, ids.

    offset 0    8 bytes   magic "SGHINDEX"
    offset 8    u32       format version (1), little-endian as all numbers
    offset 12   u32       length of the header in bytes
    offset 16   u32       CRC-32 of the header
    offset 20             header: JSON, UTF-8
    data_start            rows: n * ceil(n_bits / 8) bytes, in packed order (a multiple of 64)
    ids_start             ids: n * 8 bytes, int64 (only if they are not 0, 1, 2, ...)

The header names n_bits, n, next_id, data_start, ids_start and the CRC-32 of rows and ids.
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
from sghash.files import write_atomically
from sghash.validation import Codes, Ids, check_n_bits, n_bytes_of

MAGIC = b"SGHINDEX"
VERSION = 1
_PREFIX = struct.Struct("<8sIII")
_ALIGN = 64
_BLOCK = 1 << 24


class Contents(NamedTuple):
    """What an index file holds; `ids` is None where they are 0, 1, 2, ..."""

    n_bits: int
    next_id: int
    codes: Codes
    ids: Ids | None


def write_index(path: str | os.PathLike[str], contents: Contents) -> None:
    """Write the file beside its target, then rename it into place."""
    codes, ids = contents.codes, contents.ids
    header: dict[str, Any] = {
        "n_bits": contents.n_bits,
        "n": len(codes),
        "next_id": contents.next_id,
        "codes_crc32": _checksum(codes),
        "ids_crc32": None if ids is None else _checksum(ids),
    }
    # The header's own length decides where the data starts: leave room for the two numbers.
    room = len(json.dumps(header)) + 80
    start = _aligned(_PREFIX.size + room)
    header["data_start"] = start
    header["ids_start"] = None if ids is None else _aligned(start + codes.nbytes)
    text = json.dumps(header).encode().ljust(start - _PREFIX.size)

    def write(stream: BinaryIO) -> None:
        stream.write(_PREFIX.pack(MAGIC, VERSION, len(text), zlib.crc32(text)))
        stream.write(text)
        _write_blocks(stream, codes)
        if ids is not None:
            stream.write(b"\0" * (header["ids_start"] - start - codes.nbytes))
            _write_blocks(stream, ids.astype("<i8", copy=False))

    write_atomically(path, write)


def read_index(path: str | os.PathLike[str], *, mmap: bool) -> Contents:
    """Read and check an index file; with `mmap` the rows stay on disk and are not read yet."""
    target = Path(path)
    header = _read_header(target)
    n, n_bits = header["n"], check_n_bits(header["n_bits"])
    n_bytes = n_bytes_of(n_bits)
    codes = _section(target, header["data_start"], n * n_bytes, mmap).reshape(n, n_bytes)
    ids = None
    if header["ids_start"] is not None:
        ids = _section(target, header["ids_start"], n * 8, mmap).view("<i8").astype(np.int64)
        _verify(target, "ids", ids, header["ids_crc32"])
        if n and (ids[0] < 0 or np.any(ids[1:] <= ids[:-1])):
            raise BadFile(f"{target} is damaged: its ids do not rise; restore it from a copy")
    if not mmap:
        _verify(target, "codes", codes, header["codes_crc32"])
    return Contents(n_bits, header["next_id"], codes, ids)


def verify_index(path: str | os.PathLike[str]) -> None:
    """Read the whole file and raise `BadFile` unless every checksum fits."""
    read_index(path, mmap=False)


def _read_header(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    with open(path, "rb") as stream:
        prefix = stream.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size or not prefix.startswith(MAGIC):
            raise BadFile(f"{path} is not an sghash index: it does not begin with {MAGIC.decode()}")
        _, version, length, checksum = _PREFIX.unpack(prefix)
        if version > VERSION:
            raise NewerFormat(
                f"{path} has format version {version}, this sghash reads up to {VERSION}: "
                "upgrade sghash"
            )
        text = stream.read(min(length, size))
    if version < 1 or len(text) < length or zlib.crc32(text) != checksum:
        raise BadFile(f"{path} is truncated or damaged in its header: restore it from a copy")
    header: dict[str, Any] = json.loads(text)
    n_bytes = n_bytes_of(header["n_bits"])
    end = header["data_start"] + header["n"] * n_bytes
    if header["ids_start"] is not None:
        end = header["ids_start"] + header["n"] * 8
    if size != end:
        raise BadFile(
            f"{path} has {size} bytes where {end} are expected: it was truncated or written to; "
            "restore it from a copy"
        )
    return header


def _section(path: Path, start: int, length: int, mmap: bool) -> NDArray[np.uint8]:
    if length == 0:
        return np.empty(0, dtype=np.uint8)
    if mmap:
        return np.memmap(path, dtype=np.uint8, mode="r", offset=start, shape=(length,))
    return np.fromfile(path, dtype=np.uint8, offset=start, count=length)


def _verify(path: Path, name: str, array: NDArray[Any], expected: int) -> None:
    if _checksum(array) != expected:
        raise BadFile(
            f"{path} is damaged: the checksum of its {name} fails; restore it from a copy"
        )


def _checksum(array: NDArray[Any]) -> int:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    value = 0
    for start in range(0, len(flat), _BLOCK):
        value = zlib.crc32(flat[start : start + _BLOCK].data, value)
    return value


def _write_blocks(stream: BinaryIO, array: NDArray[Any]) -> None:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for start in range(0, len(flat), _BLOCK):
        stream.write(flat[start : start + _BLOCK].data)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN
