"""A writer of the first format of index files, which `sghash` only reads."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np

PREFIX = struct.Struct("<8sIII")


def write_version_1(path, index, next_id=None):
    """Write what a `HammingIndex` holds as the first `sghash` did, byte by byte.

    `next_id` is the one after the largest, unless rows above it were deleted.
    """
    codes, ids = np.asarray(index.codes).tobytes(), index.ids
    explicit = not np.array_equal(ids, np.arange(len(ids)))
    stored = ids.astype("<i8").tobytes()
    header = {
        "n_bits": index.n_bits,
        "n": len(index),
        "next_id": int(ids.max(initial=-1)) + 1 if next_id is None else next_id,
        "codes_crc32": zlib.crc32(codes),
        "ids_crc32": zlib.crc32(stored) if explicit else None,
    }
    start = aligned(PREFIX.size + len(json.dumps(header)) + 80)
    ids_start = aligned(start + len(codes))
    header |= {"data_start": start, "ids_start": ids_start if explicit else None}
    text = json.dumps(header).encode().ljust(start - PREFIX.size)
    whole = PREFIX.pack(b"SGHINDEX", 1, len(text), zlib.crc32(text)) + text + codes
    path.write_bytes(whole.ljust(ids_start, b"\0") + stored if explicit else whole)


def aligned(offset):
    return -(-offset // 64) * 64
