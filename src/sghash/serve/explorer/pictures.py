"""Pictures that a column names: files beside the collection, read one at a time."""

from __future__ import annotations

import base64
from pathlib import Path

from sghash.errors import InvalidInput, MissingData
from sghash.files import storage_errors

MOST_BYTES = 20_000_000
# How files of pictures begin, and what they are. Other files are nobody's business.
_KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def read_picture(folder: Path, name: str) -> tuple[bytes, str]:
    """The bytes and the kind of a picture below `folder`; anything else is refused."""
    root = folder.resolve()
    try:
        path = (root / name).resolve()
        inside = path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError):
        inside = False
    if not inside:
        raise MissingData(f"there is no picture {name!r} below {root}: put the files there")
    with storage_errors(path, doing="read"):
        if path.stat().st_size > MOST_BYTES:
            raise InvalidInput(f"{path.name} is larger than {MOST_BYTES} bytes: make it smaller")
        data = path.read_bytes()
    return data, kind_of(data, path.name)


def kind_of(data: bytes, name: str) -> str:
    """The kind of a picture by its first bytes."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    for start, kind in _KINDS.items():
        if data.startswith(start):
            return kind
    raise InvalidInput(f"{name} is no PNG, JPEG, GIF or WebP: convert it")


def embedded(folder: Path, name: str, most: int) -> str | None:
    """A picture as an address that holds it; None where it is missing or longer than `most`."""
    try:
        data, kind = read_picture(folder, name)
    except (MissingData, InvalidInput):
        return None
    address = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return address if len(address) <= most else None
