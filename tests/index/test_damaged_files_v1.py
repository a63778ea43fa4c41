"""Files of the first format, damaged although their checksums fit: told in a sentence."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np
import pytest

from sghash.bits import pack_bits
from sghash.errors import BadFile
from sghash.index import HammingIndex
from sghash.index.file import verify_index
from tests.index.version_1 import PREFIX, write_version_1


@pytest.fixture
def path(tmp_path, rng):
    index = HammingIndex(n_bits=20)
    index.add(pack_bits(rng.random((50, 20)) < 0.5), ids=np.arange(50) * 3)
    write_version_1(tmp_path / "index", index)
    return tmp_path / "index"


def rewrite(path, text=None, body=None, **fields):
    """Write the file again with another header and body, the header's checksum fitting."""
    whole = path.read_bytes()
    magic, version, length, _ = PREFIX.unpack_from(whole)
    header = json.loads(whole[PREFIX.size : PREFIX.size + length]) | fields
    if text is None:
        text = json.dumps(header).encode().ljust(length)
    body = whole[PREFIX.size + length :] if body is None else body
    path.write_bytes(PREFIX.pack(magic, version, len(text), zlib.crc32(text)) + text + body)


def told(path, match, modes=(False, True)):
    for mmap in modes:
        with pytest.raises(BadFile, match=match) as caught:
            HammingIndex.load(path, mmap=mmap)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"7", b"[]", b"{}", b"{", b"\xff", b'{"n": 1}', b"[" * 60_000, b"9" * 5000,
     b'{"n":' * 10_000, json.dumps({}).encode("utf-16"), b" " * 70_000],
    ids=lambda text: repr(text[:8]),
)  # fmt: skip
def test_another_text_than_a_header_is_told(path, text):
    rewrite(path, text=text)
    told(path, "header")


def test_zeros_are_no_header(tmp_path):
    """The checksum of nothing is zero: lengths and checksums of zeros fit each other."""
    (tmp_path / "zeros").write_bytes(b"SGHINDEX" + struct.pack("<I", 1) + bytes(2000))
    told(tmp_path / "zeros", "header")


@pytest.mark.parametrize("name", ["n_bits", "n", "next_id", "data_start", "codes_crc32"])
@pytest.mark.parametrize("value", [None, True, 1.0, "1", [], -1, 2**64, 10**400, float("nan")])
def test_a_header_holds_whole_numbers_in_their_ranges(path, name, value):
    rewrite(path, **{name: value})
    told(path, f"header gives {name}")


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"n": 2**50}, "overlap"),
        ({"n": 49}, "bytes where"),
        ({"n_bits": 0}, "gives n_bits"),
        ({"n_bits": 4097}, "gives n_bits"),
        ({"data_start": 0}, "gives data_start"),
        ({"data_start": 64}, "begin within its header"),
        ({"data_start": 2**61}, "overlap|within|bytes where"),
        ({"data_start": 321}, "multiples of 64"),
        ({"ids_start": 2**61}, "bytes where"),
        ({"ids_start": 128}, "overlap"),
        ({"ids_start": None}, "gives ids_start"),
        ({"ids_crc32": None}, "gives ids_crc32"),
        ({"ids_start": None, "ids_crc32": None}, "bytes where"),
        ({"next_id": 147}, "next id is 147, but 147 is in use"),
        ({"next_id": 0}, "next id is 0, but 147 is in use"),
    ],
)
def test_numbers_that_do_not_fit_each_other_are_told(path, fields, match):
    rewrite(path, **fields)
    told(path, match)


def test_a_next_id_that_is_in_use_is_told_without_ids_as_well(tmp_path):
    index = HammingIndex(n_bits=8)
    index.add(np.zeros((4, 1), dtype=np.uint8))
    write_version_1(tmp_path / "index", index)
    rewrite(tmp_path / "index", next_id=3)
    told(tmp_path / "index", "next id is 3, but 3 is in use")


@pytest.mark.parametrize(
    "change",
    [lambda ids: ids[::-1], lambda ids: np.zeros_like(ids), lambda ids: ids - 1],
    ids=["falling", "equal", "negative"],
)
def test_ids_that_do_not_rise_from_zero_are_told(path, change):
    raw = path.read_bytes()
    ids = np.ascontiguousarray(change(np.arange(50, dtype="<i8") * 3)).tobytes()
    path.write_bytes(raw[:-400] + ids)
    rewrite(path, ids_crc32=zlib.crc32(ids))
    told(path, "ids do not rise")


def test_an_id_beyond_the_last_possible_one_is_told(path):
    """Nobody could ask for it by its number."""
    ids = np.arange(50, dtype="<i8") * 3
    ids[-1] = 2**63 - 1
    path.write_bytes(path.read_bytes()[:-400] + ids.tobytes())
    rewrite(path, ids_crc32=zlib.crc32(ids.tobytes()), next_id=2**63)
    told(path, "header gives next_id")
    rewrite(path, next_id=2**63 - 1)
    told(path, "is in use")


def test_bits_set_in_the_padding_are_told_when_the_rows_are_read(path):
    raw = bytearray(path.read_bytes())
    _, _, length, _ = PREFIX.unpack_from(raw)
    start = json.loads(raw[PREFIX.size : PREFIX.size + length])["data_start"]
    raw[start + 2] |= 1
    path.write_bytes(raw)
    rewrite(path, codes_crc32=zlib.crc32(raw[start : start + 150]))
    told(path, "padding after bit 20", modes=(False,))
    with pytest.raises(BadFile, match="padding"):
        verify_index(path)
    assert len(HammingIndex.load(path, mmap=True)) == 50


def test_a_file_that_is_cut_short_while_it_is_read_is_told(path, monkeypatch):
    size = path.stat().st_size
    real = json.loads

    def cut_then_read(text):
        with open(path, "r+b") as stream:
            stream.truncate(size - 500)
        return real(text)

    monkeypatch.setattr("sghash.index.file_v1.json.loads", cut_then_read)
    with pytest.raises(BadFile):
        HammingIndex.load(path)
