"""word2vec's binary format: "n d" in text, then each word, a space, and d float32."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import BinaryIO

import numpy as np

from sghash.data.readers.stream import DAMAGE
from sghash.data.sources import bad_file
from sghash.validation import Vectors

_MAX_WORD_BYTES = 4096
_MAX_WIDTH = 1 << 16


def read_words(path: Path, n_rows: int) -> tuple[list[str], Vectors]:
    """The first `n_rows` words (the most frequent ones) and their vectors (n_rows, d)."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as stream:
            return _read(path, stream, n_rows)  # type: ignore[arg-type]
    except DAMAGE as error:
        raise bad_file(path, 0, expected="word vectors", found=f"damage ({error})") from error


def _read(path: Path, stream: BinaryIO, n_rows: int) -> tuple[list[str], Vectors]:
    head = stream.readline(64).split()
    if len(head) != 2 or not all(part.isdigit() for part in head):
        expected = 'the number of words and their width, as in "3000000 300"'
        raise bad_file(path, 0, expected=expected, found=repr(b" ".join(head)))
    n, width = int(head[0]), int(head[1])
    if n < n_rows or not 1 <= width <= _MAX_WIDTH:
        expected = f"at least {n_rows} words of 1 to {_MAX_WIDTH} numbers"
        raise bad_file(path, 0, expected=expected, found=f"{n} words of {width}")
    words: list[str] = []
    rows: list[bytes] = []
    for row in range(n_rows):
        words.append(_word(path, stream, row))
        values = stream.read(4 * width)
        if len(values) != 4 * width:
            expected = f"{width} numbers after word {row}"
            raise bad_file(path, stream.tell(), expected=expected, found="the end")
        rows.append(values)
    vectors = np.frombuffer(b"".join(rows), dtype="<f4").reshape(n_rows, width)
    return words, vectors.astype(np.float32)


def _word(path: Path, stream: BinaryIO, row: int) -> str:
    word = bytearray()
    while (byte := stream.read(1)) != b" ":
        # A line break may stand between a vector and the next word.
        if byte != b"\n":
            word += byte
        if not byte or len(word) > _MAX_WORD_BYTES:
            expected = f"word {row} and a space"
            raise bad_file(path, stream.tell(), expected=expected, found=repr(bytes(word[:20])))
    return word.decode("utf-8", errors="replace")
