"""Fetching a file over HTTP: resumed where it stopped, verified before it gets its name."""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

from sghash.data import checking
from sghash.data.checking import RemoteFile
from sghash.data.partial import (
    forget,
    opened_part,
    read_validator,
    validator_of,
    write_validator,
)
from sghash.data.readers.bigann import set_row_count
from sghash.errors import BadFile, MissingData, StorageError
from sghash.files import storage_errors, sync_folder

_log = logging.getLogger(__name__)
_BLOCK = 1 << 20
_TIMEOUT_SECONDS = 30
#: Seconds to wait before each further attempt; progress in between starts the list anew.
_WAITS = (1.0, 4.0, 15.0)
#: Most bytes that are taken of a file whose size nobody gave.
MAX_UNKNOWN_BYTES = 1 << 34
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.ASCII)

#: Called with the bytes that are here and the bytes there will be (0: unknown).
ByteProgress = Callable[[int, int], None]


class _Job(NamedTuple):
    """A download: what, where to, and whom to tell."""

    file: RemoteFile
    part: Path
    stream: BinaryIO
    callback: ByteProgress | None


def download(file: RemoteFile, target: Path, *, callback: ByteProgress | None = None) -> Path:
    """Fetch `file` to `target`; what an earlier attempt left in `target`.part is continued.

    It is continued only if the host confirms that its file is still the same.
    """
    if file.url is None or not file.url.startswith(("http://", "https://")):
        raise MissingData(f"{file.name} has no public address over HTTP")
    part = target.with_name(target.name + ".part")
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with opened_part(part) as stream:
            _fetch(_Job(file, part, stream, callback))
            with storage_errors(target):
                stream.flush()
                os.fsync(stream.fileno())
            sha256 = _check(file, part, target)
            if os.name == "posix":
                # Under the lock: nobody else may take it for an unfinished file.
                _put_in_place(part, target)
        if os.name != "posix":
            _put_in_place(part, target)
    except BadFile:
        # Continuing a wrong file would never make it right.
        part.unlink(missing_ok=True)
        forget(part)
        raise
    _remember(file, target, sha256)
    return target


def _check(file: RemoteFile, part: Path, target: Path) -> str:
    """Refuse a fetched file that is not what it must be; returns its SHA-256 as it will be kept."""
    checking.check_size(part, part.stat().st_size, file)
    found = checking.digests(part, ["sha256", *(["md5"] if file.md5 else [])])
    checking.check_digests(part, found, file)
    if file.first_rows is not None:
        set_row_count(part, file.first_rows)
        found = checking.digests(part, ["sha256"])
    if not file.has_checksum:
        checking.check_record(part, found["sha256"], checking.read_record(target), target)
    return found["sha256"]


def _put_in_place(part: Path, target: Path) -> None:
    with storage_errors(target):
        os.replace(part, target)
        forget(part)
        sync_folder(target.parent)


def _remember(file: RemoteFile, target: Path, sha256: str) -> None:
    status = target.stat()
    if file.has_checksum and status.st_size <= checking.HASHED_BYTES:
        return
    is_new = not file.has_checksum and checking.read_record(target) is None
    now = checking.Record(sha256, status.st_size, status.st_mtime_ns)
    checking.write_record(target, now, is_new=is_new)


def _fetch(job: _Job) -> None:
    file, stream = job.file, job.stream
    waits, most = list(_WAITS), stream.seek(0, os.SEEK_END)
    while True:
        try:
            if _fetch_once(job):
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
        # Only more than ever before is progress: a host that changes its file has no end.
        if (have := stream.seek(0, os.SEEK_END)) > most:
            waits, most = list(_WAITS), have
        if not waits:
            raise MissingData(f"{file.url} cannot be fetched ({reason})")
        _log.info("%s: %s; trying again in %s s", file.name, reason, waits[0])
        time.sleep(waits.pop(0))


def _fetch_once(job: _Job) -> bool:
    """Fetch what is missing; True if the file is complete, False if the server stopped early."""
    file, part, stream, _ = job
    assert file.url is not None  # checked by `download`
    validator = read_validator(part, file.url)
    have = stream.seek(0, os.SEEK_END)
    if have and have == file.size and (validator or file.has_checksum):
        return True
    if have and (validator is None or (file.size is not None and have >= file.size)):
        # What it is of is not known: to continue it could mix two files.
        have = _emptied(stream)
    try:
        response = _open(_request(file, have, validator))
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        # The rest that was asked for does not exist: what is here belongs to another file.
        error.close()
        _emptied(stream)
        return False
    with response:
        if response.status == 206 and have and validator_of(response.headers) != validator:
            # A host that takes no notice of If-Range; this is the rest of another version.
            _emptied(stream)
            return False
        have, total = _position(job, response, have)
        if not have:
            with storage_errors(part):
                write_validator(part, file.url, validator_of(response.headers))
        free = shutil.disk_usage(part.parent).free
        if total - have > free:
            raise StorageError(f"{file.name} needs {total - have} more bytes, {free} are free")
        have = _copy(job, response, have, total)
    return have == (file.size or total or have)


def _copy(job: _Job, response: HTTPResponse, have: int, total: int) -> int:
    """Append the answer, as far as the file may be long; returns the bytes that are here then."""
    most = job.file.size or total or MAX_UNKNOWN_BYTES
    while block := response.read(min(_BLOCK, most - have + 1)):
        if have + len(block) > most:
            raise BadFile(
                f"{job.file.url} sends more than {most} bytes, the most that can be expected: the "
                "file there has changed, or is none"
            )
        with storage_errors(job.part):
            job.stream.write(block)
        have += len(block)
        if job.callback is not None:
            job.callback(have, total)
    return have


def _emptied(stream: BinaryIO) -> int:
    stream.seek(0)
    stream.truncate(0)
    return 0


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow to another address, but never from a protected connection to an open one."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:
        allowed = ("https://",) if req.full_url.startswith("https://") else ("https://", "http://")
        if not newurl.startswith(allowed):
            raise MissingData(f"{req.full_url} leads to {newurl}, which is no safe address")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(request: urllib.request.Request) -> HTTPResponse:
    opener = urllib.request.build_opener(_Redirects)
    response: HTTPResponse = opener.open(request, timeout=_TIMEOUT_SECONDS)
    return response


def _request(file: RemoteFile, have: int, validator: str | None) -> urllib.request.Request:
    from sghash import __version__

    # Some hosts refuse the name that urllib gives itself.
    headers = {"User-Agent": f"sghash/{__version__}", "Accept-Encoding": "identity"}
    if have or file.first_rows is not None:
        last = file.size - 1 if file.first_rows is not None and file.size is not None else ""
        headers["Range"] = f"bytes={have}-{last}"
    if have and validator is not None:
        headers["If-Range"] = validator
    assert file.url is not None  # checked by `download`
    return urllib.request.Request(file.url, headers=headers)


def _position(job: _Job, response: HTTPResponse, have: int) -> tuple[int, int]:
    """Where the answer continues, and the size of the whole (0: unknown)."""
    file, stream = job.file, job.stream
    if response.status == 206:
        place = _RANGE.fullmatch(response.headers.get("Content-Range") or "")
        if place is None or int(place[1]) != have:
            raise MissingData(f"{file.url} answers with another range than byte {have} and on")
        total = int(place[2]) + 1
    else:
        if file.first_rows is not None:
            raise MissingData(
                f"{file.url} cannot be fetched in part: its host gives only all of it"
            )
        have, total = _emptied(stream), _whole(response.headers.get("Content-Length"))
    if file.size is not None and total and total != file.size:
        raise MissingData(
            f"{file.url} announces {total} bytes, expected {file.size}: the file there has changed"
        )
    if total > MAX_UNKNOWN_BYTES and file.size is None:
        raise MissingData(
            f"{file.url} announces {total} bytes, and at most {MAX_UNKNOWN_BYTES} are taken of a "
            "file of unknown size"
        )
    stream.seek(have)
    return have, total


def _whole(text: str | None) -> int:
    """The number in a header; 0 if there is none, or none that could be meant."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else 0
