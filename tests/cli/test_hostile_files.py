"""The command line and files that are none: a sentence at once, never a hang or a traceback."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest


@pytest.fixture
def in_time():
    """An error instead of waiting for ever."""

    def stop(*_):
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "line",
    [
        ("info", "pipe"),
        ("info", "pipe.npy"),
        ("verify", "pipe"),
        ("search", "kept", "pipe.npy"),
        ("search", "kept", "vectors.npy", "--among", "pipe"),
        ("add", "kept", "vectors.npy", "--ids", "pipe"),
        ("add", "kept", "vectors.npy", "--ids", "pipe.npy"),
        ("add", "kept", "vectors.npy", "--metadata", "pipe.csv"),
        ("encode", "model", "pipe.npy", "out.npy"),
        ("encode", "pipe", "vectors.npy", "out.npy"),
        ("create", "new", "--fitted", "pipe"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("in_time")
def test_a_pipe_without_an_end_is_refused_at_once(run, folder, line):
    for name in ("pipe", "pipe.npy", "pipe.csv"):
        os.mkfifo(folder / name)
    out = run(*line, cwd=folder)
    assert out.returncode == 1 and out.stderr.count("\n") == 1, out.stderr
    assert "it hangs" not in out.stderr  # the command makes a sentence of that error, too


@pytest.mark.parametrize("name", ["--ids", "--metadata"])
def test_a_folder_is_no_list(run, folder, name):
    (folder / "some.csv").mkdir()
    out = run("add", "kept", "vectors.npy", name, "some.csv", cwd=folder)
    assert out.returncode == 1 and "some.csv is a folder" in out.stderr


def test_the_output_of_a_command_can_be_a_list(folder):
    """What a shell makes of <(...) is a pipe, but somebody is at its other end."""
    line = f"{sys.executable} -m sghash add kept vectors.npy --ids <(seq 500 559) --json"
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and '"added": 60' in done.stdout, done.stderr


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<i8', 'fortran_order': False, 'shape': (3",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (10000000000000,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (60,), }",
    ],
)
def test_ids_in_a_damaged_npy(run, folder, header):
    text = header.encode()
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(480)
    (folder / "ids.npy").write_bytes(content)
    out = run("add", "kept", "vectors.npy", "--ids", "ids.npy", cwd=folder)
    assert out.returncode == 1 and "not a .npy of whole numbers" in out.stderr, out.stderr


def test_a_type_that_is_none(run, folder):
    out = run("convert", "vectors.npy", "out.npy", "--dtype", "4]", cwd=folder)
    assert out.returncode == 1 and "is no type of numbers" in out.stderr


def test_a_nested_config(run, folder):
    (folder / "model" / "config.json").write_text("[" * 100_000)
    for verb in ("info", "verify"):
        out = run(verb, "model", cwd=folder)
        assert out.returncode == 1 and "config.json is damaged" in out.stderr


def test_arrays_of_a_model_that_do_not_fit(run, folder, vectors):
    import sghash

    model = sghash.load_model(folder / "model")
    model.decoder_ = model.decoder_[:, :1]
    model.save(folder / "model", overwrite=True)
    np.save(folder / "one.npy", vectors[:1])
    out = run("encode", "model", "one.npy", "out.npy", cwd=folder)
    assert out.returncode == 1 and "no usable model" in out.stderr
