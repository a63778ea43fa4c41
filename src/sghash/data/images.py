"""CIFAR-10 as vectors: the authors' binary archive, and small JPEG files packed in a `.npz`."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.data import npz
from sghash.data.sources import ArraySource, RowSource, bad_file
from sghash.data.stream import DAMAGE
from sghash.optional import require

_SIDE, _CHANNELS = 32, 3
_WIDTH = _SIDE * _SIDE * _CHANNELS
_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))


def read_cifar_archive(path: Path) -> dict[str, Any]:
    """Base and queries with labels from `cifar-10-binary.tar.gz`; pixels channel by channel."""
    records = {name: _member(path, f"cifar-10-batches-bin/{name}") for name in _batches()}
    train = np.concatenate([records[name] for name in _TRAIN])
    test = records["test_batch.bin"]
    return {
        "base": ArraySource(train[:, 1:]),
        "queries": ArraySource(test[:, 1:]),
        "base_labels": train[:, 0].copy(),
        "query_labels": test[:, 0].copy(),
    }


def _batches() -> tuple[str, ...]:
    return (*_TRAIN, "test_batch.bin")


def _member(path: Path, name: str) -> NDArray[np.uint8]:
    size = 10_000 * (1 + _WIDTH)
    try:
        with tarfile.open(path, "r:gz") as archive:
            member = archive.extractfile(name)
            content = b"" if member is None else member.read(size + 1)
    except (tarfile.TarError, KeyError, ValueError, *DAMAGE) as error:
        expected = f"a tar archive with {name}"
        raise bad_file(path, 0, expected=expected, found=f"damage ({error})") from error
    if len(content) != size:
        expected = f"{size} bytes in {name}"
        raise bad_file(path, 0, expected=expected, found=str(len(content)))
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + _WIDTH)


class JpegRows(RowSource):
    """Images of 32 x 32 pixels, decoded when read, each a row of 3072 values pixel by pixel."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = npz.read_array(path, "jpeg")
        self.offsets = npz.read_array(path, "offsets")
        limits = np.concatenate([[0], self.offsets, [len(self.content)]])
        if self.content.dtype != np.uint8 or len(self.offsets) < 2 or (np.diff(limits) < 0).any():
            expected = "uint8 files and the ascending offsets between them"
            raise bad_file(path, 0, expected=expected, found="others")
        self.shape, self.dtype = (len(self.offsets) - 1, _WIDTH), np.dtype(np.uint8)

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        rows = [self._decode(row) for row in range(start, stop)]
        return np.stack(rows)

    def _decode(self, row: int) -> NDArray[np.uint8]:
        pillow = require("PIL.Image", extra="images")
        first, last = int(self.offsets[row]), int(self.offsets[row + 1])
        try:
            with pillow.open(
                io.BytesIO(self.content[first:last].tobytes()), formats=["JPEG"]
            ) as image:
                if image.size != (_SIDE, _SIDE):
                    raise bad_file(
                        self.path,
                        first,
                        expected=f"{_SIDE} x {_SIDE} pixels",
                        found=str(image.size),
                    )
                return np.asarray(image.convert("RGB"), dtype=np.uint8).reshape(-1)
        except (OSError, SyntaxError) as error:
            expected = f"a JPEG file for row {row}"
            raise bad_file(
                self.path, first, expected=expected, found=f"damage ({error})"
            ) from error
