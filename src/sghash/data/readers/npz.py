"""NumPy's `.npz`: a zip archive of `.npy` members, stored or deflated."""

from __future__ import annotations

import struct
import sys
import zipfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sghash.data.readers import npy
from sghash.data.readers.fixed import FixedColumns, FixedRows
from sghash.data.readers.stream import DAMAGE, StreamedRows, check_ratio
from sghash.data.sources import ArraySource, RowSource, bad_file, check_stored
from sghash.errors import InvalidInput

#: Tried in this order where no key is given and several tables are there.
USUAL_KEYS = ("vectors", "base", "train")
#: Labels and texts of any set fit; a small archive can announce far more.
MAX_ARRAY_BYTES = 1 << 31
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")


def open_source(path: Path, *, key: str | None) -> RowSource:
    """Open the array called `key`; without a key, the only table or one of `USUAL_KEYS`."""
    members = _members(path)
    name = key if key is not None else _choose(path, members)
    if name not in members:
        listed = ", ".join(sorted(members)) or "no arrays"
        raise InvalidInput(f"{path} has no array {name!r}, it has {listed}: choose one as key")
    source = _open_array(path, members[name], name)
    source.columns = (name,)
    return source


def _open_array(path: Path, info: zipfile.ZipInfo, name: str) -> RowSource:
    header = _header(path, info)
    shape = npy.table_shape(path, header)
    if info.compress_type == zipfile.ZIP_STORED:
        kind = FixedColumns if header.by_columns else FixedRows
        return kind(path, _data_offset(path, info) + header.size, shape, header.dtype)
    if header.by_columns:
        # Nothing of it can be read without all of it.
        check_stored(path, info.header_offset, shape, header.dtype)
        return ArraySource(read_array(path, name))
    opened = partial(_open_member, path, info.filename)
    return StreamedRows(path, opened, header.size, shape, header.dtype)


def read_keys(path: Path) -> set[str]:
    """Names of the arrays in the archive."""
    return set(_members(path))


def read_array(path: Path, key: str) -> NDArray[Any]:
    """Load the whole array `key` (labels, offsets, text), refusing Python objects."""
    info = _members(path).get(key)
    if info is None:
        raise bad_file(path, 0, expected=f"an array {key!r}", found="none of that name")
    header = _header(path, info)
    if header.dtype.kind not in "fiubU" or info.file_size > MAX_ARRAY_BYTES:
        expected = f"numbers or texts of at most {MAX_ARRAY_BYTES} bytes in {info.filename}"
        found = f"{info.file_size} bytes of {header.dtype}"
        raise bad_file(path, info.header_offset, expected=expected, found=found)
    try:
        with _open_member(path, info.filename) as stream:
            content = stream.read()
        values = np.frombuffer(content, dtype=header.dtype, offset=header.size)
        if header.dtype.kind == "U" and values.view("<u4").max(initial=0) > sys.maxunicode:
            raise ValueError("numbers that are no characters")
        return values.reshape(header.shape, order="F" if header.by_columns else "C").copy()
    except (ValueError, *DAMAGE) as error:
        expected = f"a member {info.filename} that can be read"
        raise bad_file(
            path, info.header_offset, expected=expected, found=f"damage ({error})"
        ) from error


def read_number(path: Path, key: str) -> int | float:
    """Load the array `key`, which must be a single number."""
    array = read_array(path, key)
    if array.ndim or array.dtype.kind not in "fiu":
        found = f"{array.dtype} of shape {array.shape}"
        raise bad_file(path, 0, expected=f"one number in {key!r}", found=found)
    number: int | float = array.item()
    return number


def _members(path: Path) -> dict[str, zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (ValueError, *DAMAGE) as error:
        size = path.stat().st_size
        expected = "the directory of a zip archive at the end"
        raise bad_file(path, size, expected=expected, found=f"damage ({error})") from error
    found = {}
    for info in entries:
        if info.filename.endswith(".npy"):
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                expected = "members that are stored or deflated"
                kind = f"method {info.compress_type} in {info.filename}"
                raise bad_file(path, info.header_offset, expected=expected, found=kind)
            found[info.filename.removesuffix(".npy")] = info
    return found


def _open_member(path: Path, name: str) -> BinaryIO:
    archive = zipfile.ZipFile(path)
    # The member keeps the file open; closing the archive object only drops the directory.
    with archive:
        return archive.open(name)  # type: ignore[return-value]


def _header(path: Path, info: zipfile.ZipInfo) -> npy.NpyHeader:
    try:
        with _open_member(path, info.filename) as stream:
            header = npy.read_header(stream, path)
    except DAMAGE as error:
        expected = f"a member {info.filename} that can be read"
        raise bad_file(
            path, info.header_offset, expected=expected, found=f"damage ({error})"
        ) from error
    payload = header.dtype.itemsize
    for length in header.shape:
        if length < 0:
            expected = f"lengths that are not negative in {info.filename}"
            raise bad_file(path, info.header_offset, expected=expected, found=str(header.shape))
        payload *= length
    check_ratio(path, info.header_offset, header.size + payload, info.compress_size)
    if header.size + payload != info.file_size:
        expected = f"{header.size + payload} bytes in {info.filename} for shape {header.shape}"
        found = f"{info.file_size} bytes"
        raise bad_file(path, info.header_offset, expected=expected, found=found)
    return header


def _choose(path: Path, members: dict[str, zipfile.ZipInfo]) -> str:
    tables = [name for name, info in members.items() if len(_header(path, info).shape) == 2]
    if len(tables) == 1:
        return tables[0]
    for name in USUAL_KEYS:
        if name in tables:
            return name
    listed = ", ".join(sorted(tables)) or "none"
    raise InvalidInput(f"{path} holds several tables or no table ({listed}): give its key")


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    with open(path, "rb") as stream:
        stream.seek(info.header_offset)
        raw = stream.read(_LOCAL_HEADER.size)
    # `zipfile` has checked this header when the array's own header was read.
    fields = _LOCAL_HEADER.unpack(raw)
    offset = info.header_offset + _LOCAL_HEADER.size + int(fields[9]) + int(fields[10])
    size = path.stat().st_size
    if offset + info.file_size > size:
        expected = f"{info.file_size} bytes of {info.filename} from byte {offset} on"
        raise bad_file(path, size, expected=expected, found="the end")
    return offset


def write(
    stream: BinaryIO,
    blocks: Iterable[NDArray[Any]],
    shape: tuple[int, int],
    dtype: np.dtype[Any],
) -> None:
    """Write one array "vectors", stored and not deflated, so that it is read by position."""
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive,
        archive.open("vectors.npy", "w", force_zip64=True) as member,
    ):
        npy.write(member, blocks, shape, dtype)  # type: ignore[arg-type]
