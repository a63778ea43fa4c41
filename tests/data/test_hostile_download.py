"""Downloads from bad hosts and into prepared folders: no other file, no mixed file, no endless one.

Without a published checksum, a file must stay what it was when it was first used.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sghash.data import CATALOG, checking, load_dataset
from sghash.data.catalog import Entry, Variant
from sghash.data.checking import RemoteFile, record_path, verify
from sghash.data.download import _Redirects, download
from sghash.errors import BadFile, MissingData

CONTENT = np.random.default_rng(3).bytes(300_000)  # what the server has
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def unknown(server: Any, **changes: Any) -> RemoteFile:
    """The server's file, without a published checksum."""
    return RemoteFile("file.bin", server.url, len(CONTENT))._replace(**changes)


def begun(server: Any, target: Path, n_bytes: int = 100_000) -> None:
    """A download that broke off after `n_bytes`."""

    def fail(done: int, total: int) -> None:
        server.failures = [500] * 9

    server.drop_after = n_bytes
    with pytest.raises(MissingData, match="500"):
        download(unknown(server), target, callback=fail)
    server.drop_after, server.failures = None, []
    server.asked.clear()
    server.conditions.clear()


@pytest.mark.parametrize("heeds_conditions", [True, False])
def test_a_changed_file_is_never_continued(
    server: Any, tmp_path: Path, heeds_conditions: bool
) -> None:
    begun(server, tmp_path / "file.bin")
    server.content, server.etag = CONTENT[::-1], '"two"'
    server.heeds_conditions = heeds_conditions
    download(unknown(server), tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT[::-1]
    assert server.conditions[0] == '"one"'


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_validator_it_begins_anew(server: Any, tmp_path: Path, etag: str | None) -> None:
    server.etag = etag
    begun(server, tmp_path / "file.bin")
    server.content = CONTENT[::-1]
    download(unknown(server), tmp_path / "file.bin")
    assert server.asked == [""]
    assert (tmp_path / "file.bin").read_bytes() == CONTENT[::-1]


def test_the_time_of_change_serves_where_there_is_no_etag(server: Any, tmp_path: Path) -> None:
    server.etag, server.modified = None, "Mon, 06 Jan 2020 10:00:00 GMT"
    begun(server, tmp_path / "file.bin")
    download(unknown(server), tmp_path / "file.bin")
    assert server.asked == ["bytes=100000-"] and server.conditions == [server.modified]
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("n_bytes", [1000, len(CONTENT)])
def test_a_part_of_unknown_origin_is_not_continued(
    server: Any, tmp_path: Path, n_bytes: int
) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"x" * n_bytes)
    download(unknown(server), tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_damaged_notes_are_no_notes(server: Any, tmp_path: Path) -> None:
    notes = tmp_path / "file.bin.part.json"
    for text in ("[" * 9999, "{}", json.dumps({"url": server.url, "validator": 'a\r\nHost: "b'})):
        notes.write_text(text)
        (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
        download(unknown(server), tmp_path / "file.bin")
        assert (tmp_path / "file.bin").read_bytes() == CONTENT and not notes.exists()


@pytest.mark.parametrize("tells_length", [True, False])
def test_a_body_without_end_is_cut_off(server: Any, tmp_path: Path, tells_length: bool) -> None:
    server.tells_length, server.repeats = tells_length, 10_000
    seen: list[int] = []
    file, target = unknown(server), tmp_path / "file.bin"
    if tells_length:
        download(file, target, callback=lambda done, total: seen.append(done))
        assert target.read_bytes() == CONTENT
    else:
        with pytest.raises(BadFile, match="sends more than 300000 bytes"):
            download(file, target, callback=lambda done, total: seen.append(done))
        assert not list(tmp_path.iterdir())
    assert max(seen, default=0) <= len(CONTENT)


def test_a_file_of_unknown_size_has_an_end_too(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sghash.data.download.MAX_UNKNOWN_BYTES", 400_000)
    server.tells_length = False
    download(unknown(server, size=None), tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    server.repeats = 10_000
    with pytest.raises(BadFile, match="sends more than 400000 bytes"):
        download(unknown(server, size=None), tmp_path / "other.bin")
    server.tells_length, server.repeats, server.content = True, 1, bytes(500_000)
    with pytest.raises(MissingData, match="announces 500000 bytes, and at most 400000"):
        download(unknown(server, size=None), tmp_path / "other.bin")


def test_a_body_that_is_too_short_is_not_taken(server: Any, tmp_path: Path) -> None:
    server.tells_length, server.content = False, CONTENT[:-1]
    with pytest.raises(MissingData, match="ended early"):
        download(unknown(server), tmp_path / "file.bin")
    assert not (tmp_path / "file.bin").exists()


def test_a_host_that_changes_its_mind_is_given_up(server: Any, tmp_path: Path) -> None:
    turns: list[int] = []

    def other(done: int, total: int) -> None:
        turns.append(done)
        assert len(turns) < 50, "there is no end"
        server.etag, server.drop_after = f'"{len(turns)}"', 50_000 + 1000 * (len(turns) % 2)

    server.drop_after = 50_000
    with pytest.raises(MissingData, match="ended early"):
        download(unknown(server), tmp_path / "file.bin", callback=other)


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/file", "file:///etc/passwd"])
def test_only_http_is_followed(server: Any, tmp_path: Path, address: str) -> None:
    server.redirect = address
    with pytest.raises(MissingData):
        download(unknown(server), tmp_path / "file.bin")
    assert not (tmp_path / "file.bin").exists()


def test_a_protected_connection_is_not_left() -> None:
    asked = urllib.request.Request("https://example.org/file")
    given = (io.BytesIO(), 302, "", {})
    new = _Redirects().redirect_request(asked, *given, "https://example.com/f")
    assert new is not None and new.full_url == "https://example.com/f"
    with pytest.raises(MissingData, match="no safe address"):
        _Redirects().redirect_request(asked, *given, "http://example.org/f")


@pytest.mark.parametrize("kind", ["symlink", "dangling", "hard link", "pipe"])
@pytest.mark.parametrize("name", ["file.bin.part", "file.bin.part.json"])
def test_a_planted_link_leads_nowhere(server: Any, tmp_path: Path, kind: str, name: str) -> None:
    victim, planted = tmp_path / "victim", tmp_path / "cache" / name
    planted.parent.mkdir()
    if kind != "dangling":
        victim.write_bytes(b"precious")
    if kind == "hard link":
        os.link(victim, planted)
    elif kind == "pipe":
        os.mkfifo(planted)
    else:
        planted.symlink_to(victim)
    download(unknown(server), planted.parent / "file.bin")
    assert (planted.parent / "file.bin").read_bytes() == CONTENT
    assert not (planted.parent / "file.bin").is_symlink()
    assert not victim.exists() if kind == "dangling" else victim.read_bytes() == b"precious"


def test_a_first_use_is_recorded_and_told_once(
    server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "file.bin"
    with caplog.at_level(logging.WARNING):
        download(unknown(server), target)
        verify(target, unknown(server))
    assert len(caplog.records) == 1 and SHA256 in caplog.text
    assert json.loads(record_path(target).read_text())["sha256"] == SHA256
    # The same size, another content.
    target.write_bytes(CONTENT[::-1])
    with pytest.raises(BadFile, match="when it was first used"):
        verify(target, unknown(server))
    # Nor is other content taken from the address later on.
    target.unlink()
    server.content = CONTENT[::-1]
    with pytest.raises(BadFile, match="when it was first used"):
        download(unknown(server), target)
    record_path(target).unlink()
    download(unknown(server), target)
    assert target.read_bytes() == CONTENT[::-1]


def test_a_damaged_record_is_refused(server: Any, tmp_path: Path) -> None:
    target = tmp_path / "file.bin"
    download(unknown(server), target)
    for text in ("", "[]", "[" * 5000, '{"sha256": "a"}'):
        record_path(target).write_text(text)
        with pytest.raises(BadFile, match="delete it if you trust"):
            verify(target, unknown(server))


def test_large_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "HASHED_BYTES", 1000)
    read: list[Path] = []
    digests = checking.digests
    monkeypatch.setattr(checking, "digests", lambda *a: read.append(a[0]) or digests(*a))
    for file in (RemoteFile("f", size=300_000), RemoteFile("f", size=300_000, sha256=SHA256)):
        target = tmp_path / f"{file.has_checksum}"
        target.write_bytes(CONTENT)
        verify(target, file)
        verify(target, file)
        assert read == [target]
        read.clear()
        target.write_bytes(CONTENT[::-1])
        os.utime(target, (1, 1))
        with pytest.raises(BadFile, match="sha256"):
            verify(target, file)
        read.clear()


def test_files_that_are_here_are_checked_when_others_are_not(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGHASH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SGHASH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "here.bin").write_bytes(b"x" * len(CONTENT))
    here = RemoteFile("here.bin", server.url, len(CONTENT), SHA256)
    missing = RemoteFile("missing.bin", server.url, len(CONTENT), SHA256)
    entry = Entry("a set", "l2", (1, 1), (1, 1), "none", "", (Variant("npz", (here, missing)),))
    monkeypatch.setitem(CATALOG, "here", entry)
    with pytest.raises(BadFile, match=r"here\.bin has sha256"):
        load_dataset("here")
