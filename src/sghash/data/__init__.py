"""Vectors in files: one reader per format, public data sets by name, conversion between formats."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sghash.data.sources import JoinedSource, NoRows, RowSource
from sghash.errors import BadFile, InvalidInput, MissingData
from sghash.files import check_plain_file

#: Every format that can be read: how a file's name ends -> the module that reads it.
READERS: dict[str, str] = {
    ".npy": "sghash.data.readers.npy",
    ".npz": "sghash.data.readers.npz",
    ".fvecs": "sghash.data.readers.vecs",
    ".bvecs": "sghash.data.readers.vecs",
    ".ivecs": "sghash.data.readers.vecs",
    ".fbin": "sghash.data.readers.bigann",
    ".f16bin": "sghash.data.readers.bigann",
    ".u8bin": "sghash.data.readers.bigann",
    ".i8bin": "sghash.data.readers.bigann",
    ".ibin": "sghash.data.readers.bigann",
    ".hdf5": "sghash.data.readers.hdf5",
    ".h5": "sghash.data.readers.hdf5",
    ".parquet": "sghash.data.readers.parquet",
    ".feather": "sghash.data.readers.arrow",
    ".arrow": "sghash.data.readers.arrow",
    ".ipc": "sghash.data.readers.arrow",
    ".safetensors": "sghash.data.readers.safetensors",
    ".csv": "sghash.data.readers.text",
    ".tsv": "sghash.data.readers.text",
    ".txt": "sghash.data.readers.text",
    ".jsonl": "sghash.data.readers.text",
    ".ndjson": "sghash.data.readers.text",
    ".idx": "sghash.data.readers.idx",
    ".idx.gz": "sghash.data.readers.idx",
    "-ubyte": "sghash.data.readers.idx",
    "-ubyte.gz": "sghash.data.readers.idx",
}

#: Formats in which a file can hold several tables, so that a `key` may choose one.
_KEYED = tuple(
    ending
    for ending, reader in READERS.items()
    if reader.rpartition(".")[2] in ("npz", "hdf5", "parquet", "arrow", "safetensors", "text")
)
# What a folder may hold beside the parts: ids, texts, metadata.
_TEXTS = tuple(ending for ending, reader in READERS.items() if reader.endswith(".text"))

# How files begin that are often given another name.
_MAGICS = {
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"\x89HDF\r\n": ".hdf5",
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\x1f\x8b": "a gzip file",
}


def open_vectors(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    key: str | None = None,
    start: int = 0,
    stop: int | None = None,
) -> RowSource:
    """Open vectors (n, d) in a file of any format in `READERS`, without loading them.

    Parameters
    ----------
    path : path, or sequence of paths
        A file, a folder whose files are the parts (in order of their names), or several files;
        parts without rows are skipped.
    key : str or None
        Which table, where a file can hold several: the array of a `.npz`, the dataset of an HDF5
        file ("train" if None), the column of a Parquet, Arrow or CSV file or several as in "d*",
        the field of JSON lines.
    start, stop : int
        Take only rows `start` to `stop` - 1; negative numbers are refused.

    Returns
    -------
    RowSource
        `shape`, `dtype`, `read(start, stop)`, `shard(rank, of)`, `batches(n_rows)`; models take
        it in place of an array, and `np.asarray` loads it.
    """
    parts = [part.source for part in parts_of(path, key=key)]
    source = parts[0] if len(parts) == 1 else JoinedSource(parts)
    return source if start == 0 and stop is None else source.rows(start, stop)


class Part(NamedTuple):
    """One file of several, and the vectors in it."""

    path: Path
    source: RowSource


def parts_of(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, key: str | None = None
) -> Iterator[Part]:
    """Open the files that a path means, one after the other.

    Each file chooses its columns by itself: those that choose others than the first are refused.
    Of several files, or of a folder, those without rows are skipped: engines write such parts.
    """
    first: Part | None = None
    files = files_of(path)
    alone = isinstance(path, (str, os.PathLike)) and files == [Path(path)]
    for file in files:
        try:
            part = Part(file, _open_one(file, key))
        except NoRows:
            if alone:
                raise
            continue
        if first is None:
            first = part
        elif first.source.columns and part.source.columns:
            _refuse_other_columns(first, part)
        yield part
    if files and first is None:
        raise InvalidInput(
            f"none of {len(files)} files has a row, {files[0]} is the first: give some that have"
        )


def _refuse_other_columns(first: Part, other: Part) -> None:
    own, expected = other.source.columns, first.source.columns
    if own == expected:
        return
    shown = [", ".join([*names[:3], *(["..."] if len(names) > 3 else [])])
             for names in (own, expected)]  # fmt: skip
    order = " in another order" if sorted(own) == sorted(expected) else ""
    raise InvalidInput(
        f"the vectors of {other.path} would come from the columns {shown[0]}{order}, those of "
        f"{first.path} from {shown[1]}: name the column by key=, or give the files one schema"
    )


def format_of(path: str | os.PathLike[str]) -> str:
    """The ending in `READERS` that the name of `path` has."""
    ending = ending_of(path)
    if ending is None:
        listed = ", ".join(sorted(READERS))
        raise InvalidInput(f"{path} has a name without a known ending: use one of {listed}")
    return ending


def ending_of(path: str | os.PathLike[str]) -> str | None:
    """The ending in `READERS` that a name has, in capitals too; None if there is none."""
    name = Path(path).name.lower()
    return max((ending for ending in READERS if name.endswith(ending)), key=len, default=None)


def files_of(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files that a path means: itself, those of a folder by their names, several as given."""
    if not isinstance(path, (str, os.PathLike)):
        return [Path(part) for part in path]
    if not Path(path).is_dir():
        return [Path(path)]
    parts = sorted(part for part in Path(path).iterdir() if ending_of(part) is not None)
    if any(format_of(part) not in _TEXTS for part in parts):
        parts = [part for part in parts if format_of(part) not in _TEXTS]
    if not parts:
        raise MissingData(f"the folder {path} holds no files of vectors: check the path")
    if len({format_of(part) for part in parts}) != 1:
        raise InvalidInput(
            f"the folder {path} must hold vector files of one format, it has "
            f"{len(parts)} of several: name the files"
        )
    return parts


def _open_one(path: Path, key: str | None) -> RowSource:
    ending = format_of(path)
    check_plain_file(path)
    if key is not None and ending not in _KEYED:
        raise InvalidInput(f"a {ending} file holds one table and takes no key, got {key!r}")
    try:
        source: RowSource = importlib.import_module(READERS[ending]).open_source(path, key=key)
    except NoRows:
        raise
    except BadFile as error:
        looks = _looks_like(path)
        if looks is None or ending == looks or (looks == "a gzip file" and ending.endswith(".gz")):
            raise
        raise BadFile(f"{error}; it begins like {looks}: give it the right name") from error
    return source


def _looks_like(path: Path) -> str | None:
    with open(path, "rb") as stream:
        head = stream.read(8)
    return next((kind for magic, kind in _MAGICS.items() if head.startswith(magic)), None)


def __getattr__(name: str) -> Any:
    homes = {
        "CATALOG": "sghash.data.catalog",
        "DataSet": "sghash.data.dataset",
        "WRITERS": "sghash.data.conversion",
        "content_hash": "sghash.data.sources",
        "convert": "sghash.data.conversion",
        "load_dataset": "sghash.data.loading",
    }
    if name in homes:
        return getattr(importlib.import_module(homes[name]), name)
    raise AttributeError(f"module 'sghash.data' has no attribute {name!r}")
