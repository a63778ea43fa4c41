"""Index files of the second format taken apart, and put together with every checksum right."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np

PREFIX = struct.Struct("<8sIII")
BLOCK = 1 << 20


class Parts:
    """A file in pieces: the header without its table, the table, the bytes of each section.

    Whatever is changed, `joined` computes all checksums anew. `text` replaces the whole header.
    """

    def __init__(self, whole: bytes) -> None:
        self.magic, self.version, length, _ = PREFIX.unpack_from(whole)
        self.about = json.loads(whole[PREFIX.size : PREFIX.size + length])
        self.table = self.about.pop("sections")
        self.data, offset = {}, PREFIX.size + length
        for name, kind, shape in self.table:
            size = np.dtype(kind).itemsize * int(np.prod(shape))
            self.data[name] = whole[offset : offset + size]
            offset += aligned(size)
        self.text = None

    def array(self, name):
        """A section as an array that may be changed; `put` writes it back."""
        kind, shape = next(entry[1:] for entry in self.table if entry[0] == name)
        if max(shape) > 512:
            raise ValueError("another change made it huge")
        return np.frombuffer(self.data[name], dtype=kind).reshape(shape).copy()

    def put(self, name, array):
        """Give a section other contents, type and shape, or add one."""
        self.drop(name, missing=True)
        self.table.append([name, array.dtype.str, list(array.shape)])
        self.data[name] = array.tobytes()

    def drop(self, name, *, missing=False):
        """Leave a section out."""
        assert missing or name in self.data
        self.table = [entry for entry in self.table if entry[0] != name]
        self.data.pop(name, None)

    def joined(self) -> bytes:
        text = self.text
        if text is None:
            text = json.dumps({**self.about, "sections": self.table})
            text = text.encode("utf-8", "surrogatepass")
            text = text.ljust(aligned(PREFIX.size + len(text)) - PREFIX.size)
        head = PREFIX.pack(self.magic, self.version, len(text), zlib.crc32(text)) + text
        body, checksums = b"", []
        for data in self.data.values():
            body += data.ljust(aligned(len(data)), b"\0")
            blocks = [data[start : start + BLOCK] for start in range(0, len(data), BLOCK)]
            checksums += [zlib.crc32(block) for block in blocks]
        tail = np.asarray(checksums, dtype="<u4").tobytes()
        return head + body + tail + struct.pack("<I", zlib.crc32(tail))


def aligned(offset: int) -> int:
    return -(-offset // 64) * 64
