"""The command line in this process, and a folder with a file of every kind."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from click.shell_completion import BashComplete

import sghash
from sghash.cli import main
from sghash.cli.frame import program


class Outcome(NamedTuple):
    returncode: int
    stdout: str
    stderr: str
    raw: bytes

    @property
    def facts(self) -> Any:
        return json.loads(self.stdout)


@pytest.fixture
def run(monkeypatch):
    """Run `sghash ARGUMENTS` with `stdin` bytes: the entry point, without the imports each time."""

    def call(*arguments, stdin=b"", cwd=None):
        if cwd is not None:
            monkeypatch.chdir(cwd)
        streams = [io.TextIOWrapper(io.BytesIO(data), "utf-8") for data in (stdin, b"", b"")]
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            monkeypatch.setattr(sys, name, stream)
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        for stream in streams[1:]:
            stream.flush()
        out, err = (stream.buffer.getvalue() for stream in streams[1:])
        return Outcome(stop.value.code, out.decode(errors="replace"), err.decode(), out)

    return call


@pytest.fixture
def bash(tmp_path):
    """A line in a real shell, in an empty folder, where `sghash` is this installation's."""

    def call(line, stdin=b""):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line], cwd=tmp_path, input=stdin,
            capture_output=True, env={**os.environ, "PATH": path}, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, (line, done.stderr.decode())
        return done.stdout

    return call


@pytest.fixture
def shell(run, bash, tmp_path):
    """A line in a shell that runs `sghash` in this process: pipes and > are all it knows."""

    def call(line):
        data = b""
        for stage in line.split(" | "):
            words = shlex.split(stage)
            if words[0] != "sghash" or {"&&", "||"} & set(words):
                data = bash(stage, data)
                continue
            target = words[words.index(">") + 1] if ">" in words else None
            out = run(*words[1 : words.index(">") if target else None], stdin=data, cwd=tmp_path)
            assert out.returncode == 0, (line, out.stderr)
            data = out.raw
            if target is not None:
                (tmp_path / target).write_bytes(data)
        return data.decode(errors="replace")

    return call


@pytest.fixture
def vectors(rng):
    return rng.standard_normal((60, 6)).astype(np.float32)


@pytest.fixture
def folder(tmp_path, vectors):
    """vectors.npy, codes.npy, model, index, kept (a collection of 50 rows), ids.txt, year.csv."""
    np.save(tmp_path / "vectors.npy", vectors)
    model = sghash.ITQ(n_bits=16, n_iterations=3, random_state=0).fit(vectors)
    model.save(tmp_path / "model")
    codes = model.encode(vectors)
    np.save(tmp_path / "codes.npy", codes)
    index = sghash.HammingIndex(n_bits=16)
    index.add(codes)
    index.save(tmp_path / "index")
    with sghash.Collection.create(tmp_path / "kept", model, keep_vectors="float32") as kept:
        kept.add(vectors[:50], metadata={"year": list(range(2000, 2050))})
    (tmp_path / "ids.txt").write_text("".join(f"{100 + row}\n" for row in range(60)))
    (tmp_path / "year.csv").write_text("year\n" + "".join(f"{row}\n" for row in range(60)))
    return tmp_path


@pytest.fixture
def offered(folder, monkeypatch):
    """What the shell offers for the last of some words."""
    monkeypatch.chdir(folder)
    completion = BashComplete(program, {}, "sghash", "_SGHASH_COMPLETE")

    def complete(*words):
        items = completion.get_completions(list(words[:-1]), words[-1])
        return [item.value if item.type == "plain" else item.type for item in items]

    return complete
