"""The log: what was added and deleted since the last segment was written.

    offset 0      8 bytes  magic "SGHCOLOG"; u32 format version; u32 CRC-32 of the two
    offset 512    slot     u64 length, u32 CRC-32 of it: how much of the file is acknowledged
    offset 1024   slot     the same; the two take turns, so that one is always whole
    offset 4096   records  u64 length of the payload, u32 its CRC-32, u32 CRC-32 of these twelve
                           bytes, payload; one after the other

A record is acknowledged when it is on the disk; only then its end is noted in a slot. So a file
that ends in half a record after the acknowledged length was cut by a crash, and that half is
dropped; anything wrong before that length is damage, and is told.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sghash.collection.disk import open_to_append, sync_file, write_all, write_new
from sghash.errors import BadFile, NewerFormat, StorageError
from sghash.files import storage_errors

MAGIC = b"SGHCOLOG"
VERSION = 1
START = 4096
_PREFIX = struct.Struct("<8sI")
_CHECK = struct.Struct("<I")
_SLOT = struct.Struct("<Q")
_SLOTS = (512, 1024)
_RECORD = struct.Struct("<QI")
RECORD_BYTES = _RECORD.size + _CHECK.size


class LogContents(NamedTuple):
    """The payloads of all whole records, and where the last of them ends."""

    payloads: list[bytes]
    end: int


def create_log(path: Path) -> None:
    """Write an empty log, durably; the caller syncs the folder."""
    page = bytearray(START)
    page[:12] = _PREFIX.pack(MAGIC, VERSION)
    page[12:16] = _CHECK.pack(zlib.crc32(page[:12]))
    for slot in _SLOTS:
        page[slot : slot + 12] = _slot(START)
    write_new(path, [page])


def read_log(path: Path, start: int = START) -> LogContents:
    """Read the records from `start` on; what a crash cut off at the end is left out."""
    with open(path, "rb") as stream:
        page = stream.read(START)
        acknowledged = _acknowledged(path, page)
        stream.seek(start)
        # Read after the slots: whatever they acknowledge is in here.
        data = stream.read()
    payloads, at = [], 0
    while len(data) - at >= RECORD_BYTES:
        head = data[at : at + _RECORD.size]
        if _CHECK.unpack_from(data, at + _RECORD.size)[0] != zlib.crc32(head):
            break
        length, checksum = _RECORD.unpack(head)
        payload = data[at + RECORD_BYTES : at + RECORD_BYTES + length]
        if len(payload) < length or zlib.crc32(payload) != checksum:
            break
        payloads.append(payload)
        at += RECORD_BYTES + length
    if start + at < acknowledged:
        raise BadFile(
            f"{path} is damaged at byte {start + at}, before its acknowledged end "
            f"{acknowledged}: restore it from a copy"
        )
    return LogContents(payloads, start + at)


def _acknowledged(path: Path, page: bytes) -> int:
    if len(page) < START or not page.startswith(MAGIC):
        raise BadFile(f"{path} is damaged: it does not begin with {MAGIC.decode()}")
    version = _PREFIX.unpack_from(page)[1]
    if zlib.crc32(page[:12]) != _CHECK.unpack_from(page, 12)[0]:
        raise BadFile(f"{path} is damaged in its header: restore it from a copy")
    if version > VERSION:
        raise NewerFormat(
            f"{path} has format version {version}, this sghash reads up to {VERSION}: "
            "upgrade sghash"
        )
    lengths: list[int] = [
        _SLOT.unpack_from(page, slot)[0]
        for slot in _SLOTS
        if page[slot : slot + 12] == _slot(_SLOT.unpack_from(page, slot)[0])
    ]
    if not lengths:
        raise BadFile(f"{path} is damaged: no acknowledged length; restore it from a copy")
    return max(lengths)


def _slot(length: int) -> bytes:
    text = _SLOT.pack(length)
    return text + _CHECK.pack(zlib.crc32(text))


class LogWriter:
    """Appends records; a record that could not be written whole is taken back."""

    def __init__(self, path: Path, end: int) -> None:
        self.path, self.end = path, end
        self._handle = open_to_append(path)
        self._turn = 0
        try:
            with storage_errors(path):
                if os.fstat(self._handle).st_size > end:
                    os.ftruncate(self._handle, end)
                # A record that was whole but not yet acknowledged when a writer died counts now.
                sync_file(self._handle)
                for _ in _SLOTS:
                    self._acknowledge()
        except BaseException:
            os.close(self._handle)
            raise

    def append(self, pieces: Sequence[Any]) -> None:
        """Add a record made of these pieces; it is on the disk when this returns."""
        payload = b"".join(pieces)
        head = _RECORD.pack(len(payload), zlib.crc32(payload))
        record = head + _CHECK.pack(zlib.crc32(head)) + payload
        with storage_errors(self.path):
            try:
                os.lseek(self._handle, self.end, os.SEEK_SET)
                write_all(self._handle, record)
                sync_file(self._handle)
            except OSError as error:
                self._take_back(error)
                raise
            self.end += len(record)
            # The record is on the disk whether or not its end can be noted.
            with suppress(OSError):
                self._acknowledge()

    def _acknowledge(self) -> None:
        """Note the end in the slot whose turn it is: no need to wait for the disk here."""
        os.lseek(self._handle, _SLOTS[self._turn], os.SEEK_SET)
        write_all(self._handle, _slot(self.end))
        self._turn = 1 - self._turn

    def _take_back(self, error: OSError) -> None:
        try:
            os.ftruncate(self._handle, self.end)
        except OSError:
            raise StorageError(
                error.errno,
                f"cannot write {self.path} nor undo half a record: open the collection again",
            ) from error

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
