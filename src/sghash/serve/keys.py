"""API keys: read from a file, kept as digests, compared in a time that tells nothing.

One key per line: `read KEY` may ask, `write KEY` may change, a bare `KEY` may do both. A key that
stands on two lines has the rights of both. Empty lines and those that begin with # are skipped.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable
from pathlib import Path

from sghash.errors import InvalidInput
from sghash.files import check_plain_file

READ, WRITE = "read", "write"
_EVERYTHING = frozenset({READ, WRITE})
_MAX_BYTES = 1 << 20


class Keys:
    """Keys and what each of them may do; the keys themselves are not kept."""

    def __init__(self, rights: Iterable[tuple[str, frozenset[str]]]) -> None:
        found: dict[bytes, frozenset[str]] = {}
        for key, own in rights:
            digest = _digest(key.encode())
            found[digest] = found.get(digest, frozenset()) | own
        self._rights = tuple(found.items())

    def __repr__(self) -> str:
        return f"Keys of {len(self._rights)}"

    def rights_of(self, key: bytes) -> frozenset[str]:
        """What the holder of a key may do; every known key is compared, whichever is right."""
        digest, rights = _digest(key), frozenset[str]()
        for known, own in self._rights:
            if hmac.compare_digest(known, digest):
                rights = own
        return rights


def read_keys(path: str | os.PathLike[str]) -> Keys:
    """Read a file of keys; what is wrong is named by its line, never by its text."""
    check_plain_file(path)
    data = Path(path).read_bytes()
    try:
        text = data[: _MAX_BYTES + 1].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is no text in UTF-8: write one key per line") from error
    if len(data) > _MAX_BYTES:
        raise InvalidInput(f"{path} is longer than a file of keys can be: write one key per line")
    rights = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2 or (len(words) == 2 and words[0] not in _EVERYTHING):
            raise InvalidInput(
                f"{path}, line {number}: expected a key alone, or the word read or write and a key"
            )
        if len(words) == 1 and words[0] in _EVERYTHING:
            raise InvalidInput(f"{path}, line {number}: there is no key after {words[0]}")
        if not words[-1].isascii():
            raise InvalidInput(f"{path}, line {number}: a key must be of ASCII characters")
        own = _EVERYTHING if len(words) == 1 else frozenset({words[0]})
        rights.append((words[-1], own))
    if not rights:
        raise InvalidInput(f"{path} holds no key: write one, or leave the file out")
    return Keys(rights)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
