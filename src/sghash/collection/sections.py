"""Named arrays in one file, each byte under a checksum; read by mapping, not by copying.

    offset 0    8 bytes   magic
    offset 8    u32       format version, little-endian as all numbers
    offset 12   u32       length of the header in bytes
    offset 16   u32       CRC-32 of the header
    offset 20             header: JSON, UTF-8: what the caller says, and the table of sections
    ...                   the sections, each beginning at a multiple of 64

The last section holds the CRC-32 of every block of 1 MiB of the others, in their order; the
CRC-32 of that section itself stands in the file's last four bytes. So opening reads the header
only, and `verify` can tell which block is damaged.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.disk import write_new
from sghash.errors import BadFile, NewerFormat

VERSION = 1
BLOCK = 1 << 20
_PREFIX = struct.Struct("<8sIII")
_ALIGN = 64


class Section(NamedTuple):
    """An array to be written: its type, its shape, and how to get rows `start` to `stop` - 1."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    read: Callable[[int, int], NDArray[Any]]


class Sections(NamedTuple):
    """An open file: what its header says, and its arrays, mapped and read-only."""

    about: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def section_of(array: NDArray[Any]) -> Section:
    """An array in memory as a section."""
    return Section(array.dtype, array.shape, lambda start, stop: array[start:stop])


def write_sections(
    path: Path, magic: bytes, about: Mapping[str, Any], sections: Mapping[str, Section]
) -> None:
    """Write a new file durably; arrays are asked for in pieces of about 1 MiB."""
    table, sizes = [], []
    for name, section in sections.items():
        dtype = section.dtype.newbyteorder("<")
        table.append([name, dtype.str, list(section.shape)])
        sizes.append(dtype.itemsize * int(np.prod(section.shape, dtype=np.int64)))
    text = json.dumps({**about, "sections": table}).encode()
    start = _aligned(_PREFIX.size + len(text))
    text = text.ljust(start - _PREFIX.size)

    def pieces() -> Iterator[Any]:
        yield _PREFIX.pack(magic, VERSION, len(text), zlib.crc32(text)) + text
        checksums: list[int] = []
        for section, size in zip(sections.values(), sizes, strict=True):
            yield from _checked_blocks(section, checksums)
            yield bytes(_aligned(size) - size)
        tail = np.asarray(checksums, dtype="<u4").tobytes()
        yield tail + struct.pack("<I", zlib.crc32(tail))

    write_new(path, pieces())


def _checked_blocks(section: Section, checksums: list[int]) -> Iterator[Any]:
    """The bytes of a section in blocks of 1 MiB, whatever the size of its rows."""
    n = section.shape[0] if section.shape else 0
    width = section.dtype.itemsize * int(np.prod(section.shape[1:], dtype=np.int64))
    n_rows = max(1, BLOCK // max(1, width))
    held = b""
    for start in range(0, n, n_rows):
        rows = section.read(start, min(start + n_rows, n))
        little = np.ascontiguousarray(rows, dtype=section.dtype.newbyteorder("<"))
        data = little.reshape(-1).view(np.uint8).data
        if held or len(data) != BLOCK:
            data = memoryview(held + bytes(data))
        whole = len(data) // BLOCK * BLOCK
        for first in range(0, whole, BLOCK):
            block = data[first : first + BLOCK]
            checksums.append(zlib.crc32(block))
            yield block
        held = bytes(data[whole:])
    if held:
        checksums.append(zlib.crc32(held))
        yield held


def read_sections(path: Path, magic: bytes) -> Sections:
    """Map a file and check its header and its length; the arrays are not read yet."""
    with open(path, "rb") as stream:
        prefix = stream.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size or not prefix.startswith(magic):
            raise BadFile(f"{path} is damaged: it does not begin with {magic.decode()}")
        _, version, length, checksum = _PREFIX.unpack(prefix)
        if version > VERSION:
            raise NewerFormat(
                f"{path} has format version {version}, this sghash reads up to {VERSION}: "
                "upgrade sghash"
            )
        text = stream.read(min(length, path.stat().st_size))
        if version != VERSION or len(text) < length or zlib.crc32(text) != checksum:
            raise BadFile(f"{path} is damaged in its header: restore it from a copy")
        mapped = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    about = json.loads(text)
    arrays, offset, n_blocks = {}, _PREFIX.size + length, 0
    for name, kind, shape in about.pop("sections"):
        count = int(np.prod(shape, dtype=np.int64))
        size = np.dtype(kind).itemsize * count
        n_blocks += -(-size // BLOCK)
        if offset + size > len(mapped):
            break
        arrays[name] = np.frombuffer(mapped, dtype=kind, count=count, offset=offset).reshape(shape)
        offset += _aligned(size)
    if len(mapped) != offset + 4 * n_blocks + 4:
        raise BadFile(
            f"{path} has {len(mapped)} bytes where {offset + 4 * n_blocks + 4} are expected: "
            "it was truncated or written to; restore it from a copy"
        )
    return Sections(about, arrays)


def verify_sections(path: Path, magic: bytes) -> int:
    """Read a whole file; raise `BadFile` unless every checksum fits. Return the bytes read."""
    arrays = read_sections(path, magic).arrays
    size = path.stat().st_size
    n_blocks = sum(-(-array.nbytes // BLOCK) for array in arrays.values())
    with open(path, "rb") as stream:
        stream.seek(size - 4 * n_blocks - 4)
        tail = stream.read()
    if zlib.crc32(tail[:-4]) != struct.unpack("<I", tail[-4:])[0]:
        raise BadFile(f"{path} is damaged in its table of checksums: restore it from a copy")
    expected = iter(np.frombuffer(tail[:-4], dtype="<u4").tolist())
    for name, array in arrays.items():
        data = array.reshape(-1).view(np.uint8).data
        for first in range(0, len(data), BLOCK):
            if zlib.crc32(data[first : first + BLOCK]) != next(expected):
                raise BadFile(
                    f"{path} is damaged: block {first // BLOCK} of its {name} fails its checksum; "
                    "restore it from a copy"
                )
    return size


def pack_sections(about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> list[Any]:
    """Return the same table and arrays as pieces of bytes for a record of the log."""
    little = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        for name, array in arrays.items()
    }
    table = [[name, array.dtype.str, list(array.shape)] for name, array in little.items()]
    text = json.dumps({**about, "sections": table}).encode()
    text = text.ljust(_aligned(4 + len(text)) - 4)
    pieces: list[Any] = [struct.pack("<I", len(text)) + text]
    for array in little.values():
        pieces += [
            array.reshape(-1).view(np.uint8).data,
            bytes(_aligned(array.nbytes) - array.nbytes),
        ]
    return pieces


def unpack_sections(data: bytes) -> Sections:
    """Take apart what `pack_sections` made; its checksum was tested by the caller."""
    length = struct.unpack_from("<I", data)[0]
    about = json.loads(data[4 : 4 + length])
    arrays, offset = {}, 4 + length
    for name, kind, shape in about.pop("sections"):
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data, dtype=kind, count=count, offset=offset).reshape(shape)
        offset += _aligned(np.dtype(kind).itemsize * count)
    return Sections(about, arrays)


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
