"""Downloads against a server on this machine: resumed, verified, and honest about what failed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sghash.data import open_vectors
from sghash.data.download import RemoteFile, download
from sghash.errors import BadFile, MissingData, StorageError

CONTENT = np.random.default_rng(3).bytes(300_000)  # what the server has


def known(server: Any, **changes: object) -> RemoteFile:
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    file = RemoteFile("file.bin", server.url, len(CONTENT), sha256)
    return file._replace(**changes)


def test_a_file_is_fetched_and_verified(server: Any, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    target = tmp_path / "deep" / "file.bin"
    download(known(server), target, callback=lambda *step: seen.append(step))
    assert target.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]


def test_a_dropped_connection_is_continued(server: Any, tmp_path: Path) -> None:
    server.drop_after = 70_000
    download(known(server), tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    # Each attempt asked only for what was missing.
    assert server.asked == ["", *(f"bytes={n}-" for n in (70_000, 140_000, 210_000, 280_000))]


def test_a_later_call_continues_an_earlier_one(server: Any, tmp_path: Path) -> None:
    server.drop_after = 100_000
    with pytest.raises(MissingData, match="500"):
        download(known(server), tmp_path / "file.bin", callback=_fail_later(server))
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:100_000]
    server.drop_after, server.failures = None, []
    server.asked.clear()
    download(known(server), tmp_path / "file.bin")
    assert server.asked == ["bytes=100000-"]
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_file_that_changed_meanwhile_is_fetched_anew(server: Any, tmp_path: Path) -> None:
    server.failures = []
    server.drop_after = 100_000
    old, server.content = server.content, b"x" * len(CONTENT)
    server.etag = '"old"'
    with pytest.raises(MissingData):
        # Half of the old file arrives, then the server fails for good.
        download(known(server, sha256=None), tmp_path / "file.bin", callback=_fail_later(server))
    assert (tmp_path / "file.bin.part").read_bytes()[:10] == b"x" * 10
    server.content, server.etag, server.drop_after = old, '"new"', None
    server.failures = []
    download(known(server), tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def _fail_later(server: Any):  # type: ignore[no-untyped-def]
    def step(done: int, total: int) -> None:
        server.failures = [500] * 5

    return step


def test_a_server_without_ranges_starts_anew(server: Any, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    download(known(server), tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_longer_part_is_thrown_away(server: Any, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    download(known(server), tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    # The same without a known size: the server says that there is no such range.
    (tmp_path / "again.bin.part").write_bytes(CONTENT + b"more")
    download(known(server, size=None), tmp_path / "again.bin")
    assert (tmp_path / "again.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("check", [{"sha256": "0" * 64}, {"sha256": None, "md5": "0" * 32}])
def test_a_wrong_checksum_leaves_nothing(
    server: Any, tmp_path: Path, check: dict[str, str]
) -> None:
    with pytest.raises(BadFile, match="expected 0000"):
        download(known(server, **check), tmp_path / "file.bin")
    assert not list(tmp_path.iterdir())


def test_another_size_is_refused_before_it_is_fetched(server: Any, tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="announces 300000 bytes, expected 5"):
        download(known(server, size=5), tmp_path / "file.bin")
    assert not (tmp_path / "file.bin").exists()


def test_missing_files_are_not_tried_again(server: Any, tmp_path: Path) -> None:
    server.failures = [404, 404]
    with pytest.raises(MissingData, match="404"):
        download(known(server), tmp_path / "file.bin")
    assert len(server.asked) == 1


def test_passing_failures_are_tried_again(server: Any, tmp_path: Path) -> None:
    server.failures = [503, 500]
    download(known(server), tmp_path / "file.bin")
    assert len(server.asked) == 3


def test_no_server_is_one_sentence(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingData, match="cannot be fetched"):
        download(RemoteFile("f", "http://127.0.0.1:9/f"), tmp_path / "f")
    with pytest.raises(MissingData, match="no public address"):
        download(RemoteFile("f", "ftp://127.0.0.1/f"), tmp_path / "f")


def test_two_processes_do_not_write_one_file(server: Any, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    with open(tmp_path / "file.bin.part", "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="another process"):
            download(known(server), tmp_path / "file.bin")


def test_a_full_disk_is_told_before_it_is_full(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sghash.data.download.shutil.disk_usage", lambda path: type("U", (), {"free": 1000})
    )
    with pytest.raises(StorageError, match="1000 are free"):
        download(known(server), tmp_path / "file.bin")


def test_the_first_rows_of_a_large_file(server: Any, tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).integers(0, 256, (1000, 16), dtype=np.uint8)
    server.content = np.array([1000, 16], "<u4").tobytes() + vectors.tobytes()
    file = RemoteFile("base.u8bin", server.url, 8 + 30 * 16, first_rows=30)
    download(file, tmp_path / "base.u8bin")
    assert np.array_equal(np.asarray(open_vectors(tmp_path / "base.u8bin")), vectors[:30])
    assert server.asked == ["bytes=0-487"]
    server.ranges = False
    with pytest.raises(MissingData, match="in part"):
        download(file, tmp_path / "other.u8bin")
