"""docs/service.md says what is true: its blocks run against a server, and its tables are whole."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sghash.serve.api.routes import VERBS
from sghash.serve.refusals import STATUSES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "service.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_verb_and_status_is_on_the_page():
    # The first cell of each row of a table, as «`get`, `contains`» or «408, 413, 431».
    cells = re.findall(r"^\| ([^|]+?) \|", TEXT, re.MULTILINE)
    named = {name.strip() for cell in cells for name in cell.split(",")}
    for verb in VERBS:
        assert f"`{verb}`" in named, verb
    for status in STATUSES:
        assert str(status) in named, status


@pytest.mark.slow
def test_every_block_runs_and_prints_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    names: dict = {}
    port, printed, server = "8080", "", None
    try:
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE):
            text = text.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(text, "service.md", "exec"), names)
                printed = out.getvalue()
            elif language == "text":
                assert printed == text
            for line in text.splitlines() if language == "sh" else ():
                if line.startswith("sghash serve"):
                    line = line.replace("8080", "0")  # any port that is free
                    server = subprocess.Popen(
                        line.split(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
                    )
                    port = server.stdout.readline().strip().rpartition(":")[2]
                else:
                    done = subprocess.run(line, shell=True, capture_output=True, text=True)
                    assert done.returncode == 0, (line, done.stderr)
                    assert not line.startswith("curl") or "detail" not in json.loads(done.stdout)
    finally:
        names["notes"].close()
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
        server.stdout.close()
