"""`-` is stdin or stdout for every verb alike."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import sghash
from sghash.data.readers.text import numbers_of


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def as_text(array, form):
    lines = {
        "json": [str(row.tolist()) for row in array],
        "blanks": [" ".join(map(repr, row.tolist())) for row in array],
        "commas": [", ".join(map(repr, row.tolist())) for row in array],
    }[form]
    return ("\n".join(lines) + "\n\n").encode()


@pytest.mark.parametrize("form", ["npy", "json", "blanks", "commas"])
def test_vectors_come_from_stdin(run, folder, vectors, form):
    data = npy(vectors) if form == "npy" else as_text(vectors, form)
    out = run("convert", "-", "new.npy", stdin=data, cwd=folder)
    assert out.returncode == 0, out.stderr
    np.testing.assert_array_equal(np.load(folder / "new.npy"), vectors)
    answers = run("search", "kept", "-", "--k", 2, "--json", stdin=data, cwd=folder).facts
    assert answers == run("search", "kept", "vectors.npy", "--k", 2, "--json", cwd=folder).facts


def test_every_verb_reads_the_same_stdin(run, folder, vectors):
    data = npy(vectors)
    for line in (
        ("fit", "-", "m", "--model", "LSH"),
        ("encode", "model", "-", "c.npy"),
        ("create", "c", "-", "--model", "LSH"),
        ("add", "kept", "-"),
        ("evaluate", "-", "--models", "LSH", "--bits", "8"),
        ("info", "-"),
    ):
        out = run(*line, stdin=data, cwd=folder)
        assert out.returncode == 0 and out.stdout, (line, out.stderr)
    np.testing.assert_array_equal(np.load(folder / "c.npy"), np.load(folder / "codes.npy"))
    assert len(sghash.Collection.open(folder / "kept")) == 110
    ids = run("add", "kept", "vectors.npy", "--ids", "-", stdin=b"x%d\n" * 60 % tuple(range(60)))
    assert ids.returncode == 0 and "x59" in sghash.Collection.open(folder / "kept")


def test_codes_and_vectors_go_to_stdout_and_words_to_stderr(run, folder, vectors):
    encoded = run("encode", "model", "vectors.npy", "-", "--json", cwd=folder)
    assert encoded.raw == npy(np.load(folder / "codes.npy")) and '"n": 60' in encoded.stderr
    decoded = run("decode", "model", "-", "-", stdin=encoded.raw, cwd=folder)
    restored = np.load(io.BytesIO(decoded.raw))
    expected = sghash.load_model(folder / "model").decode(np.load(folder / "codes.npy"))
    np.testing.assert_array_equal(restored, expected)
    small = run("convert", "vectors.npy", "-", "--dtype", "float16", "--stop", 3, cwd=folder)
    np.testing.assert_array_equal(np.load(io.BytesIO(small.raw)), vectors[:3].astype(np.float16))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "stdin is empty"),
        (b"\n\n", "empty lines only"),
        (b"a b\n", "line 1: expected numbers"),
        (b"1 2\n3\n", "line 2: 1 numbers, 2 before"),
        (b"[1, [2]]\n", "expected numbers"),
        (b"[true]\n", "expected numbers"),
        (b"[NaN]\n", "expected numbers"),
        (b'{"a": 1}\n', "expected numbers"),
        (b"[" * 200_000, "expected numbers"),
        (b"\x00\x01\x02\x03\x04\x05", "neither .npy nor text"),
        (b"PK\x03\x04 and so on", "expected numbers"),
        (b"\xff\xff\n", "UTF-8"),
        (npy(np.zeros((3, 6)))[:-5], "stdin, byte"),
        (npy(np.zeros((2, 3, 6))), "two dimensions"),
        (npy(np.zeros(5)), "5 columns, expected 6"),
        (npy(np.zeros((3, 6))) + b"x", "stdin, byte"),
        (b"1 2 3\n", "columns, expected 6"),
        (b"nan " * 6, "NaN"),
        (b"1e300 " * 6, "infinite"),
        (b"1 " * (1 << 20) + b"1", "line 1: longer than 2097152 bytes"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(run, folder, data, said):
    out = run("search", "kept", "-", stdin=data, cwd=folder)
    assert out.returncode == 1 and out.stdout == "" and said in out.stderr, out.stderr


def test_stdin_is_read_once(run, folder, vectors):
    out = run("add", "kept", "-", "--ids", "-", stdin=npy(vectors), cwd=folder)
    assert out.returncode == 1 and "one argument only" in out.stderr


def test_the_copy_of_stdin_is_gone(run, folder, vectors, tmp_path_factory, monkeypatch):
    place = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(place))
    assert run("info", "-", stdin=npy(vectors), cwd=folder).returncode == 0
    assert run("info", "-", stdin=b"1 2\n3\n", cwd=folder).returncode == 1
    assert list(place.iterdir()) == []


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_a_line_of_numbers_is_read_as_it_was_written(values):
    for text in (str(values), " ".join(map(repr, values)), ",".join(map(repr, values))):
        assert numbers_of(text, 1) == values


@pytest.mark.slow
def test_pipes_between_processes(folder, vectors):
    sghash_ = f"{sys.executable} -m sghash"
    line = f"{sghash_} encode model - - < vectors.npy | {sghash_} decode model - - > r.npy"
    done = subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert np.load(folder / "r.npy").shape == vectors.shape
    closed = subprocess.run(
        f"{sghash_} info - <&-; {sghash_} encode model vectors.npy - | head -c 1 > /dev/null",
        shell=True, cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "Traceback" not in closed.stderr and "stdin is closed" in closed.stderr


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_numbers_are_not_for_a_terminal(folder):
    leader, follower = os.openpty()
    line = [sys.executable, "-m", "sghash", "convert", "vectors.npy", "-"]
    done = subprocess.run(
        line, cwd=folder, stdout=follower, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(leader)
    os.close(follower)
    assert done.returncode == 1 and "not for a terminal" in done.stderr
