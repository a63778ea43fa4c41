"""Ctrl-C, and a polite end by the system, leave nothing half-written: with real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import sghash
from sghash.errors import SghashError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
N_ROWS, WIDTH = 4 * 16384, 256


@pytest.fixture
def place(tmp_path, rng):
    np.save(tmp_path / "vectors.npy", rng.integers(0, 255, (N_ROWS, WIDTH), dtype=np.uint8))
    return tmp_path


def start(place, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "sghash", *map(str, arguments)],
        cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def await_text(process, text):
    """Read stderr until `text` has come; what was read is returned."""
    seen = b""
    while text.encode() not in seen:
        part = os.read(process.stderr.fileno(), 4096)
        assert part, seen.decode()
        seen += part
    return seen.decode()


def end(process, number, seen=""):
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == b"" and "Traceback" not in seen + err.decode()
    # Interrupted inside of exec (as in an import), Python dies of the signal: 130 to a shell.
    code = 130 if process.returncode == -signal.SIGINT else process.returncode
    return code, seen + err.decode()


def entries(place):
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


def compile_before(place):
    """So that nothing is left to compile: interrupted there, Numba complains in its own words."""
    sghash.SGH(32, n_steps=50).fit(np.load(place / "vectors.npy", mmap_mode="r")[:2000])


@pytest.mark.parametrize(("verb", "delay"), [("fit", 0.7), ("create", 0.0)])
def test_while_fitting(place, verb, delay):
    compile_before(place)
    before = entries(place)
    names = {"fit": ("vectors.npy", "new"), "create": ("new", "vectors.npy")}[verb]
    process = start(place, verb, *names, "--bits", 32, "-o", "n_steps=10000000")
    seen = await_text(process, "fitting SGH")
    time.sleep(delay)
    code, text = end(process, signal.SIGINT, seen)
    assert code == 130 and text.endswith("sghash: interrupted\n")
    assert entries(place) == before


@pytest.mark.slow
def test_a_model_that_is_to_be_replaced_stays(place):
    model = sghash.models.LSH(n_bits=8, random_state=0).fit(np.eye(WIDTH, dtype=np.float32))
    model.save(place / "model")
    compile_before(place)
    before = entries(place)
    line = ("fit", "vectors.npy", "model", "--overwrite", "--bits", 32, "-o", "n_steps=10000000")
    process = start(place, *line)
    await_text(process, "fitting SGH")
    time.sleep(0.5)
    assert end(process, signal.SIGINT)[0] == 130
    assert entries(place) == before
    assert sghash.load_model(place / "model").fingerprint_ == model.fingerprint_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "expected", "target"),
    [(signal.SIGINT, 130, "old.npy"), (signal.SIGTERM, 143, "codes.npy")],
)
def test_while_encoding(place, number, expected, target):
    sghash.models.LSH(n_bits=4096, random_state=0).fit(np.eye(WIDTH, dtype=np.float32)).save(
        place / "m"
    )
    (place / "old.npy").write_bytes(b"what was there before")
    before = entries(place)
    process = start(place, "encode", "m", "vectors.npy", target, "--overwrite")
    await_text(process, "encoding")
    # The temporary file is there: it is being written.
    while entries(place) == before:
        assert process.poll() is None
        time.sleep(0.01)
    code, _ = end(process, number)
    assert code == expected and entries(place) == before
    assert (place / "old.npy").read_bytes() == b"what was there before"


@pytest.mark.slow
def test_while_adding_whole_blocks_stay_and_the_rest_can_follow(place):
    model = sghash.models.LSH(n_bits=2048, random_state=0).fit(np.eye(WIDTH, dtype=np.float32))
    sghash.Collection.create(place / "shelf", model).close()
    process = start(place, "add", "shelf", "vectors.npy")
    while not len(sghash.Collection.open(place / "shelf")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    with pytest.raises(SghashError, match="open for writing elsewhere"):
        sghash.Collection.open(place / "shelf", writable=True)
    code, text = end(process, signal.SIGINT)
    assert code == 130, text
    said = re.search(rf"(\d+) of {N_ROWS} vectors are in shelf; .* --start (\d+)\n", text)
    assert said is not None, text
    added = len(sghash.Collection.open(place / "shelf"))
    assert int(said[1]) == int(said[2]) == added and 0 < added < N_ROWS
    assert sghash.Collection.open(place / "shelf").verify().n_rows == added
    rest = start(place, "add", "shelf", "vectors.npy", "--start", added, "--json")
    out, err = rest.communicate(timeout=120)
    assert rest.returncode == 0 and f'"rows": {N_ROWS}'.encode() in out, err
    opened = sghash.Collection.open(place / "shelf")
    assert opened.verify().n_rows == N_ROWS
    ids = np.random.default_rng(0).choice(N_ROWS, 500, replace=False)
    vectors = np.load(place / "vectors.npy", mmap_mode="r")[np.sort(ids)].astype(np.float32)
    np.testing.assert_array_equal(opened.get(np.sort(ids)).codes, model.encode(vectors))


@pytest.mark.slow
def test_at_any_moment_of_adding(place):
    """Whatever the moment, the collection is whole and the number that is told is true."""
    model = sghash.models.LSH(n_bits=1024, random_state=0).fit(np.eye(WIDTH, dtype=np.float32))
    rng = np.random.default_rng(0)
    for attempt in range(20):
        name = f"shelf{attempt}"
        sghash.Collection.create(place / name, model).close()
        process = start(place, "add", name, "vectors.npy")
        await_text(process, "adding")
        time.sleep(rng.uniform(0, 3))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        n_rows = sghash.Collection.open(place / name).verify().n_rows
        said = re.search(r"(\d+) of \d+ vectors are in", err.decode())
        # Interrupted inside of exec (as in an import), Python dies of the signal: 130 to a shell.
        if process.returncode in (130, -signal.SIGINT):
            assert err.decode().endswith("sghash: interrupted\n")
            assert n_rows == (int(said[1]) if said else 0) and n_rows % 16384 == 0
        else:
            assert process.returncode == 0 and n_rows == N_ROWS, (n_rows, err)
