"""The manifest: which files make up a collection. Replacing it is what makes a change count.

A JSON object of one line and the SHA-256 of that line on the next: small, readable, checked. Every
file it names has an identity drawn at random, which stands in the file as well: a file of another
collection, or of another time, is not taken for it because it has the same name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sghash.collection.planning.plan import Plan, plan_of
from sghash.collection.roles import are_roles
from sghash.collection.storage.columns import KINDS
from sghash.collection.storage.disk import replace_file
from sghash.errors import BadFile, InvalidInput, MissingData, NewerFormat, StorageError
from sghash.files import storage_errors
from sghash.index import HammingIndex, TableIndex
from sghash.index.lists.centroids import MAX_LISTS
from sghash.kernels.vectors.kinds import KINDS as KEPT_KINDS, SMALL
from sghash.validation import MAX_ID, METRICS, check_n_bits

NAME = "manifest.json"
FORMAT = "sghash-collection"
VERSION = 6
#: The version of a collection without roles that has committed jobs.
JOBS_VERSION = 5
#: The version of one without jobs that keeps vectors of a small kind.
SMALL_VERSION = 4
#: The version of one with partitions that keeps no such vectors.
LISTS_VERSION = 3
#: The version of one without partitions too: what it says was known before there were any.
FLAT_VERSION = 2
#: What a segment may be: the kind of its index.
SEGMENT_KINDS = (HammingIndex.kind, TableIndex.kind)
#: Partitions wherever that pays.
AUTO = "auto"
# Far fewer than names can hold: a number of a file never grows out of its name.
MAX_FILES = 10**15
KEPT = tuple(KEPT_KINDS)

#: What names with a number begin with.
NUMBERED = ("segment", "deleted", "lists", "log")
# What a manifest of an earlier version does not say, of itself and of a segment.
_SINCE_3 = ("partitions",), ("lists", "lists_identity", "lists_checksum")
_SINCE_5, _SINCE_6 = "jobs", "roles"
#: Characters of the name of a job.
MAX_JOB = 200

_NAMES = {kind: re.compile(rf"{kind}-[0-9]{{8,18}}", re.ASCII) for kind in NUMBERED}
_NAMES["model"] = re.compile(r"model-[0-9a-f]{16}")
_LEFT_OVER = re.compile(
    rf"{re.escape(NAME)}\.new|\.model-[0-9a-f]{{16}}\.((old\.)?[a-z0-9_]{{8}}|(new|old)\.[0-9a-f]{{16}})"
)
_HEX = re.compile(r"[0-9a-f]*")


def new_identity() -> str:
    """16 random bytes in hexadecimal: no two files ever made have the same."""
    return secrets.token_hex(16)


def check_partitions(partitions: Any) -> int | str | None:
    """The option of that name, or one sentence."""
    if partitions is None or (isinstance(partitions, str) and partitions == AUTO):
        return partitions
    whole = isinstance(partitions, (int, np.integer)) and not isinstance(partitions, bool)
    if not whole or not 1 <= partitions <= MAX_LISTS:
        raise InvalidInput(
            f'partitions must be "auto", None or a number of lists from 1 to {MAX_LISTS}, got '
            f"{partitions!r}"
        )
    return int(partitions)


def is_ours(name: str) -> bool:
    """Whether a name in a collection's folder is one that only a collection gives."""
    patterns = [*_NAMES.values(), _LEFT_OVER]
    return any(pattern.fullmatch(name) for pattern in patterns)


@dataclass(frozen=True)
class SegmentEntry:
    """A segment file, how many rows it has, its deleted marks, and its lists where it has them.

    Identities are empty, and checksums None, where version 1 wrote the file.
    """

    file: str
    n: int
    deleted: str | None = None
    identity: str = ""
    checksum: int | None = None
    deleted_identity: str = ""
    deleted_checksum: int | None = None
    kind: str = SEGMENT_KINDS[0]
    lists: str | None = None
    lists_identity: str = ""
    lists_checksum: int | None = None


@dataclass(frozen=True)
class Manifest:
    """What a collection consists of; `next_file` and `next_id` were never used before.

    `n_rows` counts the living rows of the segments, without those of the log; `log_end` is how long
    the log was when a writer last closed it; `copied_end` how long the original's log was when this
    was copied from it, 0 unless it is a copy that no writer has changed since; `plan` is what was
    measured about searching this collection, None if nothing was. `kind` is that of the index in
    every segment; codes of the kind "tables" have `n_bits` / 8 bytes. `partitions` says whether
    `compact` makes lists: how many, "auto" or None. `jobs` are those committed, by name: `digest`
    of their parts, the `first` id they brought, and `n` rows. `roles` says what is what to those
    who look at rows.
    """

    n_bits: int
    width: int
    metric: str
    keep_vectors: str | None
    fingerprint: str
    model: str
    model_files: dict[str, str]
    log: str
    segments: tuple[SegmentEntry, ...] = ()
    n_rows: int = 0
    columns: dict[str, str] = field(default_factory=dict)
    next_id: int = 0
    next_file: int = 1
    generation: int = 0
    identity: str = ""
    log_identity: str = ""
    log_end: int = 0
    copied_end: int = 0
    model_bytes: int = 0
    plan: dict[str, Any] | None = None
    kind: str = SEGMENT_KINDS[0]
    partitions: int | str | None = None
    roles: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = FLAT_VERSION

    @property
    def has_old_files(self) -> bool:
        """Whether this, or a segment it names, is of an earlier format than what is written now."""
        return self.version < FLAT_VERSION or any(not entry.identity for entry in self.segments)

    @property
    def written_version(self) -> int:
        """The lowest version that can say all this: programs of before read what they can."""
        if self.roles:
            return VERSION
        if self.jobs:
            return JOBS_VERSION
        if self.keep_vectors in SMALL:
            return SMALL_VERSION
        return FLAT_VERSION if self.partitions is None else LISTS_VERSION

    @cached_property
    def parsed_plan(self) -> Plan | None:
        """What `plan` says, where it is a plan that this version knows."""
        return plan_of(self.plan)

    def files(self) -> set[str]:
        """Names of all files and folders it refers to, and of itself."""
        named = {NAME, self.model, self.log}
        for segment in self.segments:
            named.add(segment.file)
            named |= {name for name in (segment.deleted, segment.lists) if name}
        return named

    def following(self, **changes: Any) -> Manifest:
        """The next generation, with some fields changed; what was of version 1 is so no more."""
        identity = self.identity or new_identity()
        changed = replace(
            self, generation=self.generation + 1, identity=identity, copied_end=0, **changes
        )
        return replace(changed, version=changed.written_version)

    def same_files(self, other: Manifest) -> bool:
        """Whether both consist of the same segments and the same log."""
        names = "identity", "segments", "log", "log_identity", "n_bits", "width", "kind"
        return all(getattr(self, name) == getattr(other, name) for name in names)


def check_readable(folder: Path, manifest: Manifest) -> None:
    """Refuse a manifest that no reader would accept: nobody could open the collection again."""
    try:
        _check(manifest)
    except ValueError as error:
        raise InvalidInput(f"this cannot be written to {folder} ({error})") from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put the manifest in place; from now on the collection is what it says."""
    body = asdict(manifest)
    version = body.pop("version")
    if version < VERSION:
        del body[_SINCE_6]
    if version < JOBS_VERSION:
        del body[_SINCE_5]
    if version < LISTS_VERSION:
        own, of_segments = _SINCE_3
        for entry, names in [(body, own), *((entry, of_segments) for entry in body["segments"])]:
            for name in names:
                del entry[name]
    line = json.dumps(
        {"format": FORMAT, "format_version": version, **body}, sort_keys=True
    ).encode()
    replace_file(folder / NAME, line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n")


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of a collection."""
    path = folder / NAME
    try:
        with storage_errors(path, doing="read"):
            data = path.read_bytes()
    except StorageError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise _no_collection(folder) from error
        raise
    line, _, checksum = data.partition(b"\n")
    if checksum != hashlib.sha256(line).hexdigest().encode() + b"\n":
        raise BadFile(f"{path} is damaged: its checksum fails; restore it from a copy")
    try:
        body = json.loads(line)
        if not isinstance(body, dict) or body.pop("format", None) != FORMAT:
            raise BadFile(f"{path} is not the manifest of a collection")
        version = body.pop("format_version", None)
        _expect(_is_count(version) and version >= 1, "format_version")
        if version > VERSION:
            raise NewerFormat(
                f"{path} has format version {version}, this sghash reads up to {VERSION}: "
                "upgrade sghash"
            )
        entries = body.pop("segments", None)
        _expect(isinstance(entries, list), "segments")
        segments = tuple(SegmentEntry(**entry) for entry in entries)
        manifest = Manifest(**body, segments=segments, version=version)
        _check(manifest)
    except BadFile:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise BadFile(f"{path} is damaged ({error}): restore it from a copy") from error
    return manifest


def _check(manifest: Manifest) -> None:
    """Raise ValueError unless every field can be what a writer wrote."""
    try:
        check_n_bits(manifest.n_bits)
    except InvalidInput as error:
        raise ValueError(error) from error
    _expect(_is_count(manifest.width) and manifest.width >= 1, "width")
    _expect(manifest.metric in METRICS, "metric")
    _expect(manifest.keep_vectors is None or manifest.keep_vectors in KEPT, "keep_vectors")
    _expect(_is_hex(manifest.fingerprint, 64), "fingerprint")
    _expect(_named("model", manifest.model), "model")
    _expect(_is_map(manifest.model_files, lambda text: _is_hex(text, 64)), "model_files")
    _expect(all(_plain(name) for name in manifest.model_files), "model_files")
    _expect(_named("log", manifest.log), "log")
    _expect(_is_map(manifest.columns, lambda kind: kind in KINDS), "columns")
    for name in (
        "n_rows", "next_id", "next_file", "generation", "log_end", "copied_end", "model_bytes"
    ):  # fmt: skip
        _expect(_is_count(getattr(manifest, name)), name)
    _expect(manifest.next_id <= MAX_ID + 1, "next_id")
    # A writer counts on from both: at the end of the numbers it would write what nobody can read.
    _expect(manifest.next_file < MAX_FILES, "next_file")
    _expect(manifest.generation < MAX_FILES, "generation")
    _expect(manifest.plan is None or isinstance(manifest.plan, dict), "plan")
    marked = manifest.version > 1
    _expect(_is_identity(manifest.identity, required=marked), "identity")
    _expect(_is_identity(manifest.log_identity, required=marked), "log_identity")
    _check_kind(manifest.kind, NAME)
    _expect(manifest.kind == "hamming" or manifest.n_bits % 8 == 0, "n_bits")
    for entry in manifest.segments:
        _check_entry(entry)
        _expect(entry.kind == manifest.kind, "segments")
    _expect(_is_partitions(manifest.partitions), "partitions")
    _expect(manifest.partitions is None or manifest.version >= LISTS_VERSION, "format_version")
    small = manifest.keep_vectors in SMALL
    _expect(not small or manifest.version >= SMALL_VERSION, "format_version")
    _expect(isinstance(manifest.roles, dict) and are_roles(manifest.roles, manifest.width), "roles")
    _expect(not manifest.roles or manifest.version >= VERSION, "format_version")
    _expect(not manifest.jobs or manifest.version >= JOBS_VERSION, "format_version")
    _expect(isinstance(manifest.jobs, dict), "jobs")
    for name, record in manifest.jobs.items():
        _expect(is_job_name(name) and _is_record(record, manifest.next_id), "jobs")
    _expect(manifest.partitions is not None or not any(e.lists for e in manifest.segments), "lists")
    named = [
        name
        for entry in manifest.segments
        for name in (entry.file, entry.deleted, entry.lists)
        if name
    ]
    _expect(len(set(named)) == len(named), "segments")


def is_job_name(name: Any) -> bool:
    """Whether this can be the name of a job: some text, not much of it, without line breaks."""
    return isinstance(name, str) and 0 < len(name) <= MAX_JOB and name.isprintable()


def _is_record(record: Any, next_id: int) -> bool:
    if not isinstance(record, dict) or set(record) != {"digest", "first", "n"}:
        return False
    first, n = record["first"], record["n"]
    right = _is_count(first) and _is_count(n) and n >= 1 and first + n <= next_id
    return right and _is_hex(record["digest"], 32)


def _check_entry(entry: SegmentEntry) -> None:
    _expect(_named("segment", entry.file), "segments")
    _expect(_is_count(entry.n) and 1 <= entry.n <= MAX_ID, "segments")
    _expect(entry.deleted is None or _named("deleted", entry.deleted), "segments")
    _expect(_is_identity(entry.identity, required=False), "segments")
    _expect(_is_identity(entry.deleted_identity, required=False), "segments")
    _expect(entry.lists is None or _named("lists", entry.lists), "segments")
    _expect(_is_identity(entry.lists_identity, required=entry.lists is not None), "segments")
    _expect(entry.lists is None or _is_count(entry.lists_checksum), "segments")
    for number in (entry.checksum, entry.deleted_checksum, entry.lists_checksum):
        _expect(number is None or _is_count(number), "segments")
    _check_kind(entry.kind, entry.file)


def _check_kind(kind: Any, name: str) -> None:
    _expect(isinstance(kind, str), "kind")
    if kind not in SEGMENT_KINDS:
        raise NewerFormat(
            f"{name} is of the kind {kind!r}, this sghash knows {', '.join(SEGMENT_KINDS)}: "
            "upgrade sghash"
        )


def _expect(right: bool, name: str) -> None:
    if not right:
        raise ValueError(f"its {name} is not valid")


def _is_partitions(value: Any) -> bool:
    return value is None or value == AUTO or (_is_count(value) and 1 <= value <= MAX_LISTS)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_hex(text: Any, length: int) -> bool:
    return isinstance(text, str) and len(text) == length and bool(_HEX.fullmatch(text))


def _is_identity(text: Any, *, required: bool) -> bool:
    return _is_hex(text, 32) or (text == "" and not required)


def _is_map(value: Any, is_right: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(k, str) and isinstance(v, str) and is_right(v) for k, v in value.items()
    )


def _named(kind: str, name: Any) -> bool:
    """Whether a file has a name that a collection gives: nothing outside its folder has."""
    return isinstance(name, str) and bool(_NAMES[kind].fullmatch(name))


def _plain(name: str) -> bool:
    return name not in ("", ".", "..") and not set(name) & set("/\\\0:")


def _no_collection(folder: Path) -> BadFile | MissingData:
    if not folder.exists():
        return MissingData(
            f"there is no collection {folder}: check the path, or make one with Collection.create"
        )
    if not folder.is_dir():
        return BadFile(f"{folder} is not a collection but a file: give the folder of one")
    return BadFile(
        f"{folder} is not a collection: it has no {NAME}; check the path, or make one with "
        "Collection.create"
    )
