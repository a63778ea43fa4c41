"""Rows inside a compressed file, read in order; going back starts again from the beginning."""

from __future__ import annotations

import threading
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sghash.data.sources import RowSource, bad_file, check_stored

# Deflate cannot shrink anything more than this: a larger claim is a lie, and is not allocated.
MAX_DEFLATE_RATIO = 1032
# A row is read whole, and a few compressed bytes can be a row of gigabytes.
MAX_ROW_BYTES = 1 << 26
_SKIP_BYTES = 1 << 20
DAMAGE = (EOFError, OSError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError)


def check_ratio(path: Path, offset: int, claimed: int, compressed: int) -> None:
    """Refuse a header that announces more bytes than the compressed bytes can hold."""
    most = MAX_DEFLATE_RATIO * compressed + 64
    if claimed > most:
        raise bad_file(
            path,
            offset,
            expected=f"at most {most} bytes out of {compressed} compressed ones",
            found=f"a header that announces {claimed}",
        )


class StreamedRows(RowSource):
    """`shape` (n, d) numbers of type `stored` that begin at byte `offset` of what `opened` yields.

    Each thread of a program may read; they take turns.
    """

    def __init__(
        self,
        path: Path,
        opened: Callable[[], BinaryIO],
        offset: int,
        shape: tuple[int, int],
        stored: np.dtype[Any],
    ) -> None:
        check_stored(path, offset, shape, stored)
        if shape[1] * stored.itemsize > MAX_ROW_BYTES:
            expected = f"rows of at most {MAX_ROW_BYTES} bytes"
            raise bad_file(path, offset, expected=expected, found=f"shape {shape}")
        self.path, self.opened, self.offset, self.stored = path, opened, offset, stored
        self.shape, self.dtype = shape, stored.newbyteorder("=")
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._stream: BinaryIO | None = None
        self._position = 0

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        n, width = self.shape
        row_bytes = width * self.stored.itemsize
        with self._lock:
            try:
                self._seek(self.offset + start * row_bytes)
                block = np.empty((stop - start, width), dtype=self.stored)
                self._fill(block.reshape(-1).view(np.uint8))
                if stop == n:
                    self._expect_end()
            except BaseException:
                self._close()
                raise
        return block.astype(self.dtype, copy=False)

    def _seek(self, target: int) -> None:
        if self._stream is None or self._position > target:
            self._close()
            self._stream = self._guard(self.opened)
        scrap = np.empty(min(_SKIP_BYTES, max(target - self._position, 0)), dtype=np.uint8)
        while self._position < target:
            self._fill(scrap[: target - self._position])

    def _fill(self, out: NDArray[np.uint8]) -> None:
        filled = 0
        while filled < len(out):
            part = self._take(min(_SKIP_BYTES, len(out) - filled))
            if not part:
                expected = f"{len(out) - filled} more decompressed bytes"
                raise bad_file(self.path, self._position, expected=expected, found="the end")
            out[filled : filled + len(part)] = np.frombuffer(part, dtype=np.uint8)
            filled += len(part)

    def _take(self, size: int) -> bytes:
        stream = self._stream
        assert stream is not None  # set by `_seek`
        part: bytes = self._guard(lambda: stream.read(size))
        self._position += len(part)
        return part

    def _expect_end(self) -> None:
        if self._take(1):
            rest = "the end of the decompressed bytes"
            raise bad_file(self.path, self._position - 1, expected=rest, found="more of them")
        self._close()

    def _guard(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except DAMAGE as error:
            expected = "a compressed stream that can be read"
            raise bad_file(
                self.path, self._position, expected=expected, found=f"damage ({error})"
            ) from error

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream, self._position = None, 0
