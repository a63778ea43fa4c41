"""The index file: codes, ids and what the kind of index needs, in one checked container.

Its header names the kind ("hamming", "tables", "partitioned" or "multi"), its options, the number
of rows, the first id and the next one. The codes of a partitioned index stand in blocks, list by
list. A file may be damaged in ways that its checksums do not show: every number is checked before
anything is allocated, read or mapped by what it says.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import BadFile, InvalidInput, NewerFormat
from sghash.files import check_plain_file, write_atomically
from sghash.index import file_v1
from sghash.index.container import Packing, SectionFile, read_sections, section_of
from sghash.index.rows import RowIds
from sghash.validation import MAX_BITS, MAX_ID, Codes, Ids

MAGIC = file_v1.MAGIC
#: Kind of index -> options that its file may have: whole numbers, and arrays (float64).
OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "hamming": (("n_bits",), ()),
    "tables": (("n_bytes", "n_bits"), ("gram",)),
    "partitioned": (("n_bytes", "n_bits"), ("gram",)),
    "multi": (("n_bits", "n_parts"), ()),
}
#: Kind of index -> further arrays that its file may have; the kind itself checks them.
PARTS: dict[str, tuple[str, ...]] = {
    "partitioned": (
        "numbers", "counts", "ranks", "terms", "centroids", "group_starts", "group_centroids",
        "map_slopes", "map_bias", "curve",
    ),
}  # fmt: skip


class StoredIndex(NamedTuple):
    """What an index file holds; `options` are numbers, and arrays by name."""

    kind: str
    options: Mapping[str, Any]
    codes: Codes
    row_ids: RowIds
    next_id: int
    parts: Mapping[str, NDArray[Any]] = MappingProxyType({})


def write_index(path: str | os.PathLike[str], stored: StoredIndex) -> None:
    """Write the file beside its target, then rename it into place."""
    packing = packing_of(stored)

    def write(stream: BinaryIO) -> None:
        for piece in packing:
            stream.write(piece)

    write_atomically(path, write)


def packing_of(stored: StoredIndex, **further: str | int) -> Packing:
    """The file in the making; its header says what is `further` to be said of it."""
    arrays: dict[str, NDArray[Any]] = {"codes": stored.codes}
    if stored.row_ids.ids is not None:
        arrays["ids"] = stored.row_ids.ids
    arrays |= stored.parts
    plain = {}
    for name, value in stored.options.items():
        if isinstance(value, np.ndarray):
            arrays[f"options.{name}"] = value
        else:
            plain[name] = value
    about: dict[str, Any] = {
        "kind": stored.kind,
        "options": plain,
        "n": stored.row_ids.n,
        "first": stored.row_ids.first,
        "next_id": stored.next_id,
    }
    sections = {name: section_of(array) for name, array in arrays.items()}
    return Packing(MAGIC, {**further, **about}, sections)


def read_index(path: str | os.PathLike[str], kind: str, *, mmap: bool) -> StoredIndex:
    """Read and check a file of this kind; with `mmap` the rows stay on disk, not yet read."""
    target = Path(path)
    check_plain_file(target)
    if file_v1.is_version_1(target):
        found = _of_version_1(target, mmap=mmap)
    else:
        file = read_sections(target, MAGIC, in_memory=not mmap)
        if mmap:
            # Only the rows stay unread: whoever is found by an id must be the right one.
            file.verify(skipping=("codes",))
        found = stored_index(file)
    if found.kind != kind:
        raise InvalidInput(
            f"{path} holds an index of the kind {found.kind!r}, not {kind!r}: load it with the "
            "class of its kind (sghash.index.INDEXES)"
        )
    return found


def is_index(path: Path) -> bool:
    """Whether a file begins as one of an index does."""
    with open(path, "rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def stored_kind(path: str | os.PathLike[str]) -> str:
    """Return the kind of the index in a file, whose header is checked; its rows are not read."""
    target = Path(path)
    check_plain_file(target)
    if file_v1.is_version_1(target):
        return "hamming"
    return stored_index(read_sections(target, MAGIC)).kind


def verify_index(path: str | os.PathLike[str]) -> None:
    """Read the whole file and raise `BadFile` unless every checksum fits."""
    from sghash.index import load_index

    load_index(path)


def _of_version_1(path: Path, *, mmap: bool) -> StoredIndex:
    n_bits, next_id, codes, ids = file_v1.read_index(path, mmap=mmap)
    first = int(ids[0]) if ids is not None and len(ids) else 0
    return StoredIndex(
        "hamming", {"n_bits": n_bits}, codes, RowIds(len(codes), first, ids), next_id
    )


def stored_index(file: SectionFile) -> StoredIndex:
    """What a file holds, if all of its parts agree."""
    about, arrays = file.about, dict(file.arrays)
    try:
        kind, plain = about["kind"], about["options"]
        n, first, next_id = (about[name] for name in ("n", "first", "next_id"))
        numbers = n, first, next_id
        if any(type(number) is not int or not 0 <= number <= MAX_ID + 1 for number in numbers):
            raise ValueError("its numbers are not valid")
        codes = arrays.pop("codes")
        known = PARTS.get(kind, ()) if isinstance(kind, str) else ()
        parts = {name: arrays.pop(name) for name in known if name in arrays}
        if codes.dtype != np.uint8 or codes.ndim != 2 or (len(codes) != n and not known):
            raise ValueError(f"its codes are {codes.dtype} {codes.shape}, not uint8 of {n} rows")
        ids = arrays.pop("ids", None)
        _check_ids(n, first, next_id, ids)
        options = _checked_options(file.path, kind, plain, arrays)
    except BadFile:
        raise
    except (KeyError, ValueError, TypeError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise BadFile(f"{file.path} is damaged ({reason}): restore it from a copy") from error
    return StoredIndex(kind, options, codes, RowIds(n, first, ids), next_id, parts)


def _checked_options(
    path: Path, kind: Any, plain: Any, arrays: Mapping[str, NDArray[Any]]
) -> dict[str, Any]:
    """The options of an index, numbers and arrays together; what is not known is newer."""
    if not isinstance(kind, str) or not isinstance(plain, dict):
        raise ValueError("its kind or its options are not valid")
    if kind not in OPTIONS:
        raise NewerFormat(
            f"{path} holds an index of the kind {_short(kind)}, this sghash knows "
            f"{', '.join(OPTIONS)}: upgrade sghash"
        )
    of_numbers, of_arrays = OPTIONS[kind]
    unknown = {*plain} - {*of_numbers} | {*arrays} - {f"options.{name}" for name in of_arrays}
    if unknown:
        raise NewerFormat(
            f"{path} has {_short(min(unknown))}, which this sghash does not know in an index of "
            f"the kind {kind!r}: upgrade sghash, or restore the file from a copy"
        )
    for name, value in plain.items():
        if type(value) is not int or not 1 <= value <= MAX_BITS:
            raise ValueError(f"its {name} is {_short(value)}, not a number from 1 to {MAX_BITS}")
    given = {name.removeprefix("options."): array for name, array in arrays.items()}
    for name, array in given.items():
        if array.dtype != np.float64:
            raise ValueError(f"its {name} is {array.dtype}, not float64")
    return {**plain, **given}


def _short(value: Any) -> str:
    """A value as a sentence can show it: on one line, and not for ever."""
    return repr(value)[:40]


def _check_ids(n: int, first: int, next_id: int, ids: Ids | None) -> None:
    last = first + n - 1
    if ids is not None:
        if ids.dtype != np.int64 or ids.shape != (n,) or not n:
            raise ValueError(f"its ids are {ids.dtype} {ids.shape}, not int64 ({n},)")
        if ids[0] != first or np.any(ids[1:] <= ids[:-1]):
            raise ValueError("its ids do not rise")
        last = int(ids[-1])
    if last > MAX_ID or not last < next_id <= MAX_ID + 1:
        raise ValueError(f"its next id is {next_id}, its last one {last}")
