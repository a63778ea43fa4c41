"""CIFAR-10 as vectors: the authors' binary archive, and small JPEG files packed in a `.npz`."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.data.readers import npz
from sghash.data.readers.stream import DAMAGE
from sghash.data.sources import ArraySource, RowSource, bad_file
from sghash.errors import SghashError
from sghash.optional import require

_SIDE, _CHANNELS = 32, 3
_WIDTH = _SIDE * _SIDE * _CHANNELS
_BATCH = 10_000
_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
_TEST = "test_batch.bin"


def read_cifar_archive(path: Path) -> dict[str, Any]:
    """Base and queries with labels from `cifar-10-binary.tar.gz`; pixels channel by channel."""
    records = _read_batches(path)
    train, test = np.concatenate([records[name] for name in _TRAIN]), records[_TEST]
    return {
        "base": ArraySource(train[:, 1:]),
        "queries": ArraySource(test[:, 1:]),
        "base_labels": train[:, 0].copy(),
        "query_labels": test[:, 0].copy(),
    }


def _read_batches(path: Path) -> dict[str, NDArray[np.uint8]]:
    """The six files of records (a label and 3072 values each), in one pass over the archive."""
    wanted = {f"cifar-10-batches-bin/{name}": name for name in (*_TRAIN, _TEST)}
    size = _BATCH * (1 + _WIDTH)
    found: dict[str, NDArray[np.uint8]] = {}
    try:
        with tarfile.open(path, "r|gz") as archive:
            for info in archive:
                if info.name not in wanted:
                    continue
                member = archive.extractfile(info)
                content = b"" if member is None or info.size != size else member.read()
                if len(content) != size:
                    expected = f"{size} bytes in {info.name}"
                    raise bad_file(path, info.offset_data, expected=expected, found=str(info.size))
                records = np.frombuffer(content, dtype=np.uint8)
                found[wanted[info.name]] = records.reshape(_BATCH, 1 + _WIDTH)
    except (tarfile.TarError, *DAMAGE) as error:
        raise bad_file(path, 0, expected="a tar archive", found=f"damage ({error})") from error
    missing = sorted(set(wanted.values()) - set(found))
    if missing:
        raise bad_file(path, 0, expected=f"the file {missing[0]}", found="an archive without it")
    return found


def _are_files(content: NDArray[Any], offsets: NDArray[Any]) -> bool:
    """Whether offsets cut `content` into files."""
    if content.dtype != np.uint8 or content.ndim != 1:
        return False
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or len(offsets) < 2:
        return False
    rising = bool((offsets[1:] >= offsets[:-1]).all())
    return rising and int(offsets[0]) >= 0 and int(offsets[-1]) <= len(content)


class JpegRows(RowSource):
    """Images of 32 x 32 pixels, decoded when read, each a row of 3072 values pixel by pixel."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = npz.read_array(path, "jpeg")
        self.offsets = npz.read_array(path, "offsets")
        if not _are_files(self.content, self.offsets):
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
        except SghashError:
            raise
        except Exception as error:  # Pillow has many words for a damaged picture
            expected = f"a JPEG file for row {row}"
            raise bad_file(
                self.path, first, expected=expected, found=f"damage ({error})"
            ) from error
