"""The log's two notes of its acknowledged end: one of them is whole at every moment."""

from __future__ import annotations

import os

import pytest

from sghash.collection.storage import log as logs

IDENTITY = "ab" * 16


@pytest.mark.parametrize("torn", [0, 1])
def test_a_second_crash_while_notes_are_mended_loses_nothing(tmp_path, monkeypatch, torn):
    path = tmp_path / "log"
    logs.create_log(path, IDENTITY, [b"one", b"two"])
    contents = logs.read_log(path)
    with open(path, "r+b") as stream:
        stream.seek((512, 1024)[torn])
        stream.write(b"\xff" * 6)
    assert logs.read_log(path).payloads == contents.payloads

    def tear(number, data):
        os.write(number, b"\xff" * (len(data) // 2))
        raise OSError(5, "the power is gone")

    monkeypatch.setattr(logs, "write_all", tear)
    with pytest.raises(OSError, match="cannot write"):
        logs.LogWriter(path, IDENTITY, contents.ends[-1], contents.place)
    monkeypatch.undo()
    assert logs.read_log(path).payloads == contents.payloads
    logs.LogWriter(path, IDENTITY, contents.ends[-1], contents.place).close()
    assert logs.read_log(path).acknowledged == contents.ends[-1]
