"""Damage to index files of the first format, every checksum right again."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np

PREFIX = struct.Struct("<8sIII")
NUMBERS = [
    0, 1, -1, 2, 7, 8, 9, 15, 16, 63, 64, 65, 128, 255, 256, 257, 320, 384, 4095, 4096, 4097,
    2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**56, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, 10**300,
]  # fmt: skip
OTHERS = [None, True, False, 0.0, 1.5, 1e300, float("nan"), float("inf"), "", "8", [], [8], {}]
TEXTS = [
    b"", b"0", b"null", b"[]", b"{}", b'"text"', b"{", b"\xff\xfe", b"\0" * 64, b"NaN",
    b"[" * 60_000, b'{"n":' * 10_000, b"9" * 5000, b'{"n_bits": 1e5}', "{}".encode("utf-16"),
]  # fmt: skip


class Old:
    """A file taken apart: what its prefix says, its header, and the bytes behind it."""

    def __init__(self, whole: bytes) -> None:
        self.magic, self.version, length, _ = PREFIX.unpack_from(whole)
        self.header = json.loads(whole[PREFIX.size : PREFIX.size + length])
        self.room = length
        self.body = bytearray(whole[PREFIX.size + length :])
        self.text: bytes | None = None
        self.length: int | None = None

    def section(self, name: str) -> tuple[int, int]:
        """Where rows ("data") or ids begin and end in the body."""
        n, n_bits = self.header["n"], self.header["n_bits"]
        start = self.header[f"{name}_start"] - PREFIX.size - self.room
        return start, start + (8 * n if name == "ids" else n * ((n_bits + 7) // 8))

    def put(self, name: str, data: bytes) -> None:
        """Replace a section, and make its checksum right again."""
        start, stop = self.section(name)
        self.body[start:stop] = data
        self.header["ids_crc32" if name == "ids" else "codes_crc32"] = zlib.crc32(data)

    def joined(self) -> bytes:
        """The file, the checksum of its header right again."""
        text = self.text
        if text is None:
            text = json.dumps(self.header).encode().ljust(self.room)
        length = len(text) if self.length is None else self.length
        prefix = PREFIX.pack(self.magic, self.version, length, zlib.crc32(text[:length]))
        return prefix + text + bytes(self.body)


def change_field(parts: Old, rng: np.random.Generator) -> None:
    """Another value, near the right one, far from it, of another type, or none."""
    name = str(rng.choice(sorted(parts.header)))
    value = parts.header[name]
    near = [] if value is None else [value + int(step) for step in (-64, -8, -1, 1, 8, 64)]
    choices = [*NUMBERS, *OTHERS, *near, *near, *near]
    parts.header[name] = choices[rng.integers(len(choices))]
    if rng.random() < 0.05:
        del parts.header[name]


def change_sections(parts: Old, rng: np.random.Generator) -> None:
    """Number of rows or begin of a section, and a file that is as long as they say."""
    name = str(rng.choice(["n", "n_bits", "data_start", "ids_start"]))
    if parts.header[name] is not None:
        parts.header[name] = max(0, parts.header[name] + int(rng.integers(-70, 70)))
    header = parts.header
    end = header["data_start"] + header["n"] * ((header["n_bits"] + 7) // 8)
    if header["ids_start"] is not None:
        end = header["ids_start"] + 8 * header["n"]
    size = max(0, end - PREFIX.size - parts.room)
    if size > 1 << 16:  # another change made them huge: the file stays as short as it is
        return
    parts.body = bytearray(bytes(parts.body).ljust(size, b"\0")[:size])
    for section, crc in (("data", "codes_crc32"), ("ids", "ids_crc32")):
        if header[f"{section}_start"] is not None:
            start, stop = parts.section(section)
            header[crc] = zlib.crc32(parts.body[max(0, start) : max(0, stop)])


def change_ids(parts: Old, rng: np.random.Generator) -> None:
    """Ids that fall, repeat, are negative or are the largest of all."""
    if parts.header["ids_start"] is None or not parts.header["n"]:
        return
    start, stop = parts.section("ids")
    ids = np.frombuffer(bytes(parts.body[start:stop]), dtype="<i8").copy()
    place = int(rng.integers(len(ids)))
    extremes = [-1, 0, 2**63 - 1, 2**63 - 2, -(2**63), int(ids[-1]) + 1, int(ids[0])]
    ids[place] = extremes[rng.integers(len(extremes))]
    if rng.random() < 0.5:
        ids = np.sort(ids)
    if rng.random() < 0.5:
        parts.header["next_id"] = int(ids[-1]) + int(rng.integers(0, 2))
    parts.put("ids", ids.tobytes())


def change_rows(parts: Old, rng: np.random.Generator) -> None:
    """Other bits, those of the padding as well."""
    start, stop = parts.section("data")
    data = np.frombuffer(bytes(parts.body[start:stop]), dtype=np.uint8).copy()
    if len(data):
        data[rng.integers(len(data), size=3)] ^= np.uint8(1 << rng.integers(8))
    parts.put("data", data.tobytes())


def change_text(parts: Old, rng: np.random.Generator) -> None:
    """Something else where the header should be, or a length that is not its own."""
    if rng.random() < 0.5:
        parts.text = TEXTS[rng.integers(len(TEXTS))]
    else:
        parts.length = int(rng.choice([0, 1, 20, parts.room - 1, parts.room + 1, 2**31, 2**32 - 1]))


def change_version(parts: Old, rng: np.random.Generator) -> None:
    """A version that never was, or that is not yet."""
    parts.version = int(rng.choice([0, 2, 3, 255, 2**32 - 1]))


CHANGES = {
    change_field: 8, change_sections: 5, change_ids: 4, change_rows: 2, change_text: 3,
    change_version: 1,
}  # fmt: skip
