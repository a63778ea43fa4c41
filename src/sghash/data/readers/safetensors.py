"""safetensors: a JSON header that says where each tensor lies, and the numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.data.readers.fixed import FixedRows
from sghash.data.sources import RowSource, bad_file
from sghash.errors import InvalidInput

USUAL_KEYS = ("vectors", "embeddings", "embedding", "base", "train")
MAX_HEADER = 100_000_000
_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "|i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1",
}  # fmt: skip


def open_source(path: Path, *, key: str | None) -> RowSource:
    """Open the tensor called `key`; without a key, the only table or one of `USUAL_KEYS`."""
    size, tensors = _header(path)
    name = key if key is not None else _choose(path, tensors)
    if name not in tensors:
        listed = ", ".join(sorted(tensors)) or "none"
        raise InvalidInput(f"{path} has no tensor {name!r}, it has {listed}: choose one as key")
    kind, shape, (first, last) = _about(path, name, tensors[name])
    if kind not in _TYPES:
        found = f"{kind} in {name!r}"
        raise bad_file(path, 8, expected=f"numbers of type {', '.join(_TYPES)}", found=found)
    stored = np.dtype(_TYPES[kind])
    if len(shape) != 2:
        expected = f"a table of two dimensions in {name!r}"
        raise bad_file(path, 8, expected=expected, found=f"shape {shape}")
    if last - first != shape[0] * shape[1] * stored.itemsize:
        expected = f"{shape[0] * shape[1] * stored.itemsize} bytes for {name!r} of shape {shape}"
        raise bad_file(path, size + first, expected=expected, found=f"{last - first}")
    rows = FixedRows(path, size + first, (shape[0], shape[1]), stored)
    source = HalfRows(rows) if kind == "BF16" else rows
    source.columns = (name,)
    return source


class HalfRows(RowSource):
    """Numbers of bfloat16, the upper half of float32, as float32."""

    def __init__(self, halves: RowSource) -> None:
        self.halves = halves
        self.shape, self.dtype = halves.shape, np.dtype(np.float32)

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        return (self.halves.read(start, stop).astype(np.uint32) << 16).view(np.float32)


def _header(path: Path) -> tuple[int, dict[str, Any]]:
    """Where the numbers begin, and what is said of each tensor."""
    size = path.stat().st_size
    with open(path, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 10 or not 2 <= length <= min(MAX_HEADER, size - 8):
            expected = f"the length of a header, at most {max(size - 8, 0)}"
            raise bad_file(path, 0, expected=expected, found=f"{length} in {size} bytes")
        text = stream.read(length)
    try:
        header = json.loads(text)
        tensors = {name: about for name, about in header.items() if name != "__metadata__"}
        ends = [int(about["data_offsets"][1]) for about in tensors.values()]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        found = f"damage ({error})"
        raise bad_file(path, 8, expected="a header that names tensors", found=found) from error
    if 8 + length + max(ends, default=0) != size:
        expected = f"{8 + length + max(ends, default=0)} bytes for what the header names"
        raise bad_file(path, min(size, 8 + length), expected=expected, found=f"{size} bytes")
    return 8 + length, tensors


def _about(path: Path, name: str, about: Any) -> tuple[str, list[int], tuple[int, int]]:
    try:
        kind, shape = about["dtype"], about["shape"]
        first, last = about["data_offsets"]
        if not all(type(n) is int and n >= 0 for n in (*shape, first, last)):
            raise ValueError("numbers that are not whole")
        return str(kind), list(shape), (first, last)
    except (ValueError, TypeError, KeyError) as error:
        expected = f"type, shape and offsets of {name!r}"
        raise bad_file(path, 8, expected=expected, found=f"damage ({error})") from error


def _choose(path: Path, tensors: dict[str, Any]) -> str:
    tables = [name for name, about in tensors.items() if len(_about(path, name, about)[1]) == 2]
    if len(tables) == 1:
        return tables[0]
    for name in USUAL_KEYS:
        if name in tables:
            return name
    listed = ", ".join(sorted(tables)) or "none"
    raise InvalidInput(f"{path} holds several tables or no table ({listed}): give its key")
