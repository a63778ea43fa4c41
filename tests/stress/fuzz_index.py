"""Damaged index files, their checksums made right again: refused in a sentence, or consistent.

    python tests/stress/fuzz_index.py [seed] [number of files]

A file that is not refused must answer exactly as the reference does over the codes and ids that
the loaded index then says it holds.
"""

from __future__ import annotations

import contextlib
import json
import struct
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from sghash import HammingIndex, InvalidInput, SghashError, pack_bits
from sghash.kernels import reference

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


class Parts:
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


def bases(folder: Path, rng: np.random.Generator) -> list[bytes]:
    """Whole files: with ids and without, with padding and without, with rows and without."""
    files = []
    for n_bits, n, explicit in [(9, 30, True), (16, 40, False), (77, 25, True), (8, 0, False)]:
        index = HammingIndex(n_bits=n_bits)
        ids = np.sort(rng.permutation(500)[:n]) if explicit else None
        index.add(pack_bits(rng.random((n, n_bits)) < 0.5), ids=ids)
        index.save(folder / "base")
        files.append((folder / "base").read_bytes())
    return files


def change_field(parts: Parts, rng: np.random.Generator) -> None:
    """Another value, near the right one, far from it, of another type, or none."""
    name = str(rng.choice(sorted(parts.header)))
    value = parts.header[name]
    near = [] if value is None else [value + int(step) for step in (-64, -8, -1, 1, 8, 64)]
    choices = [*NUMBERS, *OTHERS, *near, *near, *near]
    parts.header[name] = choices[rng.integers(len(choices))]
    if rng.random() < 0.05:
        del parts.header[name]


def change_sections(parts: Parts, rng: np.random.Generator) -> None:
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


def change_ids(parts: Parts, rng: np.random.Generator) -> None:
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


def change_rows(parts: Parts, rng: np.random.Generator) -> None:
    """Other bits, those of the padding as well."""
    start, stop = parts.section("data")
    data = np.frombuffer(bytes(parts.body[start:stop]), dtype=np.uint8).copy()
    if len(data):
        data[rng.integers(len(data), size=3)] ^= np.uint8(1 << rng.integers(8))
    parts.put("data", data.tobytes())


def change_text(parts: Parts, rng: np.random.Generator) -> None:
    """Something else where the header should be, or a length that is not its own."""
    if rng.random() < 0.5:
        parts.text = TEXTS[rng.integers(len(TEXTS))]
    else:
        parts.length = int(rng.choice([0, 1, 20, parts.room - 1, parts.room + 1, 2**31, 2**32 - 1]))


def change_version(parts: Parts, rng: np.random.Generator) -> None:
    """A version that never was, or that is not yet."""
    parts.version = int(rng.choice([0, 2, 3, 255, 2**32 - 1]))


CHANGES = [change_field, change_sections, change_ids, change_rows, change_text, change_version]
WEIGHTS = np.asarray([8, 5, 4, 2, 3, 1]) / 23


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    """One or two changes to the structure, or to bytes of any place, or to the length."""
    kind = rng.random()
    if kind < 0.7:
        parts = Parts(whole)
        for change in rng.choice(np.asarray(CHANGES), size=rng.integers(1, 3), p=WEIGHTS):
            try:
                change(parts, rng)
            except (TypeError, ValueError, KeyError, OverflowError):
                # A field is no number, or no such number, any more: the change before will do.
                break
        return parts.joined()
    raw = bytearray(whole)
    if kind < 0.85:
        for place in rng.integers(len(raw), size=rng.integers(1, 4)):
            raw[place] = rng.integers(256)
    elif kind < 0.9:
        start = int(rng.integers(len(raw)))
        raw[start : start + int(rng.integers(1, 200))] = bytes(int(rng.integers(1, 200)))
    else:
        raw = raw[: rng.integers(len(raw) + 1)] + bytes(int(rng.integers(0, 70)))
    return bytes(raw)


def check_consistent(index: HammingIndex, rng: np.random.Generator, mapped: bool) -> None:
    """Every answer must be what the reference makes of the codes and ids that are told."""
    codes, ids, n_bits = np.asarray(index.codes), index.ids, index.n_bits
    n_bytes = (n_bits + 7) // 8
    assert codes.shape == (len(index), n_bytes) and ids.shape == (len(index),)
    assert np.all(ids >= 0) and np.all(ids[1:] > ids[:-1])
    queries = pack_bits(rng.random((int(rng.choice([2, 9])), n_bits)) < 0.5)
    expected = reference.hamming_neighbors(codes, queries, 5, n_bits=n_bits)
    found = index.search(queries, 5, threads=1)
    told = expected.ids if not len(ids) else np.where(expected.ids < 0, -1, ids[expected.ids])
    np.testing.assert_array_equal(found.ids, told)
    np.testing.assert_array_equal(found.distances, expected.distances)
    within = reference.hamming_range(codes, queries, n_bits // 2, n_bits=n_bits)
    near = index.range_search(queries, n_bits // 2, threads=1)
    np.testing.assert_array_equal(near.limits, within.limits)
    np.testing.assert_array_equal(near.ids, ids[within.ids])
    if not mapped:
        spare = 8 * n_bytes - n_bits
        assert not np.any(codes[:, -1] & ((1 << spare) - 1))
    with contextlib.suppress(InvalidInput):  # no numbers are left
        (new,) = index.add(np.zeros(n_bytes, dtype=np.uint8)).tolist()
        assert new > ids.max(initial=-1)


def outcome(path: Path, rng: np.random.Generator, mapped: bool) -> str:
    """Load a file and say how it went; anything else than the two good ways is raised."""
    try:
        index = HammingIndex.load(path, mmap=mapped)
    except SghashError as error:
        sentence = str(error)
    else:
        check_consistent(index, rng, mapped)
        return "consistent"
    assert "\n" not in sentence and len(sentence) < 300
    return "refused"


def run(seed: int, n: int) -> dict[str, int]:
    """Damage n files; return how many were refused, and how many answered as they should."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "index"
        wholes = bases(Path(name), rng)
        for number in range(n):
            raw = damaged(wholes[rng.integers(len(wholes))], rng)
            path.write_bytes(raw)
            for mapped in (False, True):
                try:
                    counts[outcome(path, rng, mapped)] += 1
                except BaseException as error:
                    error.add_note(f"seed {seed}, file {number}, mapped {mapped}: {raw[:400]!r}")
                    raise
    return dict(counts)


if __name__ == "__main__":
    print(run(*(int(word) for word in (sys.argv[1:] + ["0", "5000"][len(sys.argv) - 1 :])[:2])))
