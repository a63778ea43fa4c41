"""ann-benchmarks HDF5: `train` (base), `test` (queries), `neighbors` and `distances`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.data.readers.stream import MAX_DEFLATE_RATIO
from sghash.data.sources import NoRows, RowSource, bad_file
from sghash.errors import InvalidInput, SghashError
from sghash.optional import require

MAGIC = b"\x89HDF\r\n\x1a\n"
MAX_CHUNK_BYTES = 1 << 28
MAX_LISTED = 30
#: What ann-benchmarks calls a metric, and what it is here.
METRICS = {"euclidean": "l2", "angular": "cosine", "dot": "ip"}


def open_source(path: Path, *, key: str | None) -> RowSource:
    """Open the dataset called `key`; by default "train", else the only table there is."""
    return Hdf5Source(path, _only_table(path) if key is None else key)


def _only_table(path: Path) -> str:
    with _opened(path) as file:
        inside = [] if "train" in file else _inside(file)
    tables = [name for name, shape in inside if len(shape) == 2]
    return tables[0] if len(tables) == 1 else "train"


def _inside(group: Any, most: int = MAX_LISTED) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the datasets in a group and the groups below it, the first few."""
    h5py = require("h5py", extra="hdf5")
    found: list[tuple[str, tuple[int, ...]]] = []

    def visit(name: str, item: Any) -> bool | None:
        if isinstance(item, h5py.Dataset):
            found.append((name, tuple(int(length) for length in item.shape or ())))
        return True if len(found) >= most else None

    group.visititems(visit)
    return found


def _listed(group: Any, prefix: str = "") -> str:
    found = [f"{prefix}{name} {shape}" for name, shape in _inside(group)]
    return ", ".join(found) or "no datasets"


def read_metric(path: Path) -> str | None:
    """The metric that the file names in its attribute `distance`, or None."""
    with _opened(path) as file:
        name = file.attrs.get("distance")
        return METRICS.get(name.decode() if isinstance(name, bytes) else str(name))


class Hdf5Source(RowSource):
    """A two-dimensional dataset; the file is opened for each block, so a source can travel."""

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key, self.columns = path, key, (key,)
        with _opened(path) as file:
            stored = self._dataset(file)
            self.shape = (int(stored.shape[0]), int(stored.shape[1]))
            self.dtype = np.dtype(stored.dtype).newbyteorder("=")

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        with _opened(self.path) as file:
            stored = self._dataset(file)
            if stored.shape[0] < stop:
                expected = f"{self.shape[0]} rows in {self.key!r}, as when it was opened"
                raise bad_file(self.path, 0, expected=expected, found=str(stored.shape[0]))
            block = np.asarray(stored[start:stop])
        return block.astype(self.dtype, copy=False)

    def _dataset(self, file: Any) -> Any:
        h5py = require("h5py", extra="hdf5")
        # A link or a view could lead to another file: only what stands in this one is read.
        parts = [part for part in self.key.split("/") if part not in ("", ".")]
        for place in ("/".join(parts[:n]) for n in range(1, len(parts) + 1)):
            if not isinstance(file.get(place, getlink=True), (h5py.HardLink, type(None))):
                expected = f"{self.key!r} to stand in this file"
                raise bad_file(self.path, 0, expected=expected, found=f"a link at {place!r}")
        stored = file.get(self.key)
        if not isinstance(stored, h5py.Dataset):
            if isinstance(stored, h5py.Group):
                listed = _listed(stored, f"{self.key}/")
                raise InvalidInput(
                    f"{self.key!r} is a group of {self.path}, it holds {listed}: choose one as key"
                )
            raise InvalidInput(
                f"{self.path} has no dataset {self.key!r}, it has {_listed(file)}: choose one as "
                "key"
            )
        self._check(stored)
        return stored

    def _check(self, stored: Any) -> None:
        dtype, shape = np.dtype(stored.dtype), tuple(int(length) for length in stored.shape)
        if dtype.kind not in "fiu" or dtype.itemsize > 8 or len(shape) != 2 or min(shape) < 1:
            expected = f"a table of real numbers in {self.key!r}"
            error = bad_file(self.path, 0, expected=expected, found=f"{dtype} of shape {shape}")
            raise NoRows(str(error)) if len(shape) == 2 and not shape[0] else error
        if stored.is_virtual or stored.external:
            expected = f"the numbers of {self.key!r} in this file"
            raise bad_file(self.path, 0, expected=expected, found="a reference to other files")
        payload = shape[0] * shape[1] * dtype.itemsize
        held = int(stored.id.get_storage_size())
        if payload > MAX_DEFLATE_RATIO * held:
            expected = f"{payload} bytes for {self.key!r} of shape {shape}"
            raise bad_file(self.path, 0, expected=expected, found=f"{held} bytes of storage")
        # A chunk is decompressed whole, however few of its rows are read.
        chunk = dtype.itemsize * math.prod(stored.chunks or (1,))
        if chunk > MAX_CHUNK_BYTES:
            expected = f"chunks of at most {MAX_CHUNK_BYTES} bytes in {self.key!r}"
            raise bad_file(self.path, 0, expected=expected, found=f"chunks of {chunk}")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The open file; whatever HDF5 says about a damaged one becomes one sentence."""
    h5py = require("h5py", extra="hdf5")
    with open(path, "rb") as stream:
        head = stream.read(len(MAGIC))
    if head != MAGIC:
        raise bad_file(path, 0, expected=f"the bytes {MAGIC!r} of HDF5", found=repr(head))
    try:
        with h5py.File(path, "r") as file:
            yield file
    except SghashError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
        reason = " ".join(str(error).split())
        raise bad_file(path, 0, expected="an HDF5 file", found=f"damage ({reason})") from error
