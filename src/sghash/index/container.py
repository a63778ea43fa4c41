"""Named arrays in one file, each byte under a checksum; read by mapping, not by copying.

    offset 0    8 bytes   magic
    offset 8    u32       format version, little-endian as all numbers
    offset 12   u32       length of the header in bytes
    offset 16   u32       CRC-32 of the header
    offset 20             header: JSON, UTF-8: what the caller says, and the table of sections
    ...                   the sections, each beginning at a multiple of 64

The last section holds the CRC-32 of every block of 1 MiB of the others, in their order; the
CRC-32 of that section itself stands in the file's last four bytes. So opening reads the header
only, and `verify` can tell which block is damaged. The header names the file's identity.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import BadFile, NewerFormat
from sghash.files import Place, place_of

VERSION = 2
#: Types that a section may have.
DTYPES = ("|u1", "|i1", "|b1", "<i8", "<u8", "<f2", "<f4", "<f8")
BLOCK = 1 << 20
_PREFIX = struct.Struct("<8sIII")
_ALIGN = 64


class Section(NamedTuple):
    """An array to be written: its type, its shape, and how to get rows `start` to `stop` - 1."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    read: Callable[[int, int], NDArray[Any]]


class Sections(NamedTuple):
    """A record of the log, taken apart: what its table says, and its arrays."""

    about: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def section_of(array: NDArray[Any]) -> Section:
    """An array in memory as a section."""
    return Section(array.dtype, array.shape, lambda start, stop: array[start:stop])


class Packing:
    """A file in the making: iterating gives its bytes, in pieces of about 1 MiB.

    Arrays are asked for in such pieces too. `checksum` (see `SectionFile.checksum`) is known when
    the last piece was given.
    """

    def __init__(
        self, magic: bytes, about: Mapping[str, Any], sections: Mapping[str, Section]
    ) -> None:
        table = [
            [name, section.dtype.newbyteorder("<").str, list(section.shape)]
            for name, section in sections.items()
        ]
        text = json.dumps({**about, "sections": table}).encode()
        self._text = text.ljust(_aligned(_PREFIX.size + len(text)) - _PREFIX.size)
        self._magic, self._sections = magic, sections
        self._checksums: list[int] = []

    def __iter__(self) -> Iterator[Any]:
        text, self._checksums = self._text, []
        yield _PREFIX.pack(self._magic, VERSION, len(text), zlib.crc32(text)) + text
        for section in self._sections.values():
            size = section.dtype.itemsize * math.prod(section.shape)
            yield from _checked_blocks(section, self._checksums)
            yield bytes(_aligned(size) - size)
        tail = np.asarray(self._checksums, dtype="<u4").tobytes()
        yield tail + struct.pack("<I", zlib.crc32(tail))

    @property
    def checksum(self) -> int:
        """CRC-32 of the header and of the table of checksums."""
        tail = np.asarray(self._checksums, dtype="<u4").tobytes()
        return zlib.crc32(tail, zlib.crc32(self._text))


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


def read_sections(path: Path, magic: bytes, *, in_memory: bool = False) -> SectionFile:
    """Map a file and check its header and its length; the arrays are not read yet.

    With `in_memory` all of it is read, and every checksum tested.
    """
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        prefix = stream.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size or not prefix.startswith(magic):
            raise BadFile(f"{path} is damaged: it does not begin with {magic.decode()}")
        _, version, length, checksum = _PREFIX.unpack(prefix)
        if version > VERSION:
            raise NewerFormat(
                f"{path} has format version {version}, this sghash reads up to {VERSION}: "
                "upgrade sghash"
            )
        text = stream.read(min(length, size))
        right = 0 < length == len(text) and zlib.crc32(text) == checksum
        if version < 1 or not right or (_PREFIX.size + length) % _ALIGN:
            raise BadFile(f"{path} is damaged in its header: restore it from a copy")
        place = place_of(os.fstat(stream.fileno()))
        if in_memory:
            stream.seek(0)
            data = memoryview(stream.read())
        else:
            try:
                data = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
            except ValueError as error:
                raise BadFile(f"{path} was emptied while it was read: restore it") from error
    about, table = _parsed(path, text)
    arrays, offset, n_blocks = {}, _PREFIX.size + length, 0
    for name, kind, shape in table:
        count = math.prod(shape)
        n_bytes = np.dtype(kind).itemsize * count
        n_blocks += -(-n_bytes // BLOCK)
        if offset + n_bytes > len(data):
            break
        arrays[name] = np.frombuffer(data, dtype=kind, count=count, offset=offset).reshape(shape)
        offset += _aligned(n_bytes)
    expected = offset + 4 * n_blocks + 4
    if len(data) != expected or len(arrays) != len(table):
        raise BadFile(
            f"{path} has {len(data)} bytes where {expected} are expected: it was truncated or "
            "written to; restore it from a copy"
        )
    file = SectionFile(path, about, arrays, data, place, zlib.crc32(data[offset:-4], checksum))
    if in_memory:
        file.verify()
    return file


def _parsed(path: Path, text: bytes) -> tuple[dict[str, Any], list[tuple[str, str, list[int]]]]:
    """What a header says, and its table of sections: names, types, shapes, each checked."""
    try:
        about = json.loads(text)
        table = about.pop("sections")
        if not isinstance(table, list):
            raise ValueError("its sections are no list")
        for name, kind, shape in table:
            right = isinstance(name, str) and kind in DTYPES and isinstance(shape, list)
            right = right and 1 <= len(shape) <= 2
            if not right or not all(type(n) is int and 0 <= n < 1 << 48 for n in shape):
                raise ValueError(f"section {name!r} is not valid")
        if len({name for name, _, _ in table}) != len(table):
            raise ValueError("a section is there twice")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadFile(
            f"{path} is damaged in its header ({error}): restore it from a copy"
        ) from error
    return about, table


@dataclass(frozen=True, eq=False)
class SectionFile:
    """An open file: what its header says, its arrays, read-only, and all of its bytes.

    `checksum` is the CRC-32 of its header and of its table of checksums: whoever knows it knows
    what every block must be.
    """

    path: Path
    about: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    data: memoryview
    place: Place
    checksum: int

    @property
    def identity(self) -> str:
        """What was drawn at random when the file was made; empty in version 1."""
        return str(self.about.get("identity", ""))

    def release_pages(self) -> None:
        """Give the memory of pages that were read back; what is needed is read again."""
        mapped = self.data.obj
        if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            with suppress(OSError):
                mapped.madvise(mmap.MADV_DONTNEED)

    def verify(self, *, skipping: tuple[str, ...] = ()) -> int:
        """Raise `BadFile` unless every checksum fits; return the number of bytes of the file.

        What is mapped here is tested, not what stands at the path by now. Sections to be skipped
        are not read.
        """
        n_blocks = sum(-(-array.nbytes // BLOCK) for array in self.arrays.values())
        tail = self.data[len(self.data) - 4 * n_blocks - 4 :]
        if zlib.crc32(tail[:-4]) != struct.unpack("<I", tail[-4:])[0]:
            raise BadFile(
                f"{self.path} is damaged in its table of checksums: restore it from a copy"
            )
        expected = iter(np.frombuffer(tail[:-4], dtype="<u4").tolist())
        for name, array in self.arrays.items():
            data = array.reshape(-1).view(np.uint8).data
            for first in range(0, len(data), BLOCK):
                right = next(expected)
                if name not in skipping and zlib.crc32(data[first : first + BLOCK]) != right:
                    raise BadFile(
                        f"{self.path} is damaged: block {first // BLOCK} of its {name} fails its "
                        "checksum; restore it from a copy"
                    )
        return len(self.data)


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


def unpack_sections(path: Path, data: bytes) -> Sections:
    """Take apart what `pack_sections` made; its checksum was tested by the caller."""
    length = struct.unpack_from("<I", data)[0] if len(data) >= 4 else len(data)
    about, table = _parsed(path, data[4 : 4 + length])
    arrays, offset = {}, 4 + length
    for name, kind, shape in table:
        count = math.prod(shape)
        size = np.dtype(kind).itemsize * count
        if offset + size > len(data):
            raise BadFile(f"{path} is damaged: a record ends in its {name}; restore it from a copy")
        arrays[name] = np.frombuffer(data, dtype=kind, count=count, offset=offset).reshape(shape)
        offset += _aligned(size)
    return Sections(about, arrays)


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
