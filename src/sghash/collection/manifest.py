"""The manifest: which files make up a collection. Replacing it is what makes a change count.

A JSON object of one line and the SHA-256 of that line on the next: small, readable, checked.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sghash.collection.disk import replace_file
from sghash.errors import BadFile, NewerFormat

NAME = "manifest.json"
FORMAT = "sghash-collection"
VERSION = 1


@dataclass(frozen=True)
class SegmentEntry:
    """A segment file, how many rows it has, and the file that marks its deleted ones."""

    file: str
    n: int
    deleted: str | None = None


@dataclass(frozen=True)
class Manifest:
    """What a collection consists of; `next_file` and `next_id` were never used before."""

    n_bits: int
    width: int
    metric: str
    keep_vectors: str | None
    fingerprint: str
    model: str
    model_files: dict[str, str]
    log: str
    segments: tuple[SegmentEntry, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    next_id: int = 0
    next_file: int = 1
    generation: int = 0

    def files(self) -> set[str]:
        """Names of all files and folders it refers to, and of itself."""
        named = {NAME, self.model, self.log}
        for segment in self.segments:
            named.add(segment.file)
            if segment.deleted:
                named.add(segment.deleted)
        return named

    def following(self, **changes: Any) -> Manifest:
        """The next generation, with some fields changed."""
        return replace(self, generation=self.generation + 1, **changes)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put the manifest in place; from now on the collection is what it says."""
    body = {"format": FORMAT, "format_version": VERSION, **asdict(manifest)}
    line = json.dumps(body, sort_keys=True).encode()
    replace_file(folder / NAME, line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n")


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of a collection."""
    path = folder / NAME
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise BadFile(f"{folder} is not a collection: it has no {NAME}") from error
    line, _, checksum = data.partition(b"\n")
    if checksum != hashlib.sha256(line).hexdigest().encode() + b"\n":
        raise BadFile(f"{path} is damaged: its checksum fails; restore it from a copy")
    body = json.loads(line)
    if body.pop("format") != FORMAT:
        raise BadFile(f"{path} is not the manifest of a collection")
    version = body.pop("format_version")
    if version > VERSION:
        raise NewerFormat(
            f"{path} has format version {version}, this sghash reads up to {VERSION}: "
            "upgrade sghash"
        )
    body["segments"] = tuple(SegmentEntry(**entry) for entry in body["segments"])
    return Manifest(**body)
