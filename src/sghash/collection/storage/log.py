"""The log: what was added and deleted since the last segment was written.

    offset 0      8 bytes  magic "SGHCOLOG"; u32 format version
    offset 12     16 bytes identity of this log, drawn at random; u32 CRC-32 of the 28 bytes
    offset 512    slot     u64 length, u32 CRC-32 of it: how much of the file is acknowledged
    offset 1024   slot     the same; the two take turns, so that one is always whole
    offset 4096   records  u64 length of the payload, u32 its CRC-32, u32 CRC-32 of the record's
                           place in the file and these twelve bytes, payload; one after the other

All checksums but the first begin with the CRC-32 of the identity in place of 0: a record or a slot
of another log does not fit. (Version 1 has no identity, and its CRC-32 of a record's head leaves
out the place.)

A record is acknowledged when it is on the disk; only then its end is noted in a slot. So a file
that ends in half a record after the acknowledged length was cut by a crash, and that half is
dropped; anything wrong before that length is damage, and is reported.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sghash.collection.storage.disk import Handle, sync_file, write_all, write_new
from sghash.errors import BadFile, NewerFormat, StorageError
from sghash.files import Place, place_of, storage_errors

MAGIC = b"SGHCOLOG"
VERSION = 2
START = 4096
IDENTITY_BYTES = 16
_PREFIX = struct.Struct("<8sI")
_CHECK = struct.Struct("<I")
_SLOT = struct.Struct("<Q")
_SLOTS = (512, 1024)
_RECORD = struct.Struct("<QI")
RECORD_BYTES = _RECORD.size + _CHECK.size


class Seal(NamedTuple):
    """What makes the checksums of one log its own; the identity of a version 1 log is empty."""

    identity: str

    @property
    def start(self) -> int:
        """What checksums begin with."""
        return zlib.crc32(bytes.fromhex(self.identity))

    def slot(self, length: int) -> bytes:
        """An acknowledged length with its checksum."""
        text = _SLOT.pack(length)
        return text + _CHECK.pack(zlib.crc32(text, self.start))

    def head_check(self, place: int, head: bytes) -> int:
        """Checksum of the head of the record at `place`."""
        return zlib.crc32(head, self.start if not self.identity else self._at(place))

    def _at(self, place: int) -> int:
        return zlib.crc32(_SLOT.pack(place), self.start)


class LogContents(NamedTuple):
    """Whole records: payloads, and where each ends; how far they are acknowledged; whose they are.

    `place` tells the file apart from another one of the same name.
    """

    payloads: list[bytes]
    ends: list[int]
    acknowledged: int
    identity: str
    place: Place


def create_log(path: Path, identity: str, payloads: Sequence[bytes] = ()) -> None:
    """Write a log with these records, all acknowledged, durably; the caller syncs the folder."""
    seal, records, end = Seal(identity), [], START
    for payload in payloads:
        records.append(_sealed(seal, end, payload))
        end += len(records[-1])
    page = bytearray(START)
    page[:12] = _PREFIX.pack(MAGIC, VERSION)
    page[12:28] = bytes.fromhex(identity)
    page[28:32] = _CHECK.pack(zlib.crc32(page[:28]))
    for slot in _SLOTS:
        page[slot : slot + 12] = seal.slot(end)
    write_new(path, [page, *records])


def read_log(path: Path, start: int = START) -> LogContents:
    """Read the records from `start` on; what a crash cut off at the end is left out."""
    with open(path, "rb") as stream:
        page = stream.read(START)
        seal = _seal_of(path, page)
        acknowledged = _acknowledged(path, page, seal)
        stream.seek(start)
        # Read after the slots: whatever they acknowledge is in here.
        data = stream.read()
        place = place_of(os.fstat(stream.fileno()))
    payloads: list[bytes] = []
    ends: list[int] = []
    at = 0
    while len(data) - at >= RECORD_BYTES:
        head = data[at : at + _RECORD.size]
        expected = _CHECK.unpack_from(data, at + _RECORD.size)[0]
        if expected != seal.head_check(start + at, head):
            break
        length, checksum = _RECORD.unpack(head)
        payload = data[at + RECORD_BYTES : at + RECORD_BYTES + length]
        if len(payload) < length or zlib.crc32(payload, seal.start) != checksum:
            break
        at += RECORD_BYTES + length
        payloads.append(payload)
        ends.append(start + at)
    if start + at < acknowledged:
        raise BadFile(
            f"{path} is damaged at byte {start + at}, before its acknowledged end "
            f"{acknowledged}: restore it from a copy"
        )
    return LogContents(payloads, ends, acknowledged, seal.identity, place)


def _seal_of(path: Path, page: bytes) -> Seal:
    if len(page) < START or not page.startswith(MAGIC):
        raise BadFile(f"{path} is damaged: it does not begin with {MAGIC.decode()}")
    version = _PREFIX.unpack_from(page)[1]
    if version > VERSION:
        raise NewerFormat(
            f"{path} has format version {version}, this sghash reads up to {VERSION}: "
            "upgrade sghash"
        )
    size = 12 if version == 1 else 12 + IDENTITY_BYTES
    if version < 1 or zlib.crc32(page[:size]) != _CHECK.unpack_from(page, size)[0]:
        raise BadFile(f"{path} is damaged in its header: restore it from a copy")
    return Seal(page[12:size].hex())


def _acknowledged(path: Path, page: bytes, seal: Seal) -> int:
    longest = max(_slot_length(page, slot, seal) for slot in _SLOTS)
    if longest < 0:
        raise BadFile(f"{path} is damaged: no acknowledged length; restore it from a copy")
    return longest


def _slot_length(page: bytes, slot: int, seal: Seal) -> int:
    """What a slot acknowledges; -1 if it is not whole."""
    length = int(_SLOT.unpack_from(page, slot)[0])
    return length if page[slot : slot + 12] == seal.slot(length) else -1


def _sealed(seal: Seal, place: int, payload: bytes) -> bytes:
    """A whole record that shall stand at `place`."""
    head = _RECORD.pack(len(payload), zlib.crc32(payload, seal.start))
    return head + _CHECK.pack(seal.head_check(place, head)) + payload


class LogWriter:
    """Appends records; a record that could not be written whole is taken back."""

    def __init__(self, path: Path, identity: str, end: int, place: Place | None) -> None:
        self.path, self.end = path, end
        self._seal = Seal(identity)
        self._handle = Handle(path)
        self._turn = 0
        try:
            with storage_errors(path):
                if self._handle.place != place:
                    raise StorageError(f"{path} was replaced while it was being opened: try again")
                if os.fstat(self._handle.number).st_size > end:
                    os.ftruncate(self._handle.number, end)
                # A record that was whole but not yet acknowledged when a writer died counts now.
                sync_file(self._handle.number)
                # A crash may have torn one slot: the other one is whole until this one is again.
                self._turn = self._weaker_slot()
                self._acknowledge()
                sync_file(self._handle.number)
                self._acknowledge()
        except BaseException:
            self._handle.close()
            raise

    def _weaker_slot(self) -> int:
        """The slot that can be spared: one that is not whole, or the one that says less."""
        os.lseek(self._handle.number, 0, os.SEEK_SET)
        page = os.read(self._handle.number, START)
        lengths = [_slot_length(page, slot, self._seal) for slot in _SLOTS]
        return lengths.index(min(lengths))

    def append(self, payload: bytes) -> None:
        """Add a record with this payload; it is on the disk when this returns."""
        self._check_place()
        record = _sealed(self._seal, self.end, payload)
        with storage_errors(self.path):
            try:
                os.lseek(self._handle.number, self.end, os.SEEK_SET)
                write_all(self._handle.number, record)
                sync_file(self._handle.number)
            except OSError as error:
                self._take_back(error)
                raise
            self.end += len(record)
            # The record is on the disk whether or not its end can be noted.
            with suppress(OSError):
                self._acknowledge()

    def _check_place(self) -> None:
        """Refuse to write into a file that nobody will find under its name."""
        with storage_errors(self.path):
            same = self.path.exists() and place_of(os.stat(self.path)) == self._handle.place
        if not same:
            raise StorageError(
                f"{self.path} was moved or replaced while it was open for writing: nothing was "
                "written; close the collection, restore the file, and open it again"
            )

    def _acknowledge(self) -> None:
        """Note the end in the slot whose turn it is: no need to wait for the disk here."""
        os.lseek(self._handle.number, _SLOTS[self._turn], os.SEEK_SET)
        write_all(self._handle.number, self._seal.slot(self.end))
        self._turn = 1 - self._turn

    def _take_back(self, error: OSError) -> None:
        try:
            os.ftruncate(self._handle.number, self.end)
        except OSError:
            raise StorageError(
                error.errno,
                f"cannot write {self.path} nor undo half a record: open the collection again",
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._handle.close()
