"""Fetching a file over HTTP: resumed where it stopped, verified before it gets its name."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from sghash.data.bigann import set_row_count
from sghash.errors import BadFile, MissingData, StorageError
from sghash.files import storage_errors, sync_folder

_log = logging.getLogger(__name__)
_BLOCK = 1 << 20
_TIMEOUT_SECONDS = 30
#: Seconds to wait before each further attempt; progress in between starts the list anew.
_WAITS = (1.0, 4.0, 15.0)

#: Called with the bytes that are here and the bytes there will be (0: unknown).
ByteProgress = Callable[[int, int], None]


class RemoteFile(NamedTuple):
    """A file of a data set: its name here, its public address, and how to know it.

    `size` in bytes, `sha256` and `md5` in hexadecimal; None where no reliable value is published.
    `first_rows`: only that many rows of a big-ann file at `url` are fetched.
    """

    name: str
    url: str | None = None
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    first_rows: int | None = None


def download(file: RemoteFile, target: Path, *, progress: ByteProgress | None = None) -> Path:
    """Fetch `file` to `target`; what an earlier attempt left in `target`.part is continued."""
    if file.url is None or not file.url.startswith(("http://", "https://")):
        raise MissingData(f"{file.name} has no public address over HTTP")
    part = target.with_name(target.name + ".part")
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _locked(part) as stream:
            _fetch(file, part, stream, progress)
            with storage_errors(target):
                stream.flush()
                os.fsync(stream.fileno())
            check_file(part, file)
            if file.first_rows is not None:
                set_row_count(part, file.first_rows)
    except BadFile:
        # Continuing a wrong file would never make it right.
        part.unlink()
        _notes(part).unlink(missing_ok=True)
        raise
    with storage_errors(target):
        os.replace(part, target)
        _notes(part).unlink(missing_ok=True)
        sync_folder(target.parent)
    return target


def check_file(path: Path, file: RemoteFile) -> None:
    """Refuse a file of another size or checksum than `file` must have."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        raise BadFile(f"{path} has {size} bytes, expected {file.size}: download it again")
    for name, expected in (("sha256", file.sha256), ("md5", file.md5)):
        if expected is None:
            continue
        found = _digest(path, name)
        if found != expected:
            raise BadFile(
                f"{path} has {name} {found}, expected {expected}: download it again, and "
                "if that does not help, the file at its address has changed"
            )


def _digest(path: Path, name: str) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(
            stream, lambda: hashlib.new(name, usedforsecurity=False)
        ).hexdigest()


def _fetch(file: RemoteFile, part: Path, stream: BinaryIO, progress: ByteProgress | None) -> None:
    waits = list(_WAITS)
    while True:
        before = stream.seek(0, os.SEEK_END)
        try:
            if _fetch_once(file, part, stream, progress):
                return
            reason: object = "the connection ended early"
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (403, 404, 410):
                raise MissingData(f"{file.url} answers {error.code} {error.reason}") from error
            reason = f"{error.code} {error.reason}"
        except (MissingData, StorageError):
            raise
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
        if stream.seek(0, os.SEEK_END) > before:
            waits = list(_WAITS)
        if not waits:
            raise MissingData(f"{file.url} cannot be fetched ({reason})")
        _log.info("%s: %s; trying again in %s s", file.name, reason, waits[0])
        time.sleep(waits.pop(0))


def _fetch_once(
    file: RemoteFile, part: Path, stream: BinaryIO, progress: ByteProgress | None
) -> bool:
    """Fetch what is missing; True if the file is complete, False if the server stopped early."""
    have = stream.seek(0, os.SEEK_END)
    if file.size is not None and have >= file.size:
        if have > file.size:
            stream.truncate(0)
        return have == file.size
    notes = _read_notes(part, file)
    try:
        response = urllib.request.urlopen(_request(file, have, notes), timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        # The rest that was asked for does not exist: what is here belongs to another file.
        error.close()
        stream.truncate(0)
        return False
    with response:
        have, total = _position(file, response, stream, have)
        _write_notes(part, file, response)
        free = shutil.disk_usage(part.parent).free
        if total - have > free:
            raise StorageError(f"{file.name} needs {total - have} more bytes, {free} are free")
        while block := response.read(_BLOCK):
            with storage_errors(part):
                stream.write(block)
            have += len(block)
            if progress is not None:
                progress(have, total)
    return have == total if total else True


def _request(file: RemoteFile, have: int, notes: dict[str, Any]) -> urllib.request.Request:
    from sghash import __version__

    # Some hosts refuse the name that urllib gives itself.
    headers = {"User-Agent": f"sghash/{__version__}", "Accept-Encoding": "identity"}
    if have or file.first_rows is not None:
        last = file.size - 1 if file.first_rows is not None and file.size is not None else ""
        headers["Range"] = f"bytes={have}-{last}"
    if have and notes.get("validator"):
        headers["If-Range"] = notes["validator"]
    assert file.url is not None  # checked by `download`
    return urllib.request.Request(file.url, headers=headers)


def _position(
    file: RemoteFile, response: HTTPResponse, stream: BinaryIO, have: int
) -> tuple[int, int]:
    """Where the answer continues, and the size of the whole (0: unknown)."""
    length = int(response.headers.get("Content-Length") or 0)
    if response.status == 206:
        total = have + length
        if not (response.headers.get("Content-Range") or "").startswith(f"bytes {have}-"):
            raise MissingData(f"{file.url} answers with another range than byte {have} and on")
    else:
        if file.first_rows is not None:
            raise MissingData(
                f"{file.url} cannot be fetched in part: its host gives only all of it"
            )
        stream.truncate(0)
        have, total = 0, length
    if file.size is not None and total and total != file.size:
        raise MissingData(
            f"{file.url} announces {total} bytes, expected {file.size}: the file there has changed"
        )
    stream.seek(have)
    return have, total


def _notes(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _read_notes(part: Path, file: RemoteFile) -> dict[str, Any]:
    try:
        notes = json.loads(_notes(part).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return notes if isinstance(notes, dict) and notes.get("url") == file.url else {}


def _write_notes(part: Path, file: RemoteFile, response: HTTPResponse) -> None:
    etag = response.headers.get("ETag") or ""
    # A weak ETag must not be used to continue a file.
    validator = etag if etag.startswith('"') else response.headers.get("Last-Modified")
    text = json.dumps({"url": file.url, "validator": validator})
    _notes(part).write_text(text, encoding="utf-8")


@contextmanager
def _locked(part: Path) -> Iterator[BinaryIO]:
    """The partial file, open for this process alone where the system has locks."""
    with open(part, "ab+") as stream:
        if os.name == "posix":
            import fcntl

            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StorageError(
                    error.errno, f"another process is downloading {part.stem}: wait for it"
                ) from error
        yield stream
