"""Writing vectors: block by block into any format we emit, without changing a number unasked."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.data import open_vectors
from sghash.data.sources import RowSource, block_rows
from sghash.errors import InvalidDtype, InvalidInput
from sghash.files import write_atomically
from sghash.progress import counting

#: Every format that can be written: how the name ends -> the module that writes it, and the type
#: its numbers have there (None: any).
WRITERS: dict[str, tuple[str, str | None]] = {
    ".npy": ("sghash.data.readers.npy", None),
    ".npz": ("sghash.data.readers.npz", None),
    ".fvecs": ("sghash.data.readers.vecs", "<f4"),
    ".bvecs": ("sghash.data.readers.vecs", "|u1"),
    ".ivecs": ("sghash.data.readers.vecs", "<i4"),
    ".fbin": ("sghash.data.readers.bigann", "<f4"),
    ".f16bin": ("sghash.data.readers.bigann", "<f2"),
    ".u8bin": ("sghash.data.readers.bigann", "|u1"),
    ".i8bin": ("sghash.data.readers.bigann", "|i1"),
    ".ibin": ("sghash.data.readers.bigann", "<i4"),
    ".parquet": ("sghash.data.readers.parquet", None),
}

#: Called with the rows done and the rows there are.
RowProgress = Callable[[int, int], None]


def convert(
    source: str | os.PathLike[str] | VectorSource | NDArray[Any],
    target: str | os.PathLike[str],
    *,
    key: str | None = None,
    start: int = 0,
    stop: int | None = None,
    dtype: DTypeLike | None = None,
    overwrite: bool = False,
    callback: RowProgress | Literal["bar"] | None = None,
) -> RowSource:
    """Write vectors (a file, a source or an array) to `target` and return it opened.

    The ending of `target` chooses the format. Numbers are written as they are; a type that could
    lose some of them must be asked for by `dtype`, and even then a number that does not fit
    (a fraction or 300 into uint8, 1e6 into float16) is refused.

    Parameters
    ----------
    source : path, VectorSource or array (n, d)
        What to convert.
    target : path
        The new file; it appears whole or not at all.
    key, start, stop : see `open_vectors`
        Which table, and which of its rows.
    dtype : data type or None
        Type of the written numbers; None keeps the type of the source.
    overwrite : bool
        Replace a file that is there already.
    callback : callable(done, total), "bar" or None
        Told how many rows are written.
    """
    callback = counting(callback, "writing")
    path = Path(target)
    if path.exists() and not overwrite:
        raise InvalidInput(f"{path} exists already: give another name or overwrite=True")
    module, fixed = _writer(path)
    vectors = _opened(source, key, start, stop)
    stored = _target_dtype(path, vectors.dtype, fixed, dtype)
    shape = (int(vectors.shape[0]), int(vectors.shape[1]))
    if min(shape) < 1:
        raise InvalidInput(f"there is nothing to write: the source has shape {shape}")

    def write(stream: BinaryIO) -> None:
        module.write(stream, _cast_blocks(vectors, stored, callback), shape, stored)

    write_atomically(path, write)
    return open_vectors(path)


def write_npy(
    source: VectorSource | NDArray[Any],
    stream: BinaryIO,
    *,
    dtype: DTypeLike | None = None,
    callback: RowProgress | None = None,
) -> np.dtype[Any]:
    """Write vectors (n, d) to a stream that cannot go back, such as a pipe, in the form of `.npy`.

    `dtype` and `callback` are those of `convert`; returns the type that was written.
    """
    module, fixed = _writer(Path("stream.npy"))
    stored = _target_dtype(Path("stream.npy"), source.dtype, fixed, dtype)
    shape = (int(source.shape[0]), int(source.shape[1]))
    module.write(stream, _cast_blocks(source, stored, callback), shape, stored)
    return stored


def _writer(path: Path) -> tuple[Any, str | None]:
    for ending, (module, fixed) in WRITERS.items():
        if path.name.endswith(ending):
            return importlib.import_module(module), fixed
    listed = ", ".join(sorted(WRITERS))
    raise InvalidInput(f"{path} has a name without an ending we can write: use one of {listed}")


def _opened(
    source: Any, key: str | None, start: int, stop: int | None
) -> VectorSource | NDArray[Any]:
    if isinstance(source, (str, os.PathLike)):
        return open_vectors(source, key=key, start=start, stop=stop)
    if key is not None:
        raise InvalidInput(f"key chooses a table in a file; vectors in memory have none: {key!r}")
    if isinstance(source, np.ndarray):
        if source.ndim != 2:
            raise InvalidInput(f"vectors must have two dimensions, got {source.ndim}")
        return source[start:stop]
    if start == 0 and stop is None:
        return source  # type: ignore[no-any-return]
    from sghash.data.sources import RowRange

    return RowRange(source, start, source.shape[0] if stop is None else stop)


def _target_dtype(
    path: Path, found: np.dtype[Any], fixed: str | None, asked: DTypeLike | None
) -> np.dtype[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names that NumPy will forget
            asked = None if asked is None else np.dtype(asked)
    except (TypeError, ValueError, SyntaxError) as error:
        raise InvalidDtype(
            f"{asked!r} is no type of numbers: use float32, float16, uint8 or another of NumPy's"
        ) from error
    if fixed is None:
        stored = np.dtype(found if asked is None else asked).newbyteorder("<")
    else:
        stored = np.dtype(fixed)
        if asked is not None and np.dtype(asked) != stored.newbyteorder("="):
            raise InvalidDtype(
                f"{path.suffix} files hold {stored.name}, not {np.dtype(asked).name}: "
                "use another ending"
            )
    if stored.kind not in "fiu" or stored.itemsize > 8:
        raise InvalidDtype(f"vectors are written as real numbers, not as {stored.name}")
    if asked is None and not np.can_cast(found, stored, "safe"):
        raise InvalidDtype(
            f"{found.name} may not fit into the {stored.name} of {path.name}: "
            f"ask for it with dtype={stored.name!r}, or use another ending"
        )
    return stored


def _cast_blocks(
    vectors: VectorSource | NDArray[Any], stored: np.dtype[Any], callback: RowProgress | None
) -> Iterator[NDArray[Any]]:
    total = vectors.shape[0]
    for first, block in blocks_of(vectors, block_rows(vectors)):
        yield _cast(block, stored, first)
        if callback is not None:
            callback(first + len(block), total)


def _cast(block: NDArray[Any], stored: np.dtype[Any], first: int) -> NDArray[Any]:
    if np.can_cast(block.dtype, stored, "safe"):
        return block.astype(stored, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        cast = block.astype(stored)
    if stored.kind == "f":
        lost = np.isfinite(block) & ~np.isfinite(cast)
    else:
        lost = cast.astype(np.float64) != block.astype(np.float64)
    if lost.any():
        row, column = np.argwhere(lost)[0].tolist()
        raise InvalidInput(
            f"row {first + row}, column {column} is {block[row, column]}, which {stored.name} "
            "cannot hold: choose another type"
        )
    return cast
